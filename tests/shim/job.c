/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: three ranks, each on a node of its own, over a real MPI in which one call goes wrong: it is refused, late,
 * completes in error or out of turn. A round opens a context, makes a few offers and wants under that fault, and
 * closes. In every round no byte of what is done is wrong, each call is answered in time, and no block is touched after
 * its terminal event.
 *
 *   job EVERY [CALL...]   each EVERYth round (calls x faults x first 20 occurrences x pull or push x replicas or not)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "shim.h"
#include "with_tune.h"

#define WANTS 4u
#define BLOCKS 8u /* of a request: none lies beside another */
#define LAYERS 2u
#define BLOCK_BYTES 4096u
#define TOKENS (16 * BLOCKS)
#define WANT_MS 400u
#define OFFER_MS 700u
#define QUIET_MS 150u
#define SLACK_MS 500u
#define LATE_NS UINT64_C(120000000)
#define OCCURRENCES 20u

struct cell {
    enum shim_call call;
    enum shim_fault fault;
    uint32_t nth;
    bool push, replicas;
};

struct call {
    baton_id_t id;
    bool is_offer, has_ended, was_done, was_given_up;
    uint64_t due_ns;
};

static int rank, failures;
static struct cell cell;
static uint64_t counts[4]; /* rounds in which the rule was met; calls done, failed, given up */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wrong(const char *what, uint64_t a, uint64_t b)
{
    failures++;
    printf("rank %d: %s %s #%u, %s, %s: %s (%" PRIu64 ", %" PRIu64 ")\n", rank, shim_call_name[cell.call],
           shim_fault_name[cell.fault], cell.nth, cell.push ? "push" : "pull",
           cell.replicas ? "replicas" : "no replica", what, a, b);
    fflush(stdout);
}

static void need(int rc, const char *what)
{
    if (rc >= 0)
        return;
    printf("rank %d: %s: %s: %s\n", rank, what, baton_errname(rc), baton_errmsg());
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static uint8_t *block_of(baton_cache_t *cache, const baton_tensor_t *tensors, uint32_t layer, uint32_t id)
{
    return (uint8_t *)baton_cache_base(cache) + tensors[layer].offset + id * (uint64_t)tensors[layer].stride.block;
}

static uint8_t pattern(uint32_t want, uint32_t layer, uint32_t i, uint32_t at)
{
    uint32_t x = (want * 31 + layer * 7 + i + 1) * UINT32_C(2654435761) ^ (at * UINT32_C(2246822519));
    return (uint8_t)(x >> 24);
}

/* The i-th block of a request: at the producers, or where the consumer wants it. */
static uint32_t id_of(uint32_t want, uint32_t i, bool consumer)
{
    return (consumer ? (want + 1) % WANTS : want) * 2 * BLOCKS + 2 * i;
}

/* Stores `mark`, or the request's bytes where it is 0; or only compares. Returns how many bytes differ. */
static uint64_t each_byte(baton_cache_t *cache, const baton_tensor_t *tensors, uint32_t want, uint8_t mark, bool store)
{
    uint64_t differ = 0;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t i = 0; i < BLOCKS; i++) {
            uint8_t *at = block_of(cache, tensors, l, id_of(want, i, rank == 2));
            for (uint32_t b = 0; b < BLOCK_BYTES; b++) {
                uint8_t right = mark != 0 ? mark : pattern(want, l, i, b);
                if (store)
                    at[b] = right;
                differ += at[b] != right;
            }
        }
    return differ;
}

/* ---- a round ----------------------------------------------------------------------------------------------------- */

static baton_t *context(baton_cache_t **cache, baton_tensor_t *tensors)
{
    baton_t *b;
    bool producer = rank == 0 || (rank == 1 && cell.replicas);
    baton_open_params_t me = {
        .size = sizeof me, .role = BATON_ROLE_BOTH, .tp = producer && cell.replicas ? 2 : 1, .pp = 1};
    me.tp_rank = producer && cell.replicas ? (uint32_t)rank : 0;
    snprintf(me.engine, sizeof me.engine, "%s", rank == 2 ? "dec" : producer ? "pre" : "idle");
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "bf16",
                          .elem_bytes = 2,
                          .planes = 1,
                          .head_size = 128,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = 2 * BLOCKS * WANTS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = LAYERS,
                          .layer_count = LAYERS};
    need(baton_open(MPI_COMM_WORLD, &me, &b), "baton_open");
    need(baton_geometry_layout(&g, tensors, 0), "baton_geometry_layout");
    need(baton_cache_create(b, &g, BATON_MEMORY_HOST, cache), "baton_cache_create");
    need(baton_start(b), "baton_start");
    return b;
}

