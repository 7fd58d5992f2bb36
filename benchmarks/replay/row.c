/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row: see row.h. The loops over a whole chunk have a constant length and no branch, so that the compiler vectorises
 * them at -O2; what is left of a row goes element by element.
 */
#include "replay/row.h"

#include <string.h>

#define CHUNK 32 /* elements */

/* One set of functions for each size of an element. */
#define ROW_FUNCTIONS(type, name)                                                                                      \
    static void fill_##name(type *row, uint32_t count, type start, type step)                                          \
    {                                                                                                                  \
        uint32_t c = 0;                                                                                                \
        for (; c + CHUNK <= count; c += CHUNK) {                                                                       \
            const type first = (type)(start + (uint32_t)step * c);                                                     \
            for (uint32_t i = 0; i < CHUNK; i++)                                                                       \
                row[c + i] = (type)(first + (type)i * (uint32_t)step);                                                 \
        }                                                                                                              \
        for (; c < count; c++)                                                                                         \
            row[c] = (type)(start + (uint32_t)step * c);                                                               \
    }                                                                                                                  \
                                                                                                                       \
    static bool matches_##name(const type *row, uint32_t count, type start, type step)                                 \
    {                                                                                                                  \
        type differs = 0;                                                                                              \
        uint32_t c = 0;                                                                                                \
        for (; c + CHUNK <= count; c += CHUNK) {                                                                       \
            const type first = (type)(start + (uint32_t)step * c);                                                     \
            for (uint32_t i = 0; i < CHUNK; i++)                                                                       \
                differs |= (type)(row[c + i] ^ (type)(first + (type)i * (uint32_t)step));                              \
        }                                                                                                              \
        for (; c < count; c++)                                                                                         \
            differs |= (type)(row[c] ^ (type)(start + (uint32_t)step * c));                                            \
        return differs == 0;                                                                                           \
    }

ROW_FUNCTIONS(uint8_t, 8)
ROW_FUNCTIONS(uint16_t, 16)
ROW_FUNCTIONS(uint32_t, 32)

void row_fill(void *row, uint32_t count, uint32_t elem_bytes, struct row_code code)
{
    if (elem_bytes == 1)
        fill_8(row, count, (uint8_t)code.start, (uint8_t)code.step);
    else if (elem_bytes == 2)
        fill_16(row, count, (uint16_t)code.start, (uint16_t)code.step);
    else
        fill_32(row, count, code.start, code.step);
}

bool row_matches(const void *row, uint32_t count, uint32_t elem_bytes, struct row_code code)
{
    if (elem_bytes == 1)
        return matches_8(row, count, (uint8_t)code.start, (uint8_t)code.step);
    if (elem_bytes == 2)
        return matches_16(row, count, (uint16_t)code.start, (uint16_t)code.step);
    return matches_32(row, count, code.start, code.step);
}

uint32_t row_value(struct row_code code, uint32_t channel, uint32_t elem_bytes)
{
    return (code.start + code.step * channel) & (UINT32_MAX >> (32 - 8 * elem_bytes));
}

uint32_t row_read(const void *row, uint32_t channel, uint32_t elem_bytes)
{
    uint8_t one;
    uint16_t two;
    uint32_t four;
    const char *at = (const char *)row + (uint64_t)channel * elem_bytes;
    if (elem_bytes == 1)
        return memcpy(&one, at, sizeof one), one;
    if (elem_bytes == 2)
        return memcpy(&two, at, sizeof two), two;
    return memcpy(&four, at, sizeof four), four;
}

uint32_t row_repeat(unsigned char byte, uint32_t elem_bytes)
{
    return byte * UINT32_C(0x01010101) >> (32 - 8 * elem_bytes);
}
