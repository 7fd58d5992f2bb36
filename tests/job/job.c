/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: see the header.
 *
 *   job fault|lab|overload ARGUMENT...
 */
#include "job.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "with_clock.h"

#define FREE_WORD UINT64_C(0xa5a5a5a5a5a5a5a5)
#define EVENTS 16

struct job job;

/* ---- who this rank is -------------------------------------------------------------------------------------------- */

bool job_produces(void)
{
    return job.me.role == BATON_ROLE_PREFILL;
}

uint32_t job_rank_of(uint32_t peer)
{
    return job_produces() ? job.producers + peer : peer;
}

void job_init(const char *mode)
{
    const char *layout = getenv("BATON_LAYOUT");
    unsigned engine;
    job.mode = strcmp(mode, "push") == 0 ? BATON_MODE_PUSH : BATON_MODE_PULL;
    job.me = BATON_INIT(baton_open_params_t);
    check(-1, baton_role_from_env(&job.me), "role");
    if (layout == NULL || sscanf(layout, "%ux1x1 %ux1x1", &job.producers, &job.consumers) != 2 ||
        sscanf(job.me.engine, job_produces() ? "prefill%u" : "decode%u", &engine) != 1) {
        fputs("job: start it by batonrun, with engines of one rank\n", stderr);
        exit(2);
    }
    job.rank = job_produces() ? engine : job.producers + engine;
    job.peers = job_produces() ? job.consumers : job.producers;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* The first `used` words of a block are the request's. */
static uint32_t walk_block(uint64_t *at, uint64_t seed, uint32_t used, enum job_walk what)
{
    const uint32_t words = job.shape.block_tokens * job.shape.token_words;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < words; i++) {
        const bool is_mine = what == JOB_FILL || (what == JOB_CHECK && i < used);
        const uint64_t right = is_mine ? seed + i * UINT64_C(0x9e3779b97f4a7c15) : FREE_WORD;
        if (what == JOB_FILL || what == JOB_ERASE)
            at[i] = right;
        else
            bad += at[i] != right;
    }
    return bad;
}

uint32_t job_walk(const struct job_slot *s, enum job_walk what)
{
    const uint64_t mine = job.rank, other = job_rank_of(s->peer);
    const uint64_t request = mix((job_produces() ? mine << 48 | other << 32 : other << 48 | mine << 32) | s->request);
    const uint32_t block_tokens = job.shape.block_tokens;
    uint32_t bad = 0;
    for (uint32_t l = 0; l < job.shape.layers; l++)
        for (uint32_t p = 0; p < job.shape.planes; p++)
            for (uint32_t b = 0; b < s->num_blocks; b++) {
                const baton_tensor_t *x = &job.tensors[l];
                uint8_t *at = job.base + x->offset + (int64_t)s->blocks[b] * x->stride.block + p * x->stride.plane;
                const uint32_t left = s->num_tokens - b * block_tokens;
                bad += walk_block((uint64_t *)at, mix(request + ((uint64_t)l << 40 | (uint64_t)p << 32 | b)),
                                  (left < block_tokens ? left : block_tokens) * job.shape.token_words, what);
            }
    return bad;
}

uint32_t job_look(const struct job_slot *s)
{
    const uint32_t bad = job_walk(s, JOB_LOOK);
    if (bad == 0)
        return 0;
    fprintf(stderr, "rank %u: %u words were written into free blocks, last used for request %u with rank %u\n",
            job.rank, bad, s->request, job_rank_of(s->peer));
    job_walk(s, JOB_ERASE);
    return bad;
}

