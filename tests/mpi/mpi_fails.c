/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_fails: each call of MPI that Baton makes fails once, in a life of a context that opens, starts, moves a request
 * and closes. Nothing crashes or hangs; who is refused is told why; a request that is told to be done has its bytes;
 * and what MPI made is freed: by a rank alone always, by all together where start and close succeed. The linker leads
 * Baton's calls of MPI here (--wrap). A call that fails does nothing.
 *
 *   mpi_fails                 with one rank: life after life, in which the calls fail in turn
 *   mpi_fails list RANK FILE  lists the calls of that rank which can fail: the place in this program, a dot, how many
 *                             calls from there went before
 *   mpi_fails RANK CALL       one life, in which on that rank that call fails
 *   mpi_fails RANK CALL hang  or never returns (mpi/run_hangs)
 *
 * With several nodes the cache is the engine's own memory, so that windows over it are opened too.
 *
 * After a step of a start that fails MPI is unfit for a further world of several ranks, so each such life needs
 * processes of its own (mpi/run_fails).
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"
#include "with_clock.h"
#include "with_regions.h"

enum { BLOCK_TOKENS = 4, BLOCK_BYTES = 4096, BLOCKS = 5, ENDS_MS = 3000, LIFE_MS = 20000 };

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

enum { PLACES = 256, MOST_STEPS = 40, MOST_CALLS = 4, MOST_POLLS = 2 }; /* of one place: more tell nothing new */

/* A call of MPI in Baton's code. */
struct place {
    const char *name;
    uintptr_t at; /* in this program: the same in each process */
    long calls;   /* in this life */
};

static atomic_flag in_use; /* what follows is */
static struct place places[PLACES];
static bool counts, fails, hangs;  /* calls are counted; one fails; it never returns */
static struct place given;         /* the one that fails: `at`, and the `calls` before it */
static const char *_Atomic failed; /* its name, if it has been made */

static struct place *place_of(const char *name, uintptr_t at)
{
    struct place *p = places;
    while (p->name != NULL && p->at != at)
        p++;
    if (p == places + PLACES - 1)
        abort(); /* the last one ends the list */
    *p = (struct place){name, at, p->calls};
    return p;
}

