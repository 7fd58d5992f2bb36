/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: what the shim of a rank tells batonrun: that it is there, that its program was asked to end, how the program
 * ended. batonrun's exit status comes from the reports. mpirun's own status would not do: under --enable-recovery it is
 * 0 although ranks were lost, and where mpirun itself ended the other ranks, it may be theirs instead of that of the
 * rank at fault.
 *
 * Reports travel on mpirun's standard error, among what the ranks print, so the hosts need not share anything else. A
 * report is a few bytes between a tag, which no other run has, and an end mark. batonrun takes it out wherever it
 * stands, also in the middle of a line. A shim writes a report in one piece, and only when nothing that its rank
 * printed waits in the pipe: so mpirun reads it whole and hands it on whole.
 */
#ifndef BATON_LAUNCH_REPORT_H
#define BATON_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_TAG_BYTES 32  /* NUL included */
#define REPORT_HOST_BYTES 65 /* NUL included */
#define REPORT_MAX 256       /* bytes of one report */

/* A report replaces those of its rank that stand before it here. */
enum report_kind { REPORT_NONE, REPORT_HERE, REPORT_TOLD, REPORT_ENDED };

struct report {
    enum report_kind kind; /* the last that came */
    int status;            /* as a shell gives it; of REPORT_TOLD: what counts if no other report comes */
    bool told;             /* the program was asked to end: whatever its status is, it is not at fault */
    uint64_t ended_ns;     /* by the real-time clock, the only one that hosts share */
    char host[REPORT_HOST_BYTES];
};

/** A tag for this run. */
void report_tag(char tag[REPORT_TAG_BYTES]);

/** The part of the tag that is a name: of 16 digits. */
void report_name(const char *tag, char name[REPORT_TAG_BYTES]);

/** Writes a report of this moment and host to standard error. 0 or an errno. Blocks for 1.5 seconds at most. */
int report_send(const char *tag, uint32_t rank, enum report_kind kind, int status, bool told);

/* ---- batonrun's side --------------------------------------------------------------------------------------------- */

struct report_stream {
    const char *tag;
    struct report *reports; /* of `ranks` ranks, the caller's */
    uint32_t ranks;
    size_t length;
    char held[2 * REPORT_MAX]; /* what may be the beginning of a report */
};

/** Takes bytes of the stream. Those that belong to no report go to `pass`, in their order. */
void report_feed(struct report_stream *s, const char *bytes, size_t count,
                 void (*pass)(void *to, const char *bytes, size_t count), void *to);

/** The stream has ended, or pauses: the bytes that are held are not a report, and go to `pass`. */
void report_flush(struct report_stream *s, void (*pass)(void *to, const char *bytes, size_t count), void *to);

/** Of the ranks that failed although nobody had asked them to end, the one that ended first. -1: there is none. */
int64_t report_culprit(const struct report *reports, uint32_t ranks);

#endif
