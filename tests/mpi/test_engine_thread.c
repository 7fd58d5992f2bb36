/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_engine_thread: transfers while the engine's own thread is inside MPI all the time: in collectives, in
 * MPI_Iprobe, in both by two threads. A second thread makes the offers and wants, and checks every byte; it calls no
 * MPI. The first half of the ranks, at least one, is the prefill engine "p", the rest is the decode engine "d". One
 * rank alone is both.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "harness.h"

#define HEADS 12 /* divisible by 1, 2 and 3 */
#define HEAD_SIZE 32
#define BLOCK_TOKENS 16
#define BLOCKS_EACH 8 /* of a request */
#define REQUESTS 8    /* of a pass, under way together */
#define PASSES 6
#define PATIENCE_MS 20000
#define TAG 7

struct job {
    baton_t *b;
    unsigned char *base;
    baton_geometry_t geometry;
    baton_tensor_t tensor;
    baton_open_params_t me;
    bool producer, consumer;
    const char *name;  /* of the case: a part of the keys */
    MPI_Comm comms[2]; /* one for each of the engine's threads */
    sem_t entered;     /* posted by each of them just before its first call of MPI */
    int num_threads;
    atomic_bool is_over; /* this rank's transfers are */
};

static void who(struct job *j)
{
    int half = harness.size > 1 ? harness.size / 2 : 1;
    j->producer = harness.rank < half;
    j->consumer = !j->producer || harness.size == 1;
    j->me = (baton_open_params_t){.size = sizeof j->me,
                                  .role = harness.size == 1 ? BATON_ROLE_BOTH
                                          : j->producer     ? BATON_ROLE_PREFILL
                                                            : BATON_ROLE_DECODE,
                                  .tp = (uint32_t)(j->producer ? half : harness.size - half),
                                  .pp = 1,
                                  .tp_rank = (uint32_t)(j->producer ? harness.rank : harness.rank - half)};
    strcpy(j->me.engine, j->producer ? "p" : "d");
}

static void up(struct job *j, const char *name)
{
    baton_cache_t *cache;
    memset(j, 0, sizeof *j);
    who(j);
    j->name = name;
    uint32_t heads = HEADS / j->me.tp;
    j->geometry =
        (baton_geometry_t){.size = sizeof(baton_geometry_t),
                           .model = "m",
                           .dtype = "u8",
                           .elem_bytes = 1,
                           .planes = 2,
                           .head_size = HEAD_SIZE,
                           .num_groups = 1,
                           .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = 2 * REQUESTS * BLOCKS_EACH}},
                           .num_splits = 1,
                           .splits = {{.heads_total = HEADS, .head_first = heads * j->me.tp_rank, .head_count = heads}},
                           .layers_total = 1,
                           .layer_count = 1};
    CHECK_EQ(baton_geometry_layout(&j->geometry, &j->tensor, j->producer ? 0 : BATON_LAYOUT_KV_FUSED), 0);
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &j->me, &j->b), 0) ||
        !CHECK_EQ(baton_cache_create(j->b, &j->geometry, BATON_MEMORY_HOST, &cache), 0) ||
        !CHECK_EQ(baton_start(j->b), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* no later case makes sense */
    }
    j->base = baton_cache_base(cache);
    sem_init(&j->entered, 0, 0);
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &j->comms[i]);
}

static void down(struct job *j)
{
    CHECK_EQ(baton_close(j->b), 0);
    sem_destroy(&j->entered);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&j->comms[i]);
}

/* ---- the thread of requests -------------------------------------------------------------------------------------- */

/* Producers use the lower half of the blocks, consumers the upper one, each in an order of its own. */
static void blocks_of(unsigned request, bool upper, uint32_t blocks[BLOCKS_EACH])
{
    for (uint32_t i = 0; i < BLOCKS_EACH; i++)
        blocks[i] = upper ? REQUESTS * BLOCKS_EACH + i * REQUESTS + request
                          : (REQUESTS * BLOCKS_EACH - 1) - (request * BLOCKS_EACH + i);
}

