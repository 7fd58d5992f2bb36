/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_fails: each call of MPI that Baton makes fails once, in a life of a context of one rank that opens, starts, moves
 * a request and closes. Nothing crashes or hangs; who is refused is told why; and what starts all the same moves right
 * bytes. Of many calls of one function in a row, the first two fail. The linker leads Baton's calls of MPI here
 * (--wrap). A call that fails does nothing. With a number as argument, only the call of that number fails.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"
#include "with_clock.h"

enum { BLOCK_TOKENS = 4, BLOCK_BYTES = 4096, BLOCKS = 4, LIFE_MS = 20000, MOST = 4096 };

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

static atomic_bool fails;         /* a call does */
static atomic_long asked, given;  /* calls of this life; those before the one that fails */
static const char *_Atomic which; /* the one that has failed */

static const char *called[MOST]; /* in the last life */

static bool is_given(const char *name)
{
    const long n = atomic_load(&fails) ? atomic_fetch_add(&asked, 1) : LONG_MAX;
    if (n < MOST)
        called[n] = name;
    if (n != atomic_load(&given))
        return true;
    atomic_store(&which, name);
    return false;
}

#define WRAP(name, params, args)                                                                                       \
    int __real_MPI_##name params;                                                                                      \
    int __wrap_MPI_##name params;                                                                                      \
    int __wrap_MPI_##name params                                                                                       \
    {                                                                                                                  \
        return is_given(#name) ? __real_MPI_##name args : MPI_ERR_OTHER;                                               \
    }

WRAP(Comm_idup, (MPI_Comm c, MPI_Comm *out, MPI_Request *r), (c, out, r))
WRAP(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *out), (c, color, key, out))
WRAP(Comm_split_type, (MPI_Comm c, int t, int key, MPI_Info i, MPI_Comm *out), (c, t, key, i, out))
WRAP(Comm_create_keyval, (MPI_Comm_copy_attr_function * f, MPI_Comm_delete_attr_function *d, int *k, void *e),
     (f, d, k, e))