static bool is_given(const char *name, uintptr_t at)
{
    bool is = true;
    while (atomic_flag_test_and_set(&in_use))
        ;
    if (counts) {
        const long before = place_of(name, at)->calls++;
        is = !fails || at != given.at || before != given.calls;
    }
    atomic_flag_clear(&in_use);
    if (!is)
        atomic_store(&failed, name);
    if (!is && hangs) {
        fprintf(stderr, "# rank %d: MPI_%s does not return\n", harness.rank, name);
        for (;;)
            pause();
    }
    return is;
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* Whether that call begins a step of a start or close. */
static bool is_of_a_step(const char *name)
{
    static const char *const steps[] = {"Iallreduce", "Iallgather", NULL};
    return is_among(name, steps);
}

/* How many calls of this place can fail. What begins the steps stands in one place. */
static long most_of(const struct place *p)
{
    static const char *const polls[] = {"Test", "Testall", "Testsome", "Iprobe", "Win_sync", NULL};
    const bool is_step = is_of_a_step(p->name) || strcmp(p->name, "Isend") == 0;
    const long most = is_step ? MOST_STEPS : is_among(p->name, polls) ? MOST_POLLS : MOST_CALLS;
    return p->calls < most ? p->calls : most;
}

int main(int argc, char **argv);

#define PLACE ((uintptr_t)__builtin_return_address(0) - (uintptr_t)main)

/* What MPI has made for this process and not freed yet: its own, and what is made and freed by all ranks together. */
enum { OWN, SHARED, HELD };
static atomic_int held[HELD];

/* `made`: how many of this kind there are more after the call */
#define WRAP_MAKING(kind, made, name, params, args)                                                                    \
    int __real_MPI_##name params;                                                                                      \
    int __wrap_MPI_##name params;                                                                                      \
    int __wrap_MPI_##name params                                                                                       \
    {                                                                                                                  \
        const int rc = is_given(#name, PLACE) ? __real_MPI_##name args : MPI_ERR_OTHER;                                \
        if ((made) != 0 && rc == MPI_SUCCESS)                                                                          \
            atomic_fetch_add(&held[kind], made);                                                                       \
        return rc;                                                                                                     \
    }

#define WRAP(name, params, args) WRAP_MAKING(OWN, 0, name, params, args)
#define MAKES(kind, name, params, args) WRAP_MAKING(kind, 1, name, params, args)
#define FREES(kind, name, params, args) WRAP_MAKING(kind, -1, name, params, args)

#include "with_calls.h"

/* ---- a life ------------------------------------------------------------------------------------------------------ */

static bool is_alone(void)
{
    return harness.size == 1;
}

static _Alignas(BLOCK_BYTES) uint8_t own[BLOCKS * BLOCK_BYTES];

static int declare(baton_t *b, const baton_geometry_t *g, baton_cache_t **cache)
{
    if (is_one_node())
        return baton_cache_create(b, g, BATON_MEMORY_HOST, cache);
    CHECK(g->bytes <= sizeof own);
    const baton_region_t region = region_of(BATON_MEMORY_HOST, own, g->bytes);
    return baton_cache_wrap(b, g, &region, 1, cache);
}

static int up(baton_t **b, baton_cache_t **cache)
{
    baton_tensor_t tensor;
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 1,
                          .head_size = BLOCK_BYTES / BLOCK_TOKENS,
                          .num_groups = 1,
                          .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 1, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_open_params_t me = {.size = sizeof me, .tp = 1, .pp = 1};
    snprintf(me.engine, sizeof me.engine, "e%d", harness.rank);
    me.role = is_alone() ? BATON_ROLE_BOTH : harness.rank == 0 ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    int rc = baton_open(MPI_COMM_WORLD, &me, b);
    if (rc == 0)
        rc = declare(*b, &g, cache);
    return rc == 0 ? baton_start(*b) : rc;
}

/* The only rank does both. */
static bool offers(void)
{
    return harness.rank == 0;
}

static bool wants(void)
{
    return is_alone() || !offers();
}

static const uint32_t from = 1, to[] = {[BATON_MODE_PULL] = 2, [BATON_MODE_PUSH] = 3}; /* blocks */

/* Calls of which each has an end. */
static int call_for(baton_t *b, baton_mode_t mode)
{
    const char *key = mode == BATON_MODE_PULL ? "pull" : "push";
    baton_offer_params_t o = {.size = sizeof o,
                              .key = key,
                              .num_tables = 1,
                              .tables = {{.blocks = &from, .num_blocks = 1}},
                              .num_tokens = BLOCK_TOKENS,
                              .num_consumers = is_alone() ? 1 : (uint32_t)harness.size - 1,
                              .ttl_ms = ENDS_MS};
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = "e0",
                             .num_tables = 1,
                             .tables = {{.blocks = &to[mode], .num_blocks = 1}},
                             .num_tokens = BLOCK_TOKENS,
                             .mode = mode,
                             .timeout_ms = ENDS_MS};
    const int offered = offers() && CHECK_EQ(baton_offer(b, &o, NULL), 0);
    return offered + (wants() && CHECK_EQ(baton_want(b, &w, NULL), 0));
}

/* Each want reads the same block, or has it written. Each call ends; done means with its bytes. */
static void move_blocks(baton_t *b, baton_cache_t *cache)
{
    uint8_t *pool = is_one_node() ? baton_cache_base(cache) : own;
    static uint8_t bytes[BLOCK_BYTES];
    memset(bytes, 0x5a, sizeof bytes);
    memset(pool, 0, (size_t)BLOCKS * BLOCK_BYTES);
    memcpy(pool + from * BLOCK_BYTES, bytes, sizeof bytes);
    int open = call_for(b, BATON_MODE_PULL) + call_for(b, BATON_MODE_PUSH);
    for (double until = now_ms() + 3 * ENDS_MS; open > 0 && now_ms() < until;) {
        baton_event_t e;
        if (baton_poll(b, &e, 1) != 1) {
            usleep(100);
            continue;
        }
        open -= e.type == BATON_EVENT_OFFER || e.type == BATON_EVENT_WANT;
        if (is_alone()) /* nobody can be lost */
            CHECK_EQ(e.status, BATON_STATUS_DONE);
        CHECK((e.status == BATON_STATUS_DONE) == (e.error == 0));
        if (e.type == BATON_EVENT_WANT && e.status == BATON_STATUS_DONE)
            CHECK_EQ(memcmp(pool + to[e.mode] * BLOCK_BYTES, bytes, sizeof bytes), 0);
    }
    CHECK_EQ(open, 0);
    for (uint32_t i = 0; i < BLOCKS; i += BLOCKS - 1)
        CHECK_EQ(pool[i * BLOCK_BYTES], 0); /* nobody's */
}

/* Whether an error is one that the failure of MPI at some rank may have, and has a sentence. */
static bool is_told(int rc)
{
    return rc == 0 || ((rc == BATON_EMPI || rc == BATON_EWINDOW || rc == BATON_EPEER || rc == BATON_ETIMEDOUT ||
                        (rc == BATON_ECLOSED && !is_alone())) &&
                       baton_errmsg()[0] != '\0');
}

/* One life of this rank, in which that call fails, if there is one. Whether it did. */
static bool life(const struct place *call)
{
    baton_t *b = NULL;
    baton_cache_t *cache = NULL;
    const double began = now_ms();
    for (struct place *p = places; p->name != NULL; p++)
        p->calls = 0;
    atomic_store(&failed, NULL);
    fails = call != NULL;
    given = fails ? *call : given;
    counts = true;
    const int started = up(&b, &cache);
    CHECK(is_told(started));
    if (started == 0)
        move_blocks(b, cache);
    const int closed = b != NULL ? baton_close(b) : 0;
    CHECK(is_told(closed));
    counts = false;
    CHECK(now_ms() - began < LIFE_MS);
    const char *name = atomic_load(&failed);
    if (is_alone() && started != 0 && name != NULL && is_of_a_step(name))
        CHECK_EQ(started, BATON_EMPI); /* of the call that failed: a later step would end with another */
    if (!hangs && (name == NULL || strstr(name, "_free") == NULL)) {
        CHECK_EQ(atomic_load(&held[OWN]), 0);
        /* Freeing what ranks share is a call of all of them: not where only some have it, or some do not close. */
        bool is_whole = b != NULL && closed == 0 && (started == 0 || is_alone());
#ifndef OPEN_MPI
        is_whole = is_whole && (name == NULL || strcmp(name, "Win_unlock_all") != 0); /* MPICH frees no locked window */
#endif
        CHECK(!is_whole || atomic_load(&held[SHARED]) == 0);
    }
    for (int kind = 0; kind < HELD; kind++)
        atomic_store(&held[kind], 0);
    if (harness.failures > 0)
        fprintf(stderr, "# rank %d: MPI_%s: started %d, closed %d, %s\n", harness.rank, name != NULL ? name : "",
                started, closed, baton_errmsg());
    return name != NULL;
}

static void each_call_fails(void)
{
    static struct place all[PLACES];
    long lives = 0;
    if (!is_alone())
        return SKIP("the others would wait in MPI for the one whose call fails");
    CHECK(!life(NULL));
    memcpy(all, places, sizeof all);
    for (const struct place *p = all; p->name != NULL; p++)
        for (struct place call = {p->name, p->at, 0}; call.calls < most_of(p) && harness.failures == 0; call.calls++)
            lives += life(&call);
    CHECK(lives > 50); /* they were Baton's */
    CHECK(!life(NULL));
    fprintf(stderr, "# %ld calls failed\n", lives);
}

/* MPI fails as the ranks leave: closing waits for as long as a loss takes to be known, and not for BATON_CLOSE_MS. */
static void leaving_fails(void)
{
    const struct place *p = places;
    if (!is_alone())
        return SKIP("the others would wait for the one whose call fails");
    while (p->name != NULL && strcmp(p->name, "Testall") != 0) /* of one rank only leaving makes this call */
        p++;
    setenv("BATON_CLOSE_MS", "60000", 1);
    CHECK(life(&(struct place){p->name, p->at, 0}));
    setenv("BATON_CLOSE_MS", "1000", 1);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void list(int rank, const char *file)
{
    CHECK(!life(NULL));
    FILE *out = rank == harness.rank ? fopen(file, "w") : NULL;
    CHECK(out != NULL || rank != harness.rank);
    for (const struct place *p = places; p->name != NULL && out != NULL; p++)
        for (long i = 0; i < most_of(p); i++)
            fprintf(out, "%" PRIuPTR ".%ld MPI_%s\n", p->at, i, p->name);
    if (out != NULL)
        CHECK_EQ(fclose(out), 0);
}

static void fail_at(int rank, const char *text)
{
    struct place call = {.calls = -1};
    CHECK_EQ(sscanf(text, "%" SCNuPTR ".%ld", &call.at, &call.calls), 2);
    if (life(rank == harness.rank ? &call : NULL))
        printf("the call was made\n");
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    setenv("BATON_START_MS", "2000", 1);
    setenv("BATON_CLOSE_MS", "1000", 1);
    setenv("BATON_PEER_MS", "1000", 1);
    bool is_good = true;
    if (argc == 1) {
        RUN(each_call_fails);
        RUN(leaving_fails);
    } else if (argc == 4 && strcmp(argv[1], "list") == 0)
        list(atoi(argv[2]), argv[3]);
    else if (argc == 3 || (argc == 4 && strcmp(argv[3], "hang") == 0)) {
        hangs = argc == 4;
        fail_at(atoi(argv[1]), argv[2]);
    } else
        is_good = false;
    const int failures = harness.failures + harness.failed_cases;
    if (is_good)
        printf("rank %d: %d failed\n", harness.rank, failures);
    else
        fprintf(stderr, "mpi_fails: the head of mpi/mpi_fails.c says what it is called with\n");
    fflush(stdout);
    baton_exit(failures > 0 || !is_good); /* Open MPI 4 frees twice what MPI_Comm_idup began and nobody ended */
}
