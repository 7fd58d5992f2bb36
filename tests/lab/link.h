/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: one direction of a network link that delays, loses, doubles, reorders and throttles frames as it is told. It
 * reads no clock and does no input or output: the caller gives it the time, and a seed that decides every chance.
 */
#ifndef BATON_TESTS_LAB_LINK_H
#define BATON_TESTS_LAB_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_FRAME_MAX 9216                       /* bytes of a frame */
#define LINK_QUEUE_MAX 4096                       /* frames under way */
#define LINK_QUEUE 1000                           /* the same, where the settings do not say how many */
#define LINK_SURE 10000u                          /* a chance of 100 % */
#define LINK_OVERTAKEN_NS (2 * UINT64_C(1000000)) /* the delay of a frame that others are to overtake */

struct link_settings {
    uint64_t delay_ns, jitter_ns;      /* each frame takes the delay, and up to the jitter more */
    uint64_t rate;                     /* bits a second; 0: no limit */
    uint32_t loss, duplicate, reorder; /* the chances of each frame, out of LINK_SURE */
    uint32_t queue;                    /* frames under way at most; those beyond are lost */
    bool cut;
};

/** What became of frames. taken + duplicated = given + lost + cut + full + those under way. */
struct link_counts {
    uint64_t taken, given, lost, duplicated, reordered, cut, full;
};

struct link;

/**
 * Reads words such as "delay_ms=50 jitter_ms=2 loss=2 duplicate=5 reorder=0.5 rate_mbit=100 queue=1000 cut"; chances
 * are per cent. What no word names is as in a good link, so "" makes a good link. False: `bad` is the word that is
 * wrong.
 */
bool link_settings_parse(const char *text, struct link_settings *out, char *bad, size_t bad_size);

/** A good link with nothing under way. NULL: no memory. */
struct link *link_create(uint64_t seed);
void link_destroy(struct link *l);

/** The settings hold from now on. A cut also loses the frames under way. */
void link_set(struct link *l, const struct link_settings *s);

/** A frame of at most LINK_FRAME_MAX bytes enters. */
void link_take(struct link *l, uint64_t now_ns, const void *frame, uint32_t size);

/** When the next frame is due; UINT64_MAX: none is under way. */
uint64_t link_due_ns(const struct link *l);

/** Copies out the next frame that is due. Returns its size; 0: none is due. */
uint32_t link_give(struct link *l, uint64_t now_ns, uint8_t frame[LINK_FRAME_MAX]);

const struct link_counts *link_counts(const struct link *l);

#endif
