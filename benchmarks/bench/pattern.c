/* SPDX-License-Identifier: BSD-3-Clause */
/* pattern: a word is a mix of its block's id and its place: words of different blocks differ, and so do words of
   different places. */
#include "bench/pattern.h"

#include <string.h>

static uint64_t word(uint32_t id, uint64_t place)
{
    return ((uint64_t)id + 1) * UINT64_C(0x9e3779b97f4a7c15) + place * UINT64_C(0xd1b54a32d192ed03);
}

void pattern_fill(char *block, uint64_t bytes, uint32_t id)
{
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t w = word(id, at / 8);
        memcpy(block + at, &w, 8);
    }
}

bool pattern_check(const char *block, uint64_t bytes, uint32_t id, uint64_t *at)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t w = word(id, i / 8);
        if (memcmp(block + i, &w, 8) == 0)
            continue;
        for (*at = i; block[*at] == ((const char *)&w)[*at - i]; ++*at)
            ;
        return false;
    }
    return true;
}
