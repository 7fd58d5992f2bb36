/* SPDX-License-Identifier: BSD-3-Clause */
/* spelling: see spelling.h. */
#include "base/spelling.h"

#include <string.h>

#define NAME_MAX_BYTES 64u /* of a longer name, only so much is compared */

unsigned spelling_distance(const char *a, size_t a_length, const char *b)
{
    unsigned rows[3][NAME_MAX_BYTES + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    const size_t b_length = strnlen(b, NAME_MAX_BYTES);
    a_length = a_length < NAME_MAX_BYTES ? a_length : NAME_MAX_BYTES;
    for (unsigned j = 0; j <= b_length; j++)
        above[j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        row[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            unsigned least = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (least > above[j] + 1)
                least = above[j] + 1;
            if (least > row[j - 1] + 1)
                least = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && least > before[j - 2] + 1)
                least = before[j - 2] + 1;
            row[j] = least;
        }
        unsigned *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[b_length];
}
