/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: what a rank's shim tells batonrun: that it is there, that its program was asked to end, how that ended. The exit
 * status of the whole comes from these: mpirun's own is 0 where ranks were lost under its recovery, and not that of the
 * rank at fault where it ended the others itself.
 *
 * Reports travel with what the ranks print, on mpirun's standard error, so that hosts need share nothing else. A report is
 * a few bytes between a tag, which no other run has, and an end; batonrun takes them out wherever they stand, in the
 * middle of a line too. A shim sends one only when nothing that its rank printed waits in the pipe, and in one write: so
 * mpirun reads it whole and hands it on whole.
 */
#ifndef BATON_LAUNCH_REPORT_H
#define BATON_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_TAG_BYTES 32  /* NUL included */
#define REPORT_HOST_BYTES 65 /* NUL included */
#define REPORT_MAX 256       /* bytes of one report */

/* In this order: a later one of a rank replaces an earlier one. */
enum report_kind { REPORT_NONE, REPORT_HERE, REPORT_TOLD, REPORT_ENDED };

struct report {
    enum report_kind kind; /* the last that came */
    int status;            /* as a shell gives it; of REPORT_TOLD, what it will be if nothing more is heard */
    bool told;             /* it had been asked to end: whatever its status is, it is not at fault */
    uint64_t ended_ns;     /* of the real-time clock, the only one that hosts share */
    char host[REPORT_HOST_BYTES];
};

/** A tag for this run. */
void report_tag(char tag[REPORT_TAG_BYTES]);

/** Writes a report as of now, from this host, to standard error. 0 or an errno; never blocks for long. */
int report_send(const char *tag, uint32_t rank, enum report_kind kind, int status, bool told);

/* ---- batonrun's side --------------------------------------------------------------------------------------------- */

struct report_stream {
    const char *tag;
    struct report *reports; /* of `ranks` ranks, the caller's */
    uint32_t ranks;
    size_t length;
    char held[2 * REPORT_MAX]; /* what may be the beginning of a report */
};

/** Takes bytes of the stream; what is no report goes to `pass`, in its order. */
void report_feed(struct report_stream *s, const char *bytes, size_t count,
                 void (*pass)(void *to, const char *bytes, size_t count), void *to);

/** The stream has ended, or pauses: what is held is no report. */
void report_flush(struct report_stream *s, void (*pass)(void *to, const char *bytes, size_t count), void *to);

/** The rank whose failure came first, of those nobody had asked to end; -1: none. */
int64_t report_culprit(const struct report *reports, uint32_t ranks);

#endif
