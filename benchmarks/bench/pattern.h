/* SPDX-License-Identifier: BSD-3-Clause */
/* pattern: bytes that differ by block and by place in the block, so that a byte in a wrong place is found. */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/** Fills a block of `bytes` (a multiple of 8) with the pattern of block `id` of the producer. */
void pattern_fill(char *block, uint64_t bytes, uint32_t id);

/** Whether every byte of the block is as the pattern says. If not, *at is the first wrong byte. */
bool pattern_check(const char *block, uint64_t bytes, uint32_t id, uint64_t *at);

#endif
