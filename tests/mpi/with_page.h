/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_page: this rank's page of metrics, under a name of the process' own. Contexts that are opened between page_begin
 * and page_end have one, which page_remove removes.
 */
#ifndef BATON_TESTS_WITH_PAGE_H
#define BATON_TESTS_WITH_PAGE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "observe/metrics_page.h"

static inline void page_name(char *name, size_t size)
{
    snprintf(name, size, "test-%d", (int)getpid());
}

static inline void page_path_of(const char *job, char *path, size_t size)
{
    snprintf(path, size, METRICS_ROOT "/" METRICS_FOLDER_PREFIX "%u/%s" METRICS_MARK "%d", (unsigned)geteuid(), job,
             harness.rank);
}

static inline void page_path(char *path, size_t size)
{
    char name[METRICS_NAME_BYTES];
    page_name(name, sizeof name);
    page_path_of(name, path, size);
}

static inline void page_remove(void)
{
    char path[128];
    page_path(path, sizeof path);
    unlink(path);
    metrics_folders_tidy(METRICS_ROOT);
}

static inline void page_begin(void)
{
    char name[METRICS_NAME_BYTES];
    page_name(name, sizeof name);
    page_remove(); /* of an earlier process of this number */
    setenv("BATON_METRICS", name, 1);
}

static inline void page_end(void)
{
    unsetenv("BATON_METRICS");
}

/** What the page says now, always in the same place. */
static inline const struct metrics_view *page_read(void)
{
    static struct metrics_view view;
    char path[128], why[METRICS_WHY_BYTES] = "its page cannot be read";
    page_path(path, sizeof path);
    memset(&view, 0, sizeof view);
    int fd = metrics_view_open(path, false, why);
    if (!CHECK(fd >= 0 && metrics_view_read(fd, &view)))
        fprintf(stderr, "# rank %d: %s\n", harness.rank, why);
    if (fd >= 0)
        close(fd);
    return &view;
}

#endif