void job_free(struct job_slot *s)
{
    s->state = JOB_FREE;
    s->freed = ++job.freed;
    job_walk(s, JOB_ERASE);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* The key of a request, and the engine that produces it. */
static void name(const struct job_slot *s, char key[static BATON_KEY_MAX], char engine[static BATON_ENGINE_NAME_MAX])
{
    const uint32_t producer = job_produces() ? job.rank : s->peer;
    const uint32_t consumer = job_produces() ? job_rank_of(s->peer) : job.rank;
    snprintf(key, BATON_KEY_MAX, "%u to %u: %u", producer, consumer, s->request);
    snprintf(engine, BATON_ENGINE_NAME_MAX, "prefill%u", producer);
}

int job_call(struct job_slot *s, uint32_t timeout_ms)
{
    char key[BATON_KEY_MAX], engine[BATON_ENGINE_NAME_MAX];
    name(s, key, engine);
    const baton_offer_params_t offer = {.size = sizeof offer,
                                        .key = key,
                                        .num_tables = 1,
                                        .tables = {{.blocks = s->blocks, .num_blocks = s->num_blocks}},
                                        .num_tokens = s->num_tokens,
                                        .ttl_ms = timeout_ms,
                                        .user = s};
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = key,
                                      .engine = engine,
                                      .num_tables = 1,
                                      .tables = {{.blocks = s->blocks, .num_blocks = s->num_blocks}},
                                      .num_tokens = s->num_tokens,
                                      .timeout_ms = timeout_ms,
                                      .mode = job.mode,
                                      .user = s};
    const int rc = job_produces() ? baton_offer(job.baton, &offer, &s->id) : baton_want(job.baton, &want, &s->id);
    if (rc == 0)
        s->state = JOB_OPEN;
    return rc;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

bool job_is_terminal(const baton_event_t *e)
{
    return e->type == (job_produces() ? BATON_EVENT_OFFER : BATON_EVENT_WANT);
}

bool job_in_order(const struct job_slot *s, const baton_event_t *e)
{
    char key[BATON_KEY_MAX], engine[BATON_ENGINE_NAME_MAX];
    const bool was_given_up = s->state == JOB_GIVEN_UP;
    name(s, key, engine);
    if ((s->state != JOB_OPEN && !was_given_up) || s->id != e->id || strcmp(key, e->key) != 0)
        return false;
    if (e->type == BATON_EVENT_GIVEN_UP)
        return !was_given_up && e->status != BATON_STATUS_DONE;
    return job_is_terminal(e) && (e->given_up != 0) == was_given_up &&
           !(was_given_up && e->status == BATON_STATUS_DONE);
}

void job_wait(int ms)
{
    struct pollfd fd = {.fd = baton_event_fd(job.baton), .events = POLLIN};
    poll(&fd, 1, ms);
}

int job_take(void (*take)(const baton_event_t *e))
{
    baton_event_t events[EVENTS];
    const int n = baton_poll(job.baton, events, EVENTS);
    for (int i = 0; i < n; i++)
        take(&events[i]);
    return n;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Scattered: a slot's blocks lie far from each other. */
static void make_slots(void)
{
    const uint32_t most = job.shape.blocks;
    uint32_t *blocks = malloc((size_t)job.num_slots * most * sizeof *blocks);
    job.slots = malloc(job.num_slots * sizeof *job.slots);
    if (blocks == NULL || job.slots == NULL)
        exit(3);
    for (uint32_t i = 0; i < job.num_slots; i++) {
        job.slots[i] = (struct job_slot){.peer = i / job.shape.slots,
                                         .num_blocks = most,
                                         .num_tokens = job.shape.tokens,
                                         .blocks = blocks + (size_t)i * most};
        for (uint32_t b = 0; b < most; b++)
            job.slots[i].blocks[b] = b * job.num_slots + i;
        job_walk(&job.slots[i], JOB_ERASE);
    }
}

void job_open(MPI_Comm comm, const struct job_shape *shape)
{
    const int rank = (int)job.rank;
    baton_cache_t *cache;
    job.shape = *shape;
    job.num_slots = job.peers * shape->slots;
    baton_geometry_t g = {.size = sizeof g,
                          .model = "job",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = shape->planes,
                          .head_size = shape->token_words * (uint32_t)sizeof(uint64_t),
                          .num_groups = 1,
                          .groups = {{.block_tokens = shape->block_tokens}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = shape->layers,
                          .layer_count = shape->layers};
    g.groups[0].num_blocks = job.num_slots * shape->blocks;
    check(rank, baton_geometry_layout(&g, job.tensors, 0), "layout");
    check(rank, baton_open(comm, &job.me, &job.baton), "open");
    check(rank, baton_cache_create(job.baton, &g, BATON_MEMORY_HOST, &cache), "cache");
    check(rank, baton_start(job.baton), "start");
    job.base = baton_cache_base(cache);
    make_slots();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } scenarios[] = {{"fault", job_fault}, {"lab", job_lab}, {"overload", job_overload}};
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (argc > 1 && strcmp(argv[1], scenarios[i].name) == 0)
            return scenarios[i].run(argc - 1, argv + 1);
    fputs("usage: job fault|lab|overload ARGUMENT...\n", stderr);
    return 2;
}
