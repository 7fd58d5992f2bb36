/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: see pages.h. */
#include "topo/pages.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int pages_ask(unsigned long count, void **pages, int *status)
{
    return syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) == 0 ? 0 : errno;
}

struct pages_count pages_count(const void *base, uint64_t bytes, uint32_t node, pages_ask_fn ask)
{
    void *pages[PAGES_SAMPLE];
    int status[PAGES_SAMPLE];
    struct pages_count c = {0};
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), all = (bytes + page - 1) / page;
    const uint64_t n = all < PAGES_SAMPLE ? all : PAGES_SAMPLE;
    for (uint64_t i = 0; i < n; i++)
        pages[i] = (char *)(uintptr_t)base + i * all / n * page;
    if (n > 0)
        c.error = ask(n, pages, status);
    if (c.error != 0)
        return c;
    c.asked = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++) {
        c.there += status[i] >= 0 && (uint32_t)status[i] == node;
        c.other += status[i] >= 0 && (uint32_t)status[i] != node;
    }
    return c;
}
