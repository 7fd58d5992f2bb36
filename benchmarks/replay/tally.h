/* SPDX-License-Identifier: BSD-3-Clause */
/* tally: what one rank counts in one phase. All fields are 64-bit numbers, so that all ranks' tallies can be added as
   arrays. */
#ifndef REPLAY_TALLY_H
#define REPLAY_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "baton.h"

struct tally {
    uint64_t wants[5], offers[5]; /* by how they ended, a baton_status_t; [0]: all */
    uint64_t refused;             /* calls that returned an error other than BATON_EAGAIN */
    uint64_t postponed;           /* calls that returned BATON_EAGAIN, and were repeated */
    uint64_t path_bytes[BATON_PATHS];
    uint64_t wanted_bytes;  /* bytes that were demanded by all wants */
    uint64_t payload_bytes; /* and by those that were done */
    uint64_t held_wants;    /* wants that were done, and held a leading part already */
    uint64_t empty_wants;   /* wants that were done, and held all of it */
    uint64_t miscounted;    /* wants whose event named another number of bytes than was demanded */
    uint64_t mismatches;    /* elements */
    uint64_t fill_bytes, fill_ns, verify_bytes, verify_ns;
    uint64_t handshakes, handshake_ns;
    uint64_t peers[BATON_PATHS]; /* ordered pairs of ranks, by path */
};

#define TALLY_NUMBERS (sizeof(struct tally) / sizeof(uint64_t))

/** One want that was done. */
struct tally_sample {
    uint64_t total_ns, wait_ns, move_ns; /* move: total less wait */
};

/** Moments of one request, on the clock that all ranks of a machine share. 0: not on this rank. Of several ranks the
   last one counts. */
struct tally_moments {
    uint64_t filled_ns, wanted_ns, received_ns; /* filled: the last of its bytes are in place */
};

#define TALLY_MOMENTS (sizeof(struct tally_moments) / sizeof(uint64_t))

struct tally_samples {
    size_t count, room;
    struct tally_sample *at;
};

#endif
