/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_shim_core: whole cores whose bytes move over the rma path and an MPI in this process. In each round one call of
 * MPI goes wrong: it is refused, late, completes in error or out of turn; each of its occurrences has its turn. In
 * every round no byte of what is done is wrong, each call is answered in time, and no block is touched after its
 * terminal event.
 *
 *   test_shim_core [EVERY]      only each EVERYth of the first 200 occurrences; 1: all of them
 */
#include "with_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_mpi.h"
#include "shim.h"
#include "with_rma.h"

#define WANTS 4u
#define TOKENS 64u
#define STEP 2u /* from a block of a request to the next: none lies beside another */
#define BLOCKS (TOKENS / 4 * STEP)
#define WANT_MS 500u
#define OFFER_MS 1000u
#define QUIET_MS 100u
#define SLACK_MS 20u
#define LATE_NS (60 * MS)
#define OCCURRENCES 200u
#define RANKS_MAX 3u

static uint32_t every = 23;
static struct world *current;

static struct with_rma *rma_of[RANKS_MAX]; /* each rank's path to the others */

struct cell {
    bool push, replicas, sieved;
    enum shim_call call;
    enum shim_fault fault;
    uint32_t nth;
};

struct tally {
    uint32_t rounds, met, done, failed, given_up;
};

static uint64_t virtual_now(void)
{
    return current->now;
}

static uint8_t *address(int rank, MPI_Aint at, int bytes)
{
    (void)bytes;
    return world_address(current, (uint32_t)rank, (uint64_t)at);
}

/* ---- the port: bytes by rma, all else by the world --------------------------------------------------------------- */

static void take_ports(struct world *w, const struct quirks *quirks)
{
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        struct world_rank *r = &w->ranks[i];
        rma_of[i] = with_rma_create(&w->settings, quirks, i, w->num_ranks, r->pool, r->geometry.bytes);
        with_rma_path(rma_of[i], &r->port.path);
    }
}

