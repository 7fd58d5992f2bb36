/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A serving loop: many requests at a time. Some are cancelled, some never get an offer, and all may fail. It shows how
 * an engine accounts for its blocks: a block is free, in use by a request, or Baton's.
 *
 *   batonrun --prefill 1x2 --decode 1x2 serve [REQUESTS]
 *
 * The prefill engine offers each request but every eleventh; the decode engine wants them all and cancels every
 * seventh. The last line of each rank counts how its requests ended. Status 0 if every block came back, unless it is in
 * quarantine.
 */
#include <baton.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 64, BLOCK_TOKENS = 16, BLOCKS_EACH = 4, OPEN_MOST = 8, TIMEOUT_MS = 400 };

/** One request, from its call until its terminal event. */
struct request {
    unsigned number;
    baton_id_t id;
    uint32_t blocks[BLOCKS_EACH];
    bool given_up;
};

static struct engine {
    baton_t *baton;
    baton_cache_t *cache;
    baton_geometry_t geometry;
    bool prefill;
    uint32_t free_blocks[BLOCKS], num_free;
    unsigned open, given_up, verdicts, wrong;
    unsigned ended[BATON_STATUS_CANCELLED + 1]; /* by how they ended */
} engine;

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, baton_strerror(rc), baton_errmsg());
        baton_exit(1);
    }
}

static bool has_offer(unsigned number)
{
    return number % 11 != 5;
}

static bool is_cancelled(unsigned number)
{
    return number % 7 == 3;
}

/* ---- what the model would do ------------------------------------------------------------------------------------- */

/* All bytes of a request are the same. Those of another request are different. */
static uint8_t byte_of(unsigned number)
{
    return (uint8_t)(1 + number % 250);
}

/* Blocks lie one after another here (BATON_LAYOUT_BLOCK_MAJOR). */
static uint8_t *block_at(uint32_t block, uint64_t *bytes)
{
    *bytes = engine.geometry.bytes / BLOCKS;
    return (uint8_t *)baton_cache_base(engine.cache) + block * *bytes;
}

static void prefill(const struct request *r)
{
    for (unsigned i = 0; i < BLOCKS_EACH; i++) {
        uint64_t bytes;
        uint8_t *at = block_at(r->blocks[i], &bytes);
        memset(at, byte_of(r->number), bytes);
    }
}

static void decode(const struct request *r)
{
    for (unsigned i = 0; i < BLOCKS_EACH; i++) {
        uint64_t bytes;
        const uint8_t *at = block_at(r->blocks[i], &bytes);
        for (uint64_t b = 0; b < bytes; b++)
            engine.wrong += at[b] != byte_of(r->number);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static struct request *request_create(unsigned number)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        baton_exit(1);
    r->number = number;
    for (unsigned i = 0; i < BLOCKS_EACH; i++)
        r->blocks[i] = engine.free_blocks[--engine.num_free];
    engine.open++;
    return r;
}

/* Its blocks are the engine's again. */
static void request_end(struct request *r)
{
    for (unsigned i = 0; i < BLOCKS_EACH; i++)
        engine.free_blocks[engine.num_free++] = r->blocks[i];
    free(r);
}

static void begin(unsigned number)
{
    char key[32];
    struct request *r = request_create(number);
    snprintf(key, sizeof key, "request-%u", number);
    if (engine.prefill) {
        prefill(r);
        const baton_offer_params_t offer = {.size = sizeof offer,
                                            .key = key,
                                            .num_tables = 1,
                                            .tables = {{.blocks = r->blocks, .num_blocks = BLOCKS_EACH}},
                                            .num_tokens = BLOCKS_EACH * BLOCK_TOKENS,
                                            .ttl_ms = 20 * TIMEOUT_MS,
                                            .user = r};
        check(baton_offer(engine.baton, &offer, &r->id), "baton_offer");
        return;
    }
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = key,
                                      .engine = "prefill0",
                                      .num_tables = 1,
                                      .tables = {{.blocks = r->blocks, .num_blocks = BLOCKS_EACH}},
                                      .num_tokens = BLOCKS_EACH * BLOCK_TOKENS,
                                      .timeout_ms = has_offer(number) ? 20 * TIMEOUT_MS : TIMEOUT_MS,
                                      .user = r};
    check(baton_want(engine.baton, &want, &r->id), "baton_want");
    if (is_cancelled(number)) /* its user has gone. A quick request may be done all the same */
        check(baton_cancel(engine.baton, r->id), "baton_cancel");
}

