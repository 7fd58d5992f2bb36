/* SPDX-License-Identifier: BSD-3-Clause */
/* number: decimal numbers within a text that goes on behind them. */
#ifndef BATON_BASE_NUMBER_H
#define BATON_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/** Reads digits at *at, a number up to `most`, and moves *at behind them. False, and nothing moves: there is none. */
static inline bool number_take(const char **at, uint32_t most, uint32_t *out)
{
    uint64_t n = 0;
    const char *c = *at;
    for (; *c >= '0' && *c <= '9' && n <= most; c++)
        n = n * 10 + (uint64_t)(*c - '0');
    if (c == *at || n > most)
        return false;
    *at = c;
    *out = (uint32_t)n;
    return true;
}

/** Reads "4", or "4(x2)", Slurm's form where it comes again: the number, and how often. False: it is malformed. */
static inline bool number_take_times(const char **at, uint32_t most, uint32_t *out, uint32_t *times)
{
    *times = 1;
    if (!number_take(at, most, out))
        return false;
    if ((*at)[0] != '(' || (*at)[1] != 'x')
        return true;
    *at += 2;
    return number_take(at, most, times) && *(*at)++ == ')';
}

#endif
