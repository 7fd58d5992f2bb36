/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The planner against the naive reference, over all small pairs: 1, 2, 4 or 8 KV heads, and on each side TP 1 to 8, PP
 * 1 to 3, blocks of 16, 32 or 48 tokens, and HND or NHD. Each pair is walked once in slices and once in parts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "baton.h"
#include "with_pair.h"

#define CASES (8u * 8 * 4 * 3 * 3 * 3 * 3 * 2 * 2)

/* Takes the next digit of a number; this digit has `size` values. */
static uint32_t digit(uint64_t *number, uint32_t size)
{
    uint32_t d = (uint32_t)(*number % size);
    *number /= size;
    return d;
}

static void make(uint64_t number, struct pair *p)
{
    uint64_t rest = number;
    *p = (struct pair){.layers = 4, .tokens = 57, .planes = 1, .head_size = 2, .num_splits = 1, .num_tensors = 4};
    p->walk = 1 + digit(&rest, 2);
    p->heads[0] = 1u << digit(&rest, 4);
    for (uint32_t i = 0; i < 2; i++) {
        struct pair_side *s = &p->side[i];
        s->tp = 1 + digit(&rest, 8);
        s->pp = 1 + digit(&rest, 3);
        s->block_tokens[0] = 16 * (1 + digit(&rest, 3));
        s->usual = 1 + (digit(&rest, 2) ? BATON_LAYOUT_NHD : BATON_LAYOUT_HND);
        s->scatter = 1 + (uint32_t)(number % 7);
        /* the stages of the two sides end elsewhere: 1 + 3 and 3 + 1 layers, or 1 + 1 + 2 and 2 + 1 + 1 */
        s->cut[0] = i == 0 ? 1 : s->pp == 2 ? 3 : 2;
        s->cut[1] = i == 0 ? 2 : 3;
    }
}

int main(void)
{
    printf("%u pairs\n", CASES);
    return pairs_play(make, 0, 2 * CASES) ? EXIT_SUCCESS : EXIT_FAILURE;
}
