/* SPDX-License-Identifier: BSD-3-Clause */
/* pattern: bytes that tell a block and a place in it from all others, so that a byte in the wrong place is seen. */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/** Fills a block of `bytes` (a multiple of 8) with the pattern of block `id` of the producer. */
void pattern_fill(char *block, uint64_t bytes, uint32_t id);

/** Whether it holds that pattern, every byte. Where not, *at is the first wrong byte. */
bool pattern_check(const char *block, uint64_t bytes, uint32_t id, uint64_t *at);

#endif