static void pass(struct world *w, uint64_t ns)
{
    struct port_event events[64];
    world_run(w, w->now + ns);
    shim_progress();
    for (uint32_t i = 0; i < w->num_ranks; i++) {
        int n = with_rma_progress(rma_of[i], events, 64);
        assert_true(n >= 0);
        core_step(w->ranks[i].core, w->now, w->now, events, n);
    }
    world_run(w, w->now); /* hands out what came of it */
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Stores `value` into every byte of a request's blocks, or compares. False: a byte differs. */
static bool each_byte(struct world *w, uint32_t rank, uint32_t first, uint8_t value, bool store)
{
    struct world_rank *r = &w->ranks[rank];
    for (uint32_t t = 0; t < r->geometry.num_tensors; t++)
        for (uint32_t b = 0; b < TOKENS / 4; b++)
            for (uint32_t p = 0; p < 2; p++) {
                const baton_strides_t *s = &r->tensors[t].stride;
                uint8_t *at = r->pool + r->tensors[t].offset + (first + b * STEP) * s->block + p * s->plane;
                for (int64_t i = 0; i < 4 * s->token; i++) {
                    if (!store && at[i] != value)
                        return false;
                    at[i] = value;
                }
            }
    return true;
}

/* ---- one round --------------------------------------------------------------------------------------------------- */

struct expected {
    uint32_t rank, first;
    baton_id_t id;
    bool is_offer, was_done;
    bool is_ours; /* its terminal event came, and the test has filled the blocks with a mark */
    uint64_t due_ns;
};

static void look_at_call(struct world *w, struct expected *c, uint32_t seed)
{
    const baton_event_t *e = world_event(w, c->rank, c->id);
    if (e == NULL) {
        assert_true(world_given_up(w, c->rank, c->id) != NULL || w->now <= c->due_ns);
        return;
    }
    if (c->is_ours)
        return;
    c->is_ours = true;
    c->was_done = e->status == BATON_STATUS_DONE;
    if (c->was_done && !c->is_offer)
        assert_int_equal(world_wrong(w, c->rank, seed, c->first, STEP, TOKENS), 0);
    assert_true(e->given_up == 0 || !c->was_done);
    each_byte(w, c->rank, c->first, c->is_offer ? 0xb0 : 0x77, true);
}

/* `quirks` must live as long as the world. */
static void begin_world(struct world *w, const struct cell *cell, struct quirks *quirks)
{
    static const struct world_engine alone[] = {{.name = "P", .tp = 1, .heads_total = 1, .num_blocks = 256},
                                                {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 256}};
    static const struct world_engine many[] = {{.name = "P", .tp = 2, .heads_total = 1, .num_blocks = 256},
                                               {.name = "D", .tp = 1, .heads_total = 1, .num_blocks = 256}};
    world_mode = cell->push ? BATON_MODE_PUSH : BATON_MODE_PULL;
    world_init(w, cell->replicas ? many : alone, 2);
    current = w;
    quirks_choose(quirks, "Open MPI v4.1.4", "ucx window 3", 4);
    quirks->put_is_remote = cell->call != SHIM_FLUSH;
    w->settings.rma_sieve_bytes = cell->sieved ? 10 << 20 : 0;
    w->settings.rma_run_bytes = 4096;
    w->settings.park_ms = 60000; /* by the real clock, which the path reads: nothing is overdue */
    w->settings.quiet_ms = QUIET_MS;
    w->settings.chunk_bytes = 512;
    take_ports(w, quirks);
}

/* The last rank wants what each of the others offers. Returns the number of calls. */
static uint32_t submit(struct world *w, struct expected *calls)
{
    uint32_t consumer = w->num_ranks - 1, num_calls = 0;
    for (uint32_t i = 0; i < WANTS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        for (uint32_t p = 0; p < consumer; p++) {
            world_fill(w, p, 10 + i, i * BLOCKS, STEP, TOKENS);
            calls[num_calls++] = (struct expected){.rank = p,
                                                   .first = i * BLOCKS,
                                                   .is_offer = true,
                                                   .id = world_offer(w, p, key, i * BLOCKS, STEP, TOKENS, OFFER_MS),
                                                   .due_ns = w->now + (OFFER_MS + QUIET_MS + SLACK_MS) * MS};
        }
        uint32_t first = (i + 1) % WANTS * BLOCKS;
        calls[num_calls++] = (struct expected){.rank = consumer,
                                               .first = first,
                                               .id = world_want(w, consumer, "P", key, first, STEP, TOKENS, WANT_MS),
                                               .due_ns = w->now + (WANT_MS + QUIET_MS + SLACK_MS) * MS};
    }
    return num_calls;
}

/* Until each call has its terminal event and nothing is late, or the time is up. */
static void run_calls(struct world *w, struct expected *calls, uint32_t num_calls)
{
    uint64_t end = w->now + (OFFER_MS + QUIET_MS + 2 * SLACK_MS) * MS;
    bool all = false;
    while (w->now < end && !(all && shim_late() == 0)) {
        all = true;
        pass(w, w->now < 20 * MS ? MS / 10 : 2 * MS);
        for (uint32_t i = 0; i < num_calls; i++) {
            look_at_call(w, &calls[i], 10 + i / w->num_ranks);
            all &= calls[i].is_ours;
        }
    }
}

static void judge(struct world *w, const struct expected *calls, uint32_t num_calls, struct tally *tally)
{
    for (uint32_t i = 0; i < num_calls; i++) {
        const struct expected *c = &calls[i];
        assert_true(c->is_ours || world_given_up(w, c->rank, c->id) != NULL);
        if (c->is_ours)
            assert_true(each_byte(w, c->rank, c->first, c->is_offer ? 0xb0 : 0x77, false));
        tally->done += c->was_done;
        tally->failed += !c->was_done;
        tally->given_up += !c->is_ours;
        if (!c->is_ours)
            w->ranks[c->rank].is_dead = true; /* world_fini does not ask it to come to rest */
    }
}

static void round_run(const struct cell *cell, struct tally *tally)
{
    struct quirks quirks;
    struct expected calls[WANTS * RANKS_MAX];
    struct world w;
    begin_world(&w, cell, &quirks);
    shim_set(&(struct shim_rule){.call = cell->call, .fault = cell->fault, .nth = cell->nth, .late_ns = LATE_NS});
    uint32_t num_calls = submit(&w, calls), num_ranks = w.num_ranks;
    run_calls(&w, calls, num_calls);
    tally->rounds++;
    tally->met += shim_met() > 0;
    shim_set(NULL);
    while (shim_late() > 0)
        pass(&w, 4 * MS);
    judge(&w, calls, num_calls, tally);
    world_fini(&w);
    for (uint32_t i = 0; i < num_ranks; i++)
        with_rma_destroy(rma_of[i]);
    fake_reset();
}

/* ---- all rounds ------------------------------------------------------------------------------------------------- */

static void each_occurrence(bool push, enum shim_call call)
{
    struct tally t = {0};
    fake_address = address;
    shim_clock = virtual_now;
    for (int kind = 0; kind < 4; kind++)
        for (int fault = 0; fault < SHIM_FAULTS; fault++)
            for (uint32_t nth = 1; nth <= OCCURRENCES; nth += every) {
                uint32_t met = t.met;
                round_run(&(struct cell){.push = push,
                                         .replicas = kind & 1,
                                         .sieved = kind & 2,
                                         .call = call,
                                         .fault = (enum shim_fault)fault,
                                         .nth = nth},
                          &t);
                if (t.met == met)
                    break; /* the call does not occur so often */
            }
    printf("# %s: %u rounds, the call was met in %u; %u calls done, %u failed, of those %u given up\n",
           shim_call_name[call], t.rounds, t.met, t.done, t.failed, t.given_up);
    assert_true(t.met > 0 && t.done > 0);
}

static void test_get(void **state)
{
    (void)state;
    each_occurrence(false, SHIM_GET);
}

static void test_rget(void **state)
{
    (void)state;
    each_occurrence(false, SHIM_RGET);
    each_occurrence(true, SHIM_RGET);
}

static void test_put(void **state)
{
    (void)state;
    each_occurrence(true, SHIM_PUT);
}

static void test_rput(void **state)
{
    (void)state;
    each_occurrence(true, SHIM_RPUT);
}

static void test_flush(void **state)
{
    (void)state;
    each_occurrence(true, SHIM_FLUSH);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),  cmocka_unit_test(test_rget),  cmocka_unit_test(test_put),
        cmocka_unit_test(test_rput), cmocka_unit_test(test_flush),
    };
    if (argc > 1)
        every = (uint32_t)strtoul(argv[1], NULL, 10);
    return every == 0 ? 2 : cmocka_run_group_tests(tests, NULL, NULL);
}
