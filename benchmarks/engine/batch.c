/* SPDX-License-Identifier: BSD-3-Clause */
/* batch: see batch.h. */
#include "engine/batch.h"

#include <stdlib.h>

int batch_init(struct batch *b, uint32_t room)
{
    *b = (struct batch){
        .room = room, .tokens = calloc(room, sizeof *b->tokens), .answers = calloc(room, sizeof *b->answers)};
    if (b->tokens != NULL && b->answers != NULL)
        return 0;
    batch_fini(b);
    return -1;
}

void batch_fini(struct batch *b)
{
    free(b->tokens);
    free(b->answers);
    *b = (struct batch){0};
}

void batch_clear(struct batch *b)
{
    b->count = b->num_answers = 0;
}

void batch_add(struct batch *b, struct batch_token token)
{
    b->tokens[b->count++] = token;
    b->num_answers += token.asks;
}