/* Fills a request's blocks, or counts its wrong bytes. */
static long walk(struct job *j, const uint32_t blocks[BLOCKS_EACH], unsigned seed, bool fill)
{
    const baton_strides_t *s = &j->tensor.stride;
    long wrong = 0;
    for (uint32_t t = 0; t < BLOCKS_EACH * BLOCK_TOKENS; t++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t h = 0; h < j->geometry.splits[0].head_count; h++) {
                uint32_t head = j->geometry.splits[0].head_first + h;
                unsigned char *at = j->base + (int64_t)j->tensor.offset + blocks[t / BLOCK_TOKENS] * s->block +
                                    p * s->plane + h * s->head + t % BLOCK_TOKENS * s->token;
                for (uint32_t c = 0; c < HEAD_SIZE; c++) {
                    unsigned char right =
                        (unsigned char)((((seed * 131 + t) * 2 + p) * HEADS + head) * 2654435761u >> 16) +
                        (unsigned char)c;
                    if (fill)
                        at[c] = right;
                    else
                        wrong += at[c] != right;
                }
            }
    return wrong;
}

static void submit(struct job *j, unsigned request, unsigned pass)
{
    uint32_t blocks[BLOCKS_EACH];
    unsigned seed = pass * REQUESTS + request;
    char key[32];
    snprintf(key, sizeof key, "%s-%u", j->name, seed);
    baton_offer_params_t o = {.size = sizeof o,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = blocks, .num_blocks = BLOCKS_EACH}},
                              .num_tokens = BLOCKS_EACH * BLOCK_TOKENS,
                              .ttl_ms = PATIENCE_MS};
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = "p",
                             .num_tables = 1,
                             .tables = {{.blocks = blocks, .num_blocks = BLOCKS_EACH}},
                             .num_tokens = BLOCKS_EACH * BLOCK_TOKENS,
                             .timeout_ms = PATIENCE_MS,
                             .mode = request % 2 ? BATON_MODE_PUSH : BATON_MODE_PULL};
    if (j->producer) {
        blocks_of(request, false, blocks);
        walk(j, blocks, seed, true);
        CHECK_EQ(baton_offer(j->b, &o, NULL), 0);
    }
    if (j->consumer) {
        blocks_of(request, true, blocks);
        CHECK_EQ(baton_want(j->b, &w, NULL), 0);
    }
}

/* The next event is of a call that is done. */
static void take(struct job *j)
{
    struct pollfd fd = {.fd = baton_event_fd(j->b), .events = POLLIN};
    baton_event_t e;
    while (baton_poll(j->b, &e, 1) == 0)
        if (!CHECK_EQ(poll(&fd, 1, 2 * PATIENCE_MS), 1))
            return;
    if (!CHECK_EQ(e.status, BATON_STATUS_DONE))
        fprintf(stderr, "# rank %d: %s: %s: %s\n", harness.rank, e.key, baton_strerror(e.error), e.detail);
}

static void *make_requests(void *arg)
{
    struct job *j = arg;
    uint32_t blocks[BLOCKS_EACH];
    for (int i = 0; i < j->num_threads; i++)
        while (sem_wait(&j->entered) != 0 && errno == EINTR)
            continue;
    for (unsigned pass = 0; pass < PASSES; pass++) {
        for (unsigned i = 0; i < REQUESTS; i++)
            submit(j, i, pass);
        for (int i = 0; i < REQUESTS * (j->producer + j->consumer); i++)
            take(j);
        for (unsigned i = 0; j->consumer && i < REQUESTS; i++) {
            blocks_of(i, true, blocks);
            CHECK_EQ(walk(j, blocks, pass * REQUESTS + i, false), 0);
        }
    }
    atomic_store(&j->is_over, true);
    return NULL;
}

/* ---- the engine's threads ---------------------------------------------------------------------------------------- */

/*
 * Each returns how many of its results were wrong. They stay inside MPI from before the first offer until the transfers
 * are over. CHECK is the other thread's.
 */