WRAP(Comm_set_attr, (MPI_Comm c, int k, void *v), (c, k, v))
WRAP(Comm_free, (MPI_Comm * c), (c))
WRAP(Iallreduce, (const void *s, void *d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
     (s, d, n, t, o, c, r))
WRAP(Iallgather, (const void *s, int sn, MPI_Datatype st, void *d, int dn, MPI_Datatype dt, MPI_Comm c, MPI_Request *r),
     (s, sn, st, d, dn, dt, c, r))
WRAP(Ibcast, (void *d, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (d, n, t, root, c, r))
WRAP(Ireduce_scatter_block, (const void *s, void *d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
     (s, d, n, t, o, c, r))
WRAP(Isend, (const void *d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
     (d, n, t, to, tag, c, r))
WRAP(Irecv, (void *d, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (d, n, t, from, tag, c, r))
WRAP(Iprobe, (int from, int tag, MPI_Comm c, int *flag, MPI_Status *s), (from, tag, c, flag, s))
WRAP(Recv, (void *d, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s), (d, n, t, from, tag, c, s))
WRAP(Test, (MPI_Request * r, int *flag, MPI_Status *s), (r, flag, s))
WRAP(Testall, (int n, MPI_Request r[], int *flag, MPI_Status s[]), (n, r, flag, s))
WRAP(Testsome, (int n, MPI_Request r[], int *num, int at[], MPI_Status s[]), (n, r, num, at, s))
WRAP(Cancel, (MPI_Request * r), (r))
WRAP(Win_allocate_shared, (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void *base, MPI_Win *w),
     (n, unit, i, c, base, w))
WRAP(Win_create, (void *base, MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, MPI_Win *w), (base, n, unit, i, c, w))
WRAP(Win_get_attr, (MPI_Win w, int k, void *v, int *flag), (w, k, v, flag))
WRAP(Win_shared_query, (MPI_Win w, int rank, MPI_Aint *n, int *unit, void *base), (w, rank, n, unit, base))
WRAP(Win_lock_all, (int a, MPI_Win w), (a, w))
WRAP(Win_unlock_all, (MPI_Win w), (w))
WRAP(Win_flush, (int rank, MPI_Win w), (rank, w))
WRAP(Win_flush_all, (MPI_Win w), (w))
WRAP(Win_sync, (MPI_Win w), (w))
WRAP(Win_free, (MPI_Win * w), (w))
WRAP(Rget, (void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w, MPI_Request *r),
     (d, n, t, p, at, tn, tt, w, r))
WRAP(Rput,
     (const void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w, MPI_Request *r),
     (d, n, t, p, at, tn, tt, w, r))
WRAP(Get, (void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w),
     (d, n, t, p, at, tn, tt, w))
WRAP(Put, (const void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w),
     (d, n, t, p, at, tn, tt, w))

/* ---- a life ------------------------------------------------------------------------------------------------------ */

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
    baton_open_params_t me = {.size = sizeof me, .engine = "e", .tp = 1, .pp = 1, .role = BATON_ROLE_BOTH};
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    int rc = baton_open(MPI_COMM_WORLD, &me, b);
    if (rc == 0)
        rc = baton_cache_create(*b, &g, BATON_MEMORY_HOST, cache);
    return rc == 0 ? baton_start(*b) : rc;
}

static void move_a_block(baton_t *b, baton_cache_t *cache)
{
    const uint32_t from = 1, to = 2;
    uint8_t *pool = baton_cache_base(cache);
    baton_offer_params_t o = {.size = sizeof o,
                              .key = "k",
                              .num_tables = 1,
                              .tables = {{.blocks = &from, .num_blocks = 1}},
                              .num_tokens = BLOCK_TOKENS,
                              .ttl_ms = 5000};
    baton_want_params_t w = {.size = sizeof w,
                             .key = "k",
                             .engine = "e",
                             .num_tables = 1,
                             .tables = {{.blocks = &to, .num_blocks = 1}},
                             .num_tokens = BLOCK_TOKENS,
                             .timeout_ms = 5000};
    memset(pool, 0, (size_t)BLOCKS * BLOCK_BYTES);
    memset(pool + from * BLOCK_BYTES, 0x5a, BLOCK_BYTES);
    CHECK_EQ(baton_offer(b, &o, NULL, NULL), 0);
    CHECK_EQ(baton_want(b, &w, NULL), 0);
    int ends = 0;
    for (double until = now_ms() + 10000; ends < 2 && now_ms() < until;) {
        baton_event_t e;
        if (baton_poll(b, &e, 1) != 1) {
            usleep(100);
            continue;
        }
        ends++;
        CHECK_EQ(e.status, BATON_STATUS_DONE);
    }
    CHECK_EQ(ends, 2);
    CHECK_EQ(memcmp(pool + from * BLOCK_BYTES, pool + to * BLOCK_BYTES, BLOCK_BYTES), 0);
    CHECK_EQ(pool[3 * BLOCK_BYTES], 0);
}

/* Whether an error is one of MPI's, which has a sentence. */
static bool is_told(int rc)
{
    return rc == 0 || ((rc == BATON_EMPI || rc == BATON_EWINDOW || rc == BATON_EPEER || rc == BATON_ETIMEDOUT) &&
                       baton_errmsg()[0] != '\0');
}

static long only = -1; /* the program's argument */

/* One life, in which the call after so many fails. Whether one did. */
static bool life(long n)
{
    baton_t *b = NULL;
    baton_cache_t *cache = NULL;
    const double began = now_ms();
    atomic_store(&asked, 0);
    atomic_store(&given, n);
    atomic_store(&which, NULL);
    atomic_store(&fails, true);
    int rc = up(&b, &cache);
    CHECK(is_told(rc));
    if (rc == 0)
        move_a_block(b, cache);
    if (b != NULL) {
        rc = baton_close(b);
        CHECK(is_told(rc));
    }
    atomic_store(&fails, false);
    const char *name = atomic_load(&which);
    CHECK(now_ms() - began < LIFE_MS);
    if (name != NULL && (harness.failures > 0 || only >= 0))
        fprintf(stderr, "# call %ld, MPI_%s: %d, %s\n", n, name, rc, baton_errmsg());
    return name != NULL;
}

static void each_call_fails(void)
{
    long n = 0, failed = 0;
    if (harness.size != 1)
        return SKIP("one rank alone: the others would wait for it in MPI");
    if (only >= 0) {
        CHECK(life(only));
        return;
    }
    CHECK(!life(MOST));
    for (; n < MOST && called[n] != NULL && harness.failures == 0; n++)
        if (n < 2 || called[n] != called[n - 1] || called[n] != called[n - 2])
            failed += life(n);
    CHECK(failed > 50); /* they were Baton's */
    CHECK(!life(MOST));
    fprintf(stderr, "# %ld calls failed, of %ld\n", failed, n);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    setenv("BATON_START_MS", "2000", 1);
    setenv("BATON_CLOSE_MS", "1000", 1);
    if (argc > 1)
        only = strtol(argv[1], NULL, 10);
    RUN(each_call_fails);
    printf("1..%d: %d failed\n", harness.cases, harness.failed_cases);
    fflush(stdout);
    usleep(200000);
    baton_exit(0); /* Open MPI 4 frees twice what MPI_Comm_idup began and nobody ended */
}
