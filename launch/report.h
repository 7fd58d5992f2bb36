/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: how one rank ended, as a file that its shim leaves in a folder for batonrun. The exit status of the whole
 * comes from these: mpirun's own is 0 where ranks were lost under its recovery, and not that of the rank at fault where
 * it ended the others itself.
 */
#ifndef BATON_LAUNCH_REPORT_H
#define BATON_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct report {
    bool present;
    int status;        /* as a shell gives it */
    bool told;         /* it had been asked to end: whatever its status is, it is not at fault */
    uint64_t ended_ns; /* of the real-time clock, the only one that hosts share */
};

/** Writes the report of a rank as of now, in place of a former one, whole or not at all. 0 or an errno. */
int report_write(const char *folder, uint32_t rank, int status, bool told);

/** Reads a report and removes its file; not present where there is none that can be read. */
struct report report_take(const char *folder, uint32_t rank);

/** The rank whose failure came first, of those nobody had asked to end; -1: none. */
int64_t report_culprit(const struct report *reports, uint32_t ranks);

#endif
