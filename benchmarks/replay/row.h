/* SPDX-License-Identifier: BSD-3-Clause */
/* row: the channels of one head of one token: start, start + step, start + 2 step …, modulo the element's size. */
#ifndef REPLAY_ROW_H
#define REPLAY_ROW_H

#include <stdbool.h>
#include <stdint.h>

struct row_code {
    uint32_t start, step; /* step is odd */
};

/** Writes `count` elements of elem_bytes (1, 2 or 4), at an address aligned to that. */
void row_fill(void *row, uint32_t count, uint32_t elem_bytes, struct row_code code);

/** Whether all of them are there. */
bool row_matches(const void *row, uint32_t count, uint32_t elem_bytes, struct row_code code);

/** The value that element `channel` must have, and the one that it has. */
uint32_t row_value(struct row_code code, uint32_t channel, uint32_t elem_bytes);
uint32_t row_read(const void *row, uint32_t channel, uint32_t elem_bytes);

/** An element of which every byte is `byte`. */
uint32_t row_repeat(unsigned char byte, uint32_t elem_bytes);

#endif
