/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chore: hashes and zeros of my own cache where only a driver may touch it, a landing's worth at a time. Hashes are
 * those of shm/sums.c: of each part its bytes in the order of the plan.
 */
#include "staged/staged_inside.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct chore {
    struct chore *prev, *next;
    uint64_t id, tag;
    const struct plan_transfer *transfer;
    bool zeroes, source;
    uint32_t part, end_part, piece; /* hashes: those of `piece` in `part` are next */
    uint64_t left;                  /* bytes of that piece in that part */
    struct plan_cursor at;
    uint64_t *out;
    XXH3_state_t state;
    uint8_t *landing;
    uint32_t num_runs; /* that wait to be copied */
    struct note_run run[NOTE_RUNS];
    uint64_t bytes;  /* in the landing */
    bool is_copying; /* by the driver */
    int error;
    struct answer *worked; /* what the core is owed */
};

/* Moves on to a piece that has bytes. False: no part is left. */
static bool find_piece(struct chore *c)
{
    while (c->left == 0 && c->part < c->end_part) {
        if (c->piece == plan_num_pieces(c->transfer->plan)) {
            *c->out++ = XXH3_64bits_digest(&c->state);
            XXH3_64bits_reset(&c->state);
            c->piece = 0;
            c->part++;
        } else {
            c->left = plan_part(c->transfer, c->part, c->piece++, &c->at);
        }
    }
    return c->left > 0;
}

/* Finds the next runs. False: the chore is done. */
static bool next_runs(struct chore *c)
{
    struct plan_run runs[NOTE_RUNS];
    uint64_t most = STAGED_SLOT_BYTES;
    if (!c->zeroes && !find_piece(c))
        return false;
    if (!c->zeroes && c->left < most)
        most = c->left;
    uint32_t n = plan_next(c->transfer, &c->at, runs, NOTE_RUNS, most);
    c->bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        c->run[i] = c->source ? (struct note_run){runs[i].src_region, (uint32_t)runs[i].bytes, runs[i].src}
                              : (struct note_run){runs[i].dst_region, (uint32_t)runs[i].bytes, runs[i].dst};
        c->bytes += runs[i].bytes;
    }
    if (!c->zeroes)
        c->left -= c->bytes;
    c->num_runs = n;
    return n > 0;
}

static void copied(struct chore *c, int error)
{
    c->is_copying = false;
    c->num_runs = 0;
    c->error = error;
    if (!c->zeroes && error == 0)
        XXH3_64bits_update(&c->state, c->landing, c->bytes);
}

static void finish(struct staged *s, struct chore *c)
{
    if (c->error != 0)
        log_each(s->wish.log, LOG_ERROR, "the driver \"%s\" could not %s: %s", s->wish.driver->name,
                 c->zeroes ? "zero what lies behind a want's tokens" : "read blocks to hash them",
                 baton_strerror(c->error));
    staged_tell(s, &c->worked, (struct port_event){.kind = PORT_WORKED, .tag = c->tag, .error = c->error});
    landing_give_back(s, c->landing);
    DL_DELETE(s->chores, c);
    free(c);
}

/* Copies until the driver takes its time. */
static void step(struct staged *s, struct chore *c)
{
    while (!c->is_copying) {
        if (c->error != 0 || (c->num_runs == 0 && !next_runs(c))) {
            finish(s, c);
            return;
        }
        int rc = staged_copy(s, c->run, c->num_runs, c->landing, c->zeroes, c->id);
        if (rc == BATON_EAGAIN)
            return;
        if (rc == BATON_EBUSY)
            c->is_copying = true;
        else
            copied(c, rc);
    }
}

void chores_step(struct staged *s)
{
    struct chore *c, *next;
    DL_FOREACH_SAFE(s->chores, c, next)
    {
        step(s, c);
    }
}

bool chore_copied(struct staged *s, uint64_t id, int error)
{
    struct chore *c;
    DL_FOREACH(s->chores, c)
    {
        if (c->id == id && c->is_copying) {
            copied(c, error);
            return true;
        }
    }
    return false;
}

void chores_free(struct staged *s)
{
    struct chore *c, *next;
    DL_FOREACH_SAFE(s->chores, c, next)
    {
        landing_give_back(s, c->landing);
        DL_DELETE(s->chores, c);
        free(c->worked);
        free(c);
    }
}

static int add(struct staged *s, const struct chore *wish)
{
    struct chore *c = aligned_alloc(_Alignof(struct chore), sizeof *c); /* for XXH3_state_t */
    struct answer *worked = calloc(1, sizeof *worked);
    uint8_t *landing = c != NULL && worked != NULL ? landing_take(s, 0) : NULL;
    if (landing == NULL) {
        free(c);
        free(worked);
        return BATON_EAGAIN;
    }
    *c = *wish;
    c->id = ++s->last_id;
    c->worked = worked;
    c->landing = landing;
    XXH3_64bits_reset(&c->state);
    if (c->zeroes)
        memset(landing, 0, STAGED_SLOT_BYTES);
    DL_APPEND(s->chores, c);
    return 0;
}

int staged_sum(struct staged *s, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
               uint64_t *out, uint64_t tag)
{
    return add(
        s,
        &(struct chore){
            .tag = tag, .transfer = transfer, .source = source, .part = first, .end_part = first + count, .out = out});
}

int staged_zero(struct staged *s, const struct plan_transfer *transfer, uint64_t tag)
{
    return add(s, &(struct chore){.tag = tag, .transfer = transfer, .zeroes = true});
}