static void submit(baton_t *b, struct call *calls)
{
    for (uint32_t w = 0; w < WANTS; w++) {
        uint32_t ids[BLOCKS], ms = rank == 2 ? WANT_MS : OFFER_MS;
        char key[8];
        snprintf(key, sizeof key, "k%u", w);
        for (uint32_t i = 0; i < BLOCKS; i++)
            ids[i] = id_of(w, i, rank == 2);
        const baton_offer_params_t offer = {.size = sizeof offer,
                                            .key = key,
                                            .num_tables = 1,
                                            .tables = {{.blocks = ids, .num_blocks = BLOCKS}},
                                            .num_tokens = TOKENS,
                                            .ttl_ms = ms};
        const baton_want_params_t want = {.size = sizeof want,
                                          .key = key,
                                          .engine = "pre",
                                          .num_tables = 1,
                                          .tables = {{.blocks = ids, .num_blocks = BLOCKS}},
                                          .num_tokens = TOKENS,
                                          .timeout_ms = ms,
                                          .mode = cell.push ? BATON_MODE_PUSH : BATON_MODE_PULL};
        calls[w] = (struct call){.is_offer = rank != 2};
        /* An offer is answered when its last want is, at its own deadline at the latest. */
        calls[w].due_ns = now_ns() + (uint64_t)(ms + QUIET_MS + SLACK_MS) * 1000000;
        need(rank == 2 ? baton_want(b, &want, &calls[w].id) : baton_offer(b, &offer, &calls[w].id), "a call");
    }
}

static void take(const baton_event_t *e, struct call *calls, baton_cache_t *cache, const baton_tensor_t *tensors)
{
    uint32_t w = 0;
    while (w < WANTS && calls[w].id != e->id)
        w++;
    if (w == WANTS) {
        wrong("an event that belongs to no call", e->id, e->type);
        return;
    }
    struct call *c = &calls[w];
    if (c->has_ended)
        wrong("an event after the terminal one", e->type, w);
    if (e->type == BATON_EVENT_GIVEN_UP) {
        if (c->was_given_up)
            wrong("given up twice", w, 0);
        c->was_given_up = true;
        return;
    }
    c->has_ended = true;
    c->was_done = e->status == BATON_STATUS_DONE;
    if (c->was_done && c->was_given_up)
        wrong("done after it was given up", w, 0);
    uint64_t differ = c->was_done && !c->is_offer ? each_byte(cache, tensors, w, 0, false) : 0;
    if (differ > 0)
        wrong("wrong bytes in what is done", differ, w);
    each_byte(cache, tensors, w, c->is_offer ? 0xb0 : 0x77, true);
}

/* Runs until each call was answered and all late operations were done. */
static void run(baton_t *b, struct call *calls, baton_cache_t *cache, const baton_tensor_t *tensors)
{
    bool all = false;
    uint64_t most = now_ns() + UINT64_C(8000000000);
    while ((!all || shim_late() > 0) && now_ns() < most) {
        baton_event_t e;
        while (baton_poll(b, &e, 1) > 0)
            take(&e, calls, cache, tensors);
        all = true;
        for (uint32_t w = 0; w < WANTS; w++) {
            bool answered = calls[w].has_ended || calls[w].was_given_up;
            if (!answered && now_ns() > calls[w].due_ns) {
                wrong("not answered in time", w, (now_ns() - calls[w].due_ns) / 1000000);
                calls[w].was_given_up = true; /* report it once */
            }
            all &= answered;
        }
        usleep(200);
    }
    if (shim_late() > 0)
        wrong("late operations were never done", shim_late(), 0);
}

/* Waits for all ranks, while their reactors go on. */
static void meet(void)
{
    MPI_Request all;
    int done = 0;
    PMPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (!done) {
        PMPI_Test(&all, &done, MPI_STATUS_IGNORE);
        usleep(200);
    }
}

