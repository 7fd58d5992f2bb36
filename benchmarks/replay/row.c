/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row: see row.h. The loops run over every byte that is moved. They use the compiler's vector types, since at -O2 it
 * would not vectorise plain loops. The elements of one vector are made once a row; each next vector is the last one
 * plus a constant. The rest of a row goes element by element.
 */
#include "replay/row.h"

#include <string.h>

#define VECTOR_BYTES 16

typedef uint8_t vector_8 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vector_16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vector_32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t vector_64 __attribute__((vector_size(VECTOR_BYTES)));

/* One set of functions for each size of an element. */
#define ROW_FUNCTIONS(bits)                                                                                            \
    static vector_##bits first_##bits(uint32_t start, uint32_t step)                                                   \
    {                                                                                                                  \
        vector_##bits v = {0};                                                                                         \
        for (uint32_t i = 0; i < VECTOR_BYTES * 8 / bits; i++)                                                         \
            v[i] = (uint##bits##_t)(start + step * i);                                                                 \
        return v;                                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    static void fill_##bits(uint##bits##_t *row, uint32_t count, uint32_t start, uint32_t step)                        \
    {                                                                                                                  \
        const uint32_t lanes = VECTOR_BYTES * 8 / bits;                                                                \
        vector_##bits v = first_##bits(start, step);                                                                   \
        uint32_t c = 0;                                                                                                \
        for (; c + lanes <= count; c += lanes) {                                                                       \
            memcpy(&row[c], &v, sizeof v);                                                                             \
            v += (uint##bits##_t)(lanes * step);                                                                       \
        }                                                                                                              \
        for (; c < count; c++)                                                                                         \
            row[c] = (uint##bits##_t)(start + step * c);                                                               \
    }                                                                                                                  \
                                                                                                                       \
    static bool matches_##bits(const uint##bits##_t *row, uint32_t count, uint32_t start, uint32_t step)               \
    {                                                                                                                  \
        const uint32_t lanes = VECTOR_BYTES * 8 / bits;                                                                \
        vector_##bits v = first_##bits(start, step), differs = {0}, here;                                              \
        uint##bits##_t rest = 0;                                                                                       \
        uint32_t c = 0;                                                                                                \
        for (; c + lanes <= count; c += lanes) {                                                                       \
            memcpy(&here, &row[c], sizeof here);                                                                       \
            differs |= here ^ v;                                                                                       \
            v += (uint##bits##_t)(lanes * step);                                                                       \
        }                                                                                                              \
        for (; c < count; c++)                                                                                         \
            rest |= (uint##bits##_t)(row[c] ^ (uint##bits##_t)(start + step * c));                                     \
        const vector_64 wide = (vector_64)differs;                                                                     \
        return (wide[0] | wide[1] | rest) == 0;                                                                        \
    }

ROW_FUNCTIONS(8)
ROW_FUNCTIONS(16)
ROW_FUNCTIONS(32)

void row_fill(void *row, uint32_t count, uint32_t elem_bytes, struct row_code code)
{
    if (elem_bytes == 1)
        fill_8(row, count, code.start, code.step);
    else if (elem_bytes == 2)
        fill_16(row, count, code.start, code.step);
    else
        fill_32(row, count, code.start, code.step);
}

bool row_matches(const void *row, uint32_t count, uint32_t elem_bytes, struct row_code code)
{
    if (elem_bytes == 1)
        return matches_8(row, count, code.start, code.step);
    if (elem_bytes == 2)
        return matches_16(row, count, code.start, code.step);
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