static void on_event(const baton_event_t *e)
{
    struct request *r = e->user;
    switch (e->type) {
    case BATON_EVENT_GIVEN_UP: /* the request has failed; its blocks are still Baton's: they are in quarantine */
        r->given_up = true;
        engine.given_up++;
        engine.open--;
        engine.ended[e->status]++;
        break;
    case BATON_EVENT_OFFER:
    case BATON_EVENT_WANT:
        if (!r->given_up) {
            engine.open--;
            engine.ended[e->status]++;
        }
        if (e->type == BATON_EVENT_WANT && e->status == BATON_STATUS_DONE)
            decode(r);
        request_end(r);
        break;
    case BATON_EVENT_VERDICT: /* all ranks of the engine get the same verdict; an engine would schedule by it */
        engine.verdicts++;
        break;
    case BATON_EVENT_ENGINES: /* not asked for: see BATON_OPEN_ENGINES */
        break;
    }
}

static void take_events(void)
{
    struct pollfd fd = {.fd = baton_event_fd(engine.baton), .events = POLLIN};
    baton_event_t events[16];
    int n;
    poll(&fd, 1, 100); /* an engine would compute a step of its batch here */
    while ((n = baton_poll(engine.baton, events, 16)) > 0)
        for (int i = 0; i < n; i++)
            on_event(&events[i]);
    check(n, "baton_poll");
}

static void start(void)
{
    baton_open_params_t me = {.size = sizeof me, .verdicts = BATON_VERDICTS_ALL};
    baton_tensor_t tensors[2];
    check(baton_role_from_env(&me), "role");
    check(baton_open(MPI_COMM_NULL, &me, &engine.baton), "baton_open");
    engine.prefill = me.role == BATON_ROLE_PREFILL;
    engine.geometry = (baton_geometry_t){
        .size = sizeof(baton_geometry_t),
        .model = "example",
        .dtype = "bf16",
        .elem_bytes = 2,
        .planes = 2,
        .head_size = 64,
        .num_groups = 1,
        .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
        .num_splits = 1,
        .splits = {{.heads_total = 8, .head_first = 8 / me.tp * me.tp_rank, .head_count = 8 / me.tp}},
        .layers_total = 2,
        .layer_count = 2};
    check(baton_geometry_layout(&engine.geometry, tensors, BATON_LAYOUT_BLOCK_MAJOR), "layout");
    check(baton_cache_create(engine.baton, &engine.geometry, BATON_MEMORY_HOST, &engine.cache), "baton_cache_create");
    check(baton_start(engine.baton), "baton_start");
    while (engine.num_free < BLOCKS) {
        engine.free_blocks[engine.num_free] = engine.num_free;
        engine.num_free++;
    }
}

int main(int argc, char **argv)
{
    unsigned requests = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    start();
    for (unsigned next = 0; next < requests || engine.open > 0;) {
        bool room = engine.open < OPEN_MOST && engine.num_free >= BLOCKS_EACH;
        if (next < requests && engine.prefill && !has_offer(next))
            next++;
        else if (next < requests && room)
            begin(next++);
        else
            take_events();
    }
    uint32_t kept = BLOCKS - engine.num_free; /* of calls that were given up and are not quiet yet */
    printf("%s: %u done, %u failed, %u expired, %u cancelled; %u blocks in quarantine; %u bytes wrong\n",
           engine.prefill ? "prefill" : "decode", engine.ended[BATON_STATUS_DONE], engine.ended[BATON_STATUS_FAILED],
           engine.ended[BATON_STATUS_EXPIRED], engine.ended[BATON_STATUS_CANCELLED], kept, engine.wrong);
    int rc = baton_close(engine.baton);
    if (rc == BATON_EPEER) /* a rank was lost: MPI_Finalize would hang */
        baton_exit(1);
    check(rc, "baton_close");
    return engine.wrong > 0 || (kept > 0 && engine.given_up == 0);
}
