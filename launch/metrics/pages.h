/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages: the metrics of the ranks of this host, as their pages in shared memory show them. What was read last is kept
 * when a page goes, so that a rank that has ended is shown as such.
 */
#ifndef BATON_LAUNCH_METRICS_PAGES_H
#define BATON_LAUNCH_METRICS_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "observe/metrics_page.h"

#define PAGES_MOST 8192

/** One context of one rank. */
struct pages_rank {
    char job[METRICS_NAME_BYTES];
    uint32_t context; /* of several that a rank has in a world of this name: 0, 1, ... */
    uint32_t number;  /* the rank, by the page's name */
    uint32_t user;    /* whose page it is; 0 where it was read from a file */
    bool is_there;    /* its page was found by the last look */
    struct metrics_view view;
};

struct pages {
    const char *root; /* of the folders that pages lie in: METRICS_ROOT */
    const char *job;  /* NULL: of all jobs */
    bool of_anybody;  /* pages of other users too */
    struct pages_rank **ranks;
    uint32_t num, room;
    char why[METRICS_WHY_BYTES]; /* the last page that could not be read; empty: there was none */
};

/** The entry of that rank, old or new. NULL, and p->why says so: no memory, or there are PAGES_MOST. */
struct pages_rank *pages_entry(struct pages *p, const char *job, uint32_t number, uint32_t context, uint32_t user);
/** By job, rank, context and user. */
void pages_sort(struct pages *p);
/** Frees all entries. */
void pages_forget(struct pages *p);
/** Frees the entries that are not there, but for those of one job; NULL: of every job. */
void pages_drop_gone(struct pages *p, const char *but);

/** Reads all pages. By job, rank and context the ranks are in order afterwards. False, and why: some are missing. */
bool pages_look(struct pages *p);
void pages_fini(struct pages *p);

/** The ranks of one job, within those that were found. */
struct pages_job {
    const char *name;
    struct pages_rank **ranks;
    uint32_t num;
};

/** The job of p->ranks[first] and those behind it, of sorted ones. */
struct pages_job pages_job_at(const struct pages *p, uint32_t first);
/**
 * The job to show: the one that was `shown` before, while a rank of it is alive; else the only one that has such a
 * rank; else the one shown before, or the first. num is 0 where there is none. *several: one must be named. Until the
 * next look.
 */
struct pages_job pages_choose(const struct pages *p, const char *shown, bool *several);

/** Removes the pages of a job, once all its ranks have ended: until then, they count for whoever reads these next. */
void pages_remove(const char *root, const char *job);

/* ---- who removes them -------------------------------------------------------------------------------------------- */

/**
 * Says that this process reads the pages of that job on this host, and will remove them: the shims of the ranks do not.
 * A descriptor to keep open until then, or -1 with errno.
 */
int pages_claim(const char *root, const char *job);
void pages_unclaim(const char *root, const char *job, int fd);
bool pages_are_claimed(const char *root, const char *job);

#endif
