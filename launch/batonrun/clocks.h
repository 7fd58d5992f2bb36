/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clocks: how far the clocks of machines stand apart, found from messages between them. Pure.
 *
 * A message takes time, so its end lies behind its beginning, whatever its receiver's clock says. Of two machines that
 * send to each other, the quickest message of each direction bounds the difference of their clocks from both sides;
 * the middle is taken, and is wrong by half of what lies between the bounds at most. Machines that send no messages to
 * each other are compared by way of others.
 */
#ifndef BATON_LAUNCH_CLOCKS_H
#define BATON_LAUNCH_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCKS_MAX 1024 /* machines */

struct clocks {
    uint32_t num;
    int64_t *least; /* of each pair: the shortest time that a message took by the two clocks; INT64_MAX: none came */
};

/** Against the first machine. */
struct clock_place {
    bool is_known;
    int64_t ahead_ns, within_ns;
};

/** Up to CLOCKS_MAX. False: no memory. */
bool clocks_init(struct clocks *c, uint32_t machines);
void clocks_fini(struct clocks *c);

/** A message: `ns` is its end by the clock of `to`, less its beginning by the clock of `from`. |ns| < 2^61. */
void clocks_message(struct clocks *c, uint32_t from, uint32_t to, int64_t ns);

/** Fills places[0 .. num), each from the neighbour that it can be compared with best. */
void clocks_place(const struct clocks *c, struct clock_place *places);

#endif