static void round_run(void)
{
    struct call calls[WANTS];
    baton_cache_t *cache;
    baton_tensor_t tensors[LAYERS];
    bool takes_part = rank != 1 || cell.replicas, goes_wrong = (rank == 2) != cell.push && takes_part;
    baton_t *b = context(&cache, tensors);
    for (uint32_t w = 0; w < WANTS && takes_part; w++)
        each_byte(cache, tensors, w, rank == 2 ? 0xee : 0, true);
    meet();
    if (goes_wrong)
        shim_set(&(struct shim_rule){.call = cell.call, .fault = cell.fault, .nth = cell.nth, .late_ns = LATE_NS});
    if (takes_part) {
        submit(b, calls);
        run(b, calls, cache, tensors);
    }
    counts[0] += goes_wrong && shim_met() > 0;
    shim_set(NULL);
    meet();
    for (uint32_t w = 0; w < WANTS && takes_part; w++) {
        uint64_t differ = calls[w].has_ended ? each_byte(cache, tensors, w, calls[w].is_offer ? 0xb0 : 0x77, false) : 0;
        if (differ > 0)
            wrong("bytes changed after the terminal event", differ, w);
        counts[1] += calls[w].was_done;
        counts[2] += !calls[w].was_done;
        counts[3] += calls[w].was_given_up;
    }
    int rc = baton_close(b);
    if (rc != 0 && rc != BATON_EPEER)
        wrong("baton_close", (uint64_t)-rc, 0);
    meet();
    shim_free_windows(); /* all ranks are here: windows that a close after a loss left can go */
    meet();
}

/* ---- all rounds -------------------------------------------------------------------------------------------------- */

static bool is_asked(enum shim_call call, char **names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], shim_call_name[call]) == 0)
            return true;
    return n == 0;
}

/* A pull makes gets, a push puts and flushes; both send messages. */
static bool can_meet(enum shim_call call, bool push)
{
    bool one_sided = call != SHIM_ISEND && call != SHIM_IRECV;
    bool writes = call == SHIM_PUT || call == SHIM_RPUT || call == SHIM_FLUSH;
    return !one_sided || writes == push;
}

static void share(uint64_t *sum, uint64_t *mine, int n)
{
    PMPI_Allreduce(mine, sum, n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 0, nth_round = 0, sum[4], bad = 0, all_bad = 0;
    uint32_t every = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    int level, size;
    setenv("BATON_CLOSE_MS", "1000", 0);
    setenv("BATON_PEER_MS", "600", 0);
    setenv("BATON_TUNE", "quiet_ms=150,beat_ms=100,rma_gets_per_request=4", 0);
    setenv("BATON_LOG", "0", 0);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (every == 0 || size != 3) {
        fprintf(stderr, "job EVERY [CALL...], on 3 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int call = 0; call < SHIM_CALLS; call++)
        for (int kind = 0; kind < 4 * SHIM_FAULTS; kind++)
            for (uint32_t nth = 1; nth <= OCCURRENCES; nth++) {
                cell = (struct cell){.call = (enum shim_call)call,
                                     .fault = (enum shim_fault)(kind / 4),
                                     .nth = nth,
                                     .push = kind & 1,
                                     .replicas = kind & 2};
                if (!is_asked(cell.call, argv + 2, argc - 2) || !can_meet(cell.call, cell.push) ||
                    nth_round++ % every != 0)
                    continue;
                tune("rma_put", cell.call == SHIM_FLUSH ? "2" : "0");
                rounds++;
                round_run();
            }
    share(sum, counts, 4);
    bad = (uint64_t)failures;
    share(&all_bad, &bad, 1);
    if (rank == 0)
        printf("%" PRIu64 " rounds, the call was met in %" PRIu64 " (of a rank each); %" PRIu64 " calls done, %" PRIu64
               " failed, %" PRIu64 " given up; %" PRIu64 " faults\n",
               rounds, sum[0], sum[1], sum[2], sum[3], all_bad);
    if (rank == 0 && all_bad == 0 && sum[0] > 0 && sum[1] > 0)
        printf("every call was answered, and no byte was wrong\n");
    fflush(stdout);
    meet();
    /*
     * Contexts that were not freed keep MPI from being finalised, which mpirun calls a failure: the line above decides.
     */
    baton_exit(all_bad > 0);
}
