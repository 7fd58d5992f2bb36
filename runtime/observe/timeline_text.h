/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_text: the lines of a timeline's file: one trace event each, an object of JSON and a comma. Pure functions.
 *
 * A rank is a process of the trace. Its thread "turns" has messages and the copies of whoever makes turns, one after
 * another; each copy worker is a thread. Calls, legs and batches overlap, so each is a track of its own: asynchronous
 * events with a local id. A call is a slice from queued to reported, a leg one from leased to fenced or stopped, with
 * its bytes in it, from the first to the last. Arrows lead from SENT to HEARD, by bind_id. The moments of the table in
 * timeline.h stand in args.moment.
 */
#ifndef BATON_OBSERVE_TIMELINE_TEXT_H
#define BATON_OBSERVE_TIMELINE_TEXT_H

#include "observe/timeline.h"

#define TIMELINE_TEXT_MAX 640 /* bytes of the text of one record, at most */

/** The state of writing one rank's text. Zeroed but for `rank`. */
struct timeline_text {
    uint32_t rank;
    uint64_t edge_ns; /* on the thread "turns", nothing begins before it */
    uint64_t batches;
};

/** Writes the lines of a record, and returns how many bytes these are. No NUL. */
size_t timeline_text_record(struct timeline_text *text, const struct timeline_record *r, char *out);

/**
 * The first lines: the array's bracket, the names of the rank and its threads, and the clock: `boot` names the machine
 * and the boot since which `ns` counts, realtime_ns is the same moment by the machine's calendar clock.
 */
size_t timeline_text_begin(const struct timeline_wish *wish, const char *boot, uint64_t ns, uint64_t realtime_ns,
                           char *out);
/** How many records were left out so far; the last line, with the closing bracket, unless there is `more`. */
size_t timeline_text_dropped(const struct timeline_text *text, uint64_t ns, uint64_t dropped, bool more, char *out);

#endif
