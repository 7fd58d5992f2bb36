/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked: see forked.h. The page stays until the process ends. It says that contexts were opened, even after they were
 * closed: a forked child can open none, since MPI belongs to its parent.
 */
#include "base/forked.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK /* headers of before glibc 2.28 */
#define MADV_WIPEONFORK 18
#endif

static const atomic_uchar nothing_opened = 1;

const atomic_uchar *_Atomic forked_mark = &nothing_opened;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uchar *page;
static int failed;

static void clear(void)
{
    atomic_store_explicit(page, 0, memory_order_relaxed);
}

static void watch(void)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        failed = errno;
        return;
    }
    page = at;
    if (madvise(at, bytes, MADV_WIPEONFORK) != 0)
        failed = pthread_atfork(NULL, NULL, clear);
    if (failed != 0) {
        munmap(at, bytes);
        return;
    }
    atomic_store_explicit(page, 1, memory_order_relaxed);
    atomic_store_explicit(&forked_mark, page, memory_order_release);
}

int forked_watch(void)
{
    pthread_once(&once, watch);
    return failed;
}