/* Sums over all ranks, without a pause, until the transfers of every rank are over. */
static long stay_in_allreduce(struct job *j)
{
    long mine[2], sum[2] = {0, 0}, all = harness.size, wrong = 0;
    sem_post(&j->entered);
    for (long round = 0; sum[0] < all; round++) {
        mine[0] = atomic_load(&j->is_over);
        mine[1] = round + harness.rank;
        MPI_Allreduce(mine, sum, 2, MPI_LONG, MPI_SUM, j->comms[0]);
        wrong += sum[1] != all * round + all * (all - 1) / 2;
    }
    return wrong;
}

/* Asks for messages of anyone until this rank's transfers are over. None are sent, and none of Baton's may be seen. */
static long stay_in_iprobe(struct job *j)
{
    long wrong = 0;
    sem_post(&j->entered);
    while (!atomic_load(&j->is_over)) {
        int is_there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, j->comms[1], &is_there, MPI_STATUS_IGNORE);
        wrong += is_there;
    }
    return wrong;
}

/* Passes numbers round, which MPI_Iprobe finds, with a collective after each. */
static long stay_in_both(struct job *j)
{
    int right = (harness.rank + 1) % harness.size, left = (harness.rank + harness.size - 1) % harness.size;
    long is_over = 0, wrong = 0;
    sem_post(&j->entered);
    for (long round = 0; !is_over; round++) {
        long out = round * harness.size + harness.rank, in = -1, mine;
        int is_there = 0;
        MPI_Request request;
        MPI_Status status;
        MPI_Isend(&out, 1, MPI_LONG, right, TAG, j->comms[0], &request);
        while (!is_there)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, j->comms[0], &is_there, &status);
        wrong += status.MPI_SOURCE != left || status.MPI_TAG != TAG;
        MPI_Recv(&in, 1, MPI_LONG, left, TAG, j->comms[0], MPI_STATUS_IGNORE);
        wrong += in != round * harness.size + left;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        mine = atomic_load(&j->is_over);
        MPI_Allreduce(&mine, &is_over, 1, MPI_LONG, MPI_MIN, j->comms[0]);
    }
    return wrong;
}

static void *probe(void *arg)
{
    return (void *)stay_in_iprobe(arg);
}

/* Two threads of the engine: one sums, one asks for messages. */
static long stay_in_each(struct job *j)
{
    pthread_t thread;
    void *wrong;
    if (pthread_create(&thread, NULL, probe, j) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1); /* the thread of requests waits for it */
    long sums = stay_in_allreduce(j);
    pthread_join(thread, &wrong);
    return sums + (long)wrong;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void moves_while(const char *name, long (*stay)(struct job *j), int num_threads)
{
    struct job j;
    pthread_t requests;
    char text[2048];
    up(&j, name);
    j.num_threads = num_threads;
    CHECK(baton_describe(j.b, text, sizeof text) > 0);
    CHECK_HAS(text, "progress by a thread");
    if (!CHECK_EQ(pthread_create(&requests, NULL, make_requests, &j), 0))
        MPI_Abort(MPI_COMM_WORLD, 1); /* the others wait for this rank's transfers */
    long wrong = stay(&j);
    pthread_join(requests, NULL);
    CHECK_EQ(wrong, 0);
    down(&j);
}

static void moves_while_the_engine_is_in_allreduce(void)
{
    moves_while("allreduce", stay_in_allreduce, 1);
}

static void moves_while_the_engine_is_in_iprobe(void)
{
    moves_while("iprobe", stay_in_iprobe, 1);
}

static void moves_while_the_engine_sends_and_sums(void)
{
    moves_while("both", stay_in_both, 1);
}

static void moves_while_two_threads_are_in_mpi(void)
{
    moves_while("each", stay_in_each, 2);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(moves_while_the_engine_is_in_allreduce);
    RUN(moves_while_the_engine_is_in_iprobe);
    RUN(moves_while_the_engine_sends_and_sums);
    RUN(moves_while_two_threads_are_in_mpi);
    return harness_end();
}
