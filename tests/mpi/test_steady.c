/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_steady: what a small want within a node costs in a steady state: turns, and memory that is allocated, counted by
 * wrapped calls. Ranks are pairs: the first has offered all before the second wants them one by one, and polls. Polls
 * make all turns, so that a reactor's do not count.
 */
#include "with_engine.h"

#include <stdatomic.h>

enum { WARM = 100, WANTS = 800, MALLOCS_MOST = 3, TURNS_MOST = 2 };

static _Atomic uint64_t allocated;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add_explicit(&allocated, 1, memory_order_relaxed);
    return __real_malloc(bytes);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    atomic_fetch_add_explicit(&allocated, 1, memory_order_relaxed);
    return __real_calloc(n, bytes);
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    atomic_fetch_add_explicit(&allocated, 1, memory_order_relaxed);
    return __real_realloc(old, bytes);
}

static uint64_t turns_of(const struct engine *e)
{
    baton_stats_t s = {.size = sizeof s};
    CHECK_EQ(baton_stats(e->b, &s), 0);
    return s.turns;
}

/* True: its bytes came by shared memory. */
static bool want_one(const struct engine *e, const char *from, uint32_t i)
{
    char key[32];
    baton_event_t event;
    snprintf(key, sizeof key, "%u", i);
    engine_want_from(e, from, key, 20000);
    while (baton_poll(e->b, &event, 1) == 0)
        continue;
    CHECK_EQ(event.status, BATON_STATUS_DONE);
    return event.path_bytes[BATON_PATH_SHM] > 0;
}

static void a_small_want_takes_few_turns_and_little_memory(void)
{
    struct engine e;
    char key[32], theirs[BATON_ENGINE_NAME_MAX];
    if (harness.size % 2 != 0)
        return SKIP("pairs of ranks");
    engine_open(&e, BATON_PROGRESS_CALLER, 0);
    engine_cache(&e, NULL);
    engine_need(baton_start(e.b));
    const bool offers = harness.rank % 2 == 0;
    snprintf(theirs, sizeof theirs, "e%d", harness.rank ^ 1);
    for (uint32_t i = 0; offers && i < WARM + WANTS; i++) {
        snprintf(key, sizeof key, "%u", i);
        engine_offer(&e, key);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!offers) { /* now and then a turn comes between, since something else happened */
        bool is_near = false;
        for (uint32_t i = 0; i < WARM; i++)
            is_near = want_one(&e, theirs, i);
        const uint64_t turns = turns_of(&e), before = allocated;
        for (uint32_t i = WARM; i < WARM + WANTS; i++)
            want_one(&e, theirs, i);
        const double memory = (double)(allocated - before) / WANTS, made = (double)(turns_of(&e) - turns) / WANTS;
        if (!is_near)
            fprintf(stderr, "# rank %d: not counted, since its producer is on another node\n", harness.rank);
        if (is_near && (!CHECK(memory <= MALLOCS_MOST) || !CHECK(made < TURNS_MOST + 0.1)))
            fprintf(stderr, "# rank %d: %.2f allocations and %.2f turns a want\n", harness.rank, memory, made);
    }
    for (uint32_t i = 0; offers && i < WARM + WANTS; i++)
        CHECK_EQ(engine_event(&e, BATON_EVENT_OFFER).status, BATON_STATUS_DONE);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_close(e.b), 0);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(a_small_want_takes_few_turns_and_little_memory);
    return harness_end();
}
