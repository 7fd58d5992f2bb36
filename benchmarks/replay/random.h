/* SPDX-License-Identifier: BSD-3-Clause */
/* random: one good 64-bit mixer, and the sequence made of it (splitmix64). The same on every rank and machine. */
#ifndef REPLAY_RANDOM_H
#define REPLAY_RANDOM_H

#include <stdint.h>

/** A bijection of 64 bits: inputs that differ anywhere give outputs that differ everywhere. */
static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** The next number of the sequence that *state is at. */
static inline uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return random_mix(*state);
}

/** A number below `end` (at least 1), evenly spread. */
static inline uint32_t random_below(uint64_t *state, uint32_t end)
{
    return (uint32_t)(((random_next(state) >> 32) * end) >> 32);
}

#endif
