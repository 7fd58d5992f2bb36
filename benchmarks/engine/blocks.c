/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks: see blocks.h. */
#include "engine/blocks.h"

#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

struct block {
    uint32_t users;
    bool has_name;
    uint64_t name;
    struct block *prev, *next; /* among the free ones */
    UT_hash_handle hh;         /* among the named ones */
};

int blocks_init(struct blocks *b, uint32_t count)
{
    *b = (struct blocks){.count = count, .num_free = count, .all = calloc(count, sizeof *b->all)};
    if (b->all == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        DL_APPEND(b->free, &b->all[i]);
    return 0;
}

void blocks_fini(struct blocks *b)
{
    HASH_CLEAR(hh, b->named);
    free(b->all);
    *b = (struct blocks){0};
}

static void forget_name(struct blocks *b, struct block *block)
{
    if (block->has_name)
        HASH_DEL(b->named, block);
    block->has_name = false;
}

static void use(struct blocks *b, struct block *block)
{
    if (block->users++ > 0)
        return;
    DL_DELETE(b->free, block);
    b->num_free--;
}

bool blocks_take(struct blocks *b, uint32_t count, uint32_t *out)
{
    if (count > b->num_free)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct block *block = b->free;
        forget_name(b, block);
        use(b, block);
        out[i] = (uint32_t)(block - b->all);
    }
    return true;
}

uint32_t blocks_find(struct blocks *b, uint64_t name)
{
    struct block *block;
    HASH_FIND(hh, b->named, &name, sizeof name, block);
    if (block == NULL)
        return BLOCKS_NONE;
    use(b, block);
    return (uint32_t)(block - b->all);
}

void blocks_name(struct blocks *b, uint32_t id, uint64_t name)
{
    struct block *block = &b->all[id], *other;
    HASH_FIND(hh, b->named, &name, sizeof name, other);
    if (other != NULL || block->has_name)
        return;
    block->name = name;
    block->has_name = true;
    HASH_ADD(hh, b->named, name, sizeof block->name, block);
}

/* What nobody can find is taken first. */
void blocks_leave(struct blocks *b, const uint32_t *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct block *block = &b->all[blocks[i]];
        if (--block->users > 0)
            continue;
        if (block->has_name)
            DL_APPEND(b->free, block);
        else
            DL_PREPEND(b->free, block);
        b->num_free++;
    }
}
