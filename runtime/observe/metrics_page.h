/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics_page: one rank's metrics as a file in shared memory, which processes of the same user read.
 *
 * The file is a head, then a metrics_body. The writer renews it by a sequence lock: its number is odd while it writes.
 * It never waits for a reader, and a reader never writes. The writer holds the file for life (base/lockfile.h): a page
 * that nobody holds is that of a dead process. Processes that the writer forks do not have it.
 *
 * The file lies in a folder of the user's own (metrics_folder.h), which stands in a root folder, METRICS_ROOT but in
 * tests. Its name is the job's name, METRICS_MARK and the rank; a further page of the same rank has ".1" to ".7" behind
 * it.
 * Pages that have a name of their own go with their context. Where the job's name was given from outside, the page
 * stays, so that whoever gave it can read the last counts; it removes the page then.
 */
#ifndef BATON_OBSERVE_METRICS_PAGE_H
#define BATON_OBSERVE_METRICS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "observe/metrics.h"
#include "observe/metrics_folder.h"

#define METRICS_ROOT "/dev/shm"
#define METRICS_NAME_BYTES 65 /* of a job's name, NUL included: letters, digits, '.', '_' and '-' */
#define METRICS_MARK "@"      /* is in no job's name */
#define METRICS_SAME_RANK 8   /* pages of one job and rank */
#define METRICS_MOST 4096     /* pages that are looked at on a host */
#define METRICS_LAYOUT 1      /* raised with every change of metrics_body */

/* ---- the rank's side: any thread, but one at a time -------------------------------------------------------------- */

struct metrics_page;

bool metrics_name_is_good(const char *name);

/** Makes the page, with all its memory. 0 or an errno. `stays`: it is not removed with its context. */
int metrics_page_create(const char *root, const char *job, uint32_t rank, bool stays, struct metrics_page **out);
/** Brings it up to date: what of the body is in `changes` (metrics_take_changes). Microseconds. */
void metrics_page_renew(struct metrics_page *p, const struct metrics_body *body, uint32_t changes);
/** Another thread, at any time: the rank has been stuck since that time of the real-time clock; 0: it goes on. */
void metrics_page_stall(struct metrics_page *p, uint64_t since_ns);
/** NULL is ignored. */
void metrics_page_destroy(struct metrics_page *p);

/**
 * Removes pages of this user's processes that are dead; those that stay, a minute after they were last renewed. Files
 * of such a name that are empty, or are pages no further, go too where nobody holds them (base/lockfile.h), and so does
 * a folder that is empty then.
 */
void metrics_pages_sweep(const char *root);

/* ---- the readers' side ------------------------------------------------------------------------------------------- */

#define METRICS_WHY_BYTES 256

struct metrics_view {
    bool is_alive;       /* the process that made the page has it still */
    uint64_t stalled_ns; /* since when it is stuck inside MPI; 0: it is not */
    struct metrics_body body;
};

#define METRICS_NO_PAGE (-1)
#define METRICS_FOREIGN (-2)

/**
 * A descriptor. METRICS_FOREIGN: the page is another user's, who may write there what he likes; unless `of_anybody`.
 * METRICS_NO_PAGE with *why: there is no such page, or it has another layout than this program reads. Without a reason:
 * its rank is making it just now.
 */
int metrics_view_open(const char *path, bool of_anybody, char why[METRICS_WHY_BYTES]);
/**
 * Reads the page. False, and *view unchanged but for is_alive: it is written all the time, or its process died or was
 * stopped while it wrote. Texts are terminated, and counts of rows within bounds.
 */
bool metrics_view_read(int fd, struct metrics_view *view);

/** Characters that are not printable ASCII become '?': a terminal obeys some, and not all are text. */
void metrics_text_clean(char *text);

/**
 * Calls `found` for each page of this user, or of any, of METRICS_MOST at most; `job`: only those of that name, or
 * NULL. None is looked into. Returns how many folders of others it left out.
 */
uint32_t metrics_pages_find(const char *root, const char *job, bool of_anybody,
                            void (*found)(void *arg, const char *path), void *arg);

#endif
