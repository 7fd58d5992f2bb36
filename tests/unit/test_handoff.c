/* SPDX-License-Identifier: BSD-3-Clause */
/* handoff: an offer is found, taken, read and given back by words; who is killed half-way hinders nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shm/handoff.h"
#include "shm/places.h"

/* A rank here has the place of its number. */
enum { SLOTS = 8, RANKS = 4, WORDS = 64, ENGINE = 5, OTHER = 6 };

/* What all processes share. */
struct ground {
    struct handoff h;
    _Atomic uint64_t board[SLOTS];
    _Atomic uint64_t block[SLOTS][WORDS]; /* of the lease in the slot: its generation */
    _Atomic uint64_t read[RANKS], wrong;  /* of a rank: leases that it read unchanged; of all: with other bytes */
    _Atomic bool over;
    _Alignas(64) uint8_t area[];
};

static struct ground *ground_create(void)
{
    const size_t bytes = sizeof(struct ground) + handoff_bytes(SLOTS, RANKS);
    struct ground *g = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(g != MAP_FAILED);
    g->h = (struct handoff){.area = g->area, .board = g->board, .slots = SLOTS, .places = RANKS};
    return g;
}

static void ground_free(struct ground *g)
{
    munmap(g, sizeof(struct ground) + handoff_bytes(SLOTS, RANKS));
}

static struct handoff_name name_of(const char *key, uint32_t attempt)
{
    struct handoff_name name = {.attempt = attempt};
    snprintf(name.key, sizeof name.key, "%s", key);
    return name;
}

static bool begin(struct ground *g, uint32_t slot, uint64_t generation, const char *key)
{
    static const uint64_t any[] = {HANDOFF_NOBODY};
    struct handoff_offer offer = {
        .name = name_of(key, 0), .num_tokens = 100, .table_entries = 7, .table_offset = 4096 * slot, .num_attach = 3};
    memcpy(offer.attach, "abc", 3);
    for (uint32_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&g->block[slot][i], generation, memory_order_relaxed);
    handoff_write(&g->h, slot, generation, &offer, any, 1);
    atomic_store_explicit(&g->board[slot], generation, memory_order_release);
    return handoff_enter(&g->h, slot);
}

static void end(struct ground *g, uint32_t slot, uint64_t generation, int error)
{
    handoff_say_why(&g->h, slot, generation, error);
    atomic_store_explicit(&g->board[slot], generation + 1, memory_order_release);
    handoff_leave(&g->h, slot);
}

static struct handoff_want want_of(const char *key, uint64_t engine)
{
    return (struct handoff_want){.name = name_of(key, 0), .engine = engine, .num_tokens = 100, .left_ms = 1000};
}

static bool takes(const struct handoff *h, uint32_t rank, const struct handoff_want *want, struct handoff_grant *grant)
{
    return handoff_take(h, rank, want, grant) == HANDOFF_TAKEN;
}

static bool take(struct ground *g, const char *key, uint32_t rank, uint64_t engine, struct handoff_grant *grant)
{
    const struct handoff_want want = want_of(key, engine);
    return takes(&g->h, rank, &want, grant);
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void test_an_offer_is_found_and_given_back(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    uint32_t slot;
    int why;
    assert_false(take(g, "k", 0, ENGINE, &grant));
    assert_true(begin(g, 3, 7, "k"));
    assert_false(take(g, "kk", 0, ENGINE, &grant));
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).state, HANDOFF_NONE);
    assert_false(handoff_told(&g->h, &slot));
    assert_true(take(g, "k", 0, ENGINE, &grant));
    assert_int_equal(grant.slot, 3);
    assert_true(grant.generation == 7);
    assert_int_equal(grant.offer.num_tokens, 100);
    assert_int_equal(grant.offer.table_entries, 7);
    assert_true(grant.offer.table_offset == 4096 * 3);
    assert_int_equal(grant.offer.num_attach, 3);
    assert_memory_equal(grant.offer.attach, "abc", 3);
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).state, HANDOFF_READING);
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).left_ms, 1000);
    assert_int_equal(handoff_word(&g->h, 3, 9, 0).state, HANDOFF_NONE);
    assert_true(handoff_told(&g->h, &slot));
    assert_int_equal(slot, 3);
    assert_false(handoff_told(&g->h, &slot));
    assert_false(take(g, "k", 0, ENGINE, &grant)); /* it reads already */
    handoff_give_back(&g->h, 3, 7, 0, 0);
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).state, HANDOFF_DONE);
    assert_true(handoff_told(&g->h, &slot));
    assert_false(take(g, "k", 0, ENGINE, &grant)); /* it has had it */
    assert_true(take(g, "k", 1, ENGINE, &grant));
    handoff_give_back(&g->h, 3, 7, 1, BATON_EPEER);
    assert_int_equal(handoff_word(&g->h, 3, 7, 1).state, HANDOFF_FAILED);
    assert_int_equal(handoff_word(&g->h, 3, 7, 1).error, BATON_EPEER);
    assert_false(handoff_why(&g->h, 3, 7, &why));
    end(g, 3, 7, BATON_ETIMEDOUT);
    assert_true(handoff_why(&g->h, 3, 7, &why));
    assert_int_equal(why, BATON_ETIMEDOUT);
    assert_false(handoff_why(&g->h, 3, 9, &why));
    assert_false(take(g, "k", 2, ENGINE, &grant));
    ground_free(g);
}

static void test_what_is_unusual_goes_by_message(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    struct handoff_want want = want_of("k", ENGINE);
    assert_true(begin(g, 0, 7, "k"));
    want.num_tokens = 101;
    assert_int_equal(handoff_take(&g->h, 0, &want, &grant), HANDOFF_ASK);
    want = want_of("k", ENGINE);
    assert_int_equal(handoff_take(&g->h, RANKS, &want, &grant), HANDOFF_ASK);
    assert_int_equal(handoff_take(&g->h, PLACES_NONE, &want, &grant), HANDOFF_ASK);
    want = want_of("k", HANDOFF_NOBODY);
    assert_int_equal(handoff_take(&g->h, 0, &want, &grant), HANDOFF_ASK);
    want = want_of("k", ENGINE);
    want.name.attempt = 1;
    assert_int_equal(handoff_take(&g->h, 0, &want, &grant), HANDOFF_ASK);
    want = want_of("k", ENGINE);
    want.num_tokens = 1;
    want.left_ms = UINT32_MAX;
    assert_true(takes(&g->h, 0, &want, &grant));
    assert_int_equal(handoff_word(&g->h, 0, 7, 0).left_ms, HANDOFF_LEFT_MS_MAX);
    ground_free(g);
}

/* The offer "s" in slot 0, of generation 7, with these seats. */
static void begin_for(struct ground *g, const uint64_t *seats, uint32_t num_seats)
{
    const struct handoff_offer offer = {.name = name_of("s", 0), .num_tokens = 100};
    handoff_write(&g->h, 0, 7, &offer, seats, num_seats);
    atomic_store(&g->board[0], 7);
    assert_true(handoff_enter(&g->h, 0));
}

static void test_seats(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    const uint64_t seats[] = {OTHER, HANDOFF_NOBODY};
    begin_for(g, seats, 2);
    assert_int_equal(handoff_bind(&g->h, 0, 7, OTHER), 0);   /* its own */
    assert_int_equal(handoff_bind(&g->h, 0, 8, ENGINE), -1); /* of another lease */
    assert_true(take(g, "s", 0, ENGINE, &grant));
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE), 1); /* taken by taking the lease */
    assert_false(take(g, "s", 1, ENGINE + 9, &grant));
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE + 9), -1);
    assert_true(take(g, "s", 1, OTHER, &grant));
    ground_free(g);
}

/* An engine that has gone leaves its seats to others, but those that name it; its next life is another engine. */
static void test_engines_go(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    const uint64_t seats[] = {OTHER, HANDOFF_NOBODY};
    begin_for(g, seats, 2);
    assert_true(begin(g, 1, 9, "t"));
    assert_true(take(g, "s", 0, ENGINE, &grant));
    assert_true(take(g, "t", 0, ENGINE, &grant));
    assert_false(take(g, "s", 1, ENGINE + 9, &grant));
    handoff_forget(&g->h, ENGINE + 9); /* nobody heard of it: nothing changes */
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE), 1);
    handoff_clear(&g->h, 0);
    assert_int_equal(handoff_word(&g->h, 0, 7, 0).state, HANDOFF_NONE);
    handoff_forget(&g->h, ENGINE);
    assert_true(take(g, "s", 0, ENGINE + 9, &grant)); /* with its place, too */
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE + 9), 1);
    assert_true(take(g, "t", 1, OTHER, &grant));
    handoff_forget(&g->h, OTHER);
    assert_false(take(g, "s", 2, OTHER, &grant)); /* named for it as it was */
    assert_false(take(g, "s", 2, ENGINE, &grant));
    assert_int_equal(handoff_bind(&g->h, 0, 7, OTHER), -1);
    assert_true(take(g, "t", 2, OTHER, &grant));
    ground_free(g);
}

/* The producer's core knows what became of a seat whose engine has gone: it is free, or nobody's any more. */
static void test_seats_are_vacated(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    const uint64_t seats[] = {OTHER, HANDOFF_NOBODY, HANDOFF_NOBODY};
    begin_for(g, seats, 3);
    assert_true(take(g, "s", 0, ENGINE, &grant));
    handoff_vacate(&g->h, 0, 7, 1, true);
    handoff_forget(&g->h, ENGINE);
    assert_true(take(g, "s", 1, ENGINE + 10, &grant));
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE + 10), 1);
    handoff_vacate(&g->h, 0, 5, 1, true);  /* of an earlier lease: nothing */
    handoff_vacate(&g->h, 0, 7, 1, false); /* it had it */
    handoff_forget(&g->h, ENGINE + 10);
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE + 20), 2);
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE + 30), -1);
    handoff_vacate(&g->h, 0, 7, 0, true); /* named: not for others */
    assert_int_equal(handoff_bind(&g->h, 0, 7, ENGINE + 30), -1);
    ground_free(g);
}

/* Words can name so many engines at a time; others have their seats by message. Whoever goes leaves room. */
static void test_many_engines(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    const uint64_t most = HANDOFF_ENGINES;
    assert_true(begin(g, 0, 7, "k"));
    for (uint64_t e = 1; e <= most; e++) {
        assert_true(begin(g, 1, 7 + 2 * e, "t"));
        assert_int_equal(handoff_bind(&g->h, 1, 7 + 2 * e, e), 0);
        end(g, 1, 7 + 2 * e, 0);
    }
    assert_false(take(g, "k", 0, most + 1, &grant));
    assert_int_equal(handoff_bind(&g->h, 0, 7, most + 1), 0);
    assert_false(take(g, "k", 0, most + 1, &grant)); /* it is not known there who has it */
    assert_false(take(g, "k", 0, 1, &grant));
    handoff_forget(&g->h, 17);
    assert_false(take(g, "k", 0, most + 1, &grant)); /* it might take a second one */
    assert_true(begin(g, 2, 1001, "l"));
    assert_true(take(g, "l", 0, most + 1, &grant));
    assert_int_equal(handoff_bind(&g->h, 2, 1001, most + 1), 0);
    assert_int_equal(handoff_bind(&g->h, 2, 1001, 1), -1);
    ground_free(g);
}

/* A slow reader of a former lease of the slot says nothing about the next one. */
static void test_a_late_word(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant first, second;
    assert_true(begin(g, 0, 7, "k"));
    assert_true(take(g, "k", 0, ENGINE, &first));
    end(g, 0, 7, BATON_ECANCELED);
    assert_true(begin(g, 0, 9, "l"));
    handoff_give_back(&g->h, 0, first.generation, 0, 0);
    assert_int_equal(handoff_word(&g->h, 0, 9, 0).state, HANDOFF_NONE);
    assert_true(take(g, "l", 0, ENGINE, &second));
    handoff_give_back(&g->h, 0, first.generation, 0, BATON_EGONE); /* after the word about the next one */
    assert_int_equal(handoff_word(&g->h, 0, 9, 0).state, HANDOFF_READING);
    handoff_give_back(&g->h, 0, 9, 0, 0);
    assert_int_equal(handoff_word(&g->h, 0, 9, 0).state, HANDOFF_DONE);
    ground_free(g);
}

/* A lease that was granted by message is one that this rank has had, unless it has ended or is of no such offer. */
static void test_a_lease_is_held(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    uint32_t slot;
    assert_true(begin(g, 3, 7, "k"));
    assert_false(handoff_hold(&g->h, 3, 8, 0, 1000));
    assert_false(handoff_hold(&g->h, SLOTS, 7, 0, 1000));
    assert_false(handoff_hold(&g->h, 3, 7, RANKS, 1000));
    atomic_store(&g->board[2], 7); /* an offer that was not written there */
    assert_false(handoff_hold(&g->h, 2, 7, 0, 1000));
    assert_false(handoff_told(&g->h, &slot));
    assert_true(handoff_hold(&g->h, 3, 7, 0, 1000));
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).state, HANDOFF_READING);
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).left_ms, 1000);
    assert_true(handoff_told(&g->h, &slot));
    assert_int_equal(slot, 3);
    assert_false(take(g, "k", 0, ENGINE, &grant));
    assert_false(handoff_hold(&g->h, 3, 7, 0, 500)); /* another want of this rank */
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).left_ms, 1000);
    handoff_give_back(&g->h, 3, 7, 0, 0);
    assert_int_equal(handoff_word(&g->h, 3, 7, 0).state, HANDOFF_DONE);
    assert_false(handoff_hold(&g->h, 3, 7, 0, 500));
    assert_false(take(g, "k", 0, ENGINE, &grant));
    end(g, 3, 7, 0);
    assert_true(begin(g, 3, 9, "k"));
    assert_true(take(g, "k", 0, ENGINE, &grant));
    assert_false(handoff_hold(&g->h, 3, 7, 0, 1000)); /* the grant comes late: the word is about the next lease */
    assert_int_equal(handoff_word(&g->h, 3, 9, 0).state, HANDOFF_READING);
    ground_free(g);
}

/* ---- an offer that ends while it is taken ------------------------------------------------------------------------ */

/* In memory that cannot be written: the first word that a reader stores raises a signal, and then the offer ends. */
static struct {
    struct handoff h;
    _Atomic uint64_t board[1];
    bool trapped;
} trap;

#define TRAP_BYTES ((handoff_bytes(1, 1) + 4095) / 4096 * 4096)

static void on_trap(int signal)
{
    (void)signal;
    if (trap.trapped || mprotect(trap.h.area, TRAP_BYTES, PROT_READ | PROT_WRITE) != 0)
        _exit(3);
    trap.trapped = true;
    handoff_say_why(&trap.h, 0, 7, BATON_ECANCELED);
    atomic_store(&trap.board[0], 8);
    handoff_leave(&trap.h, 0);
}

/* Its engine takes a seat of it, or has one, and then finds that it has ended: it says so, and which offer it was. */
static void test_an_offer_that_ends_while_it_is_taken(void **state)
{
    (void)state;
    for (unsigned by_name = 0; by_name < 2; by_name++) {
        const uint64_t seat[] = {by_name ? ENGINE : HANDOFF_NOBODY};
        const struct handoff_offer offer = {.name = name_of("k", 0), .num_tokens = 100};
        const struct handoff_want want = want_of("k", ENGINE);
        struct handoff_grant grant = {0};
        struct sigaction before, act = {.sa_handler = on_trap};
        int why;
        trap.h = (struct handoff){.board = trap.board, .slots = 1, .places = 1};
        trap.h.area = mmap(NULL, TRAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(trap.h.area != MAP_FAILED);
        trap.trapped = false;
        handoff_write(&trap.h, 0, 7, &offer, seat, 1);
        atomic_store(&trap.board[0], 7);
        assert_true(handoff_enter(&trap.h, 0));
        assert_int_equal(mprotect(trap.h.area, TRAP_BYTES, PROT_READ), 0);
        sigaction(SIGSEGV, &act, &before);
        const enum handoff_taken taken = handoff_take(&trap.h, 0, &want, &grant);
        sigaction(SIGSEGV, &before, NULL);
        assert_true(trap.trapped);
        assert_int_equal(taken, HANDOFF_TOO_LATE);
        assert_int_equal(grant.slot, 0);
        assert_true(grant.generation == 7);
        assert_true(handoff_why(&trap.h, grant.slot, grant.generation, &why));
        assert_int_equal(why, BATON_ECANCELED);
        assert_int_equal(handoff_take(&trap.h, 0, &want, &grant), HANDOFF_ASK); /* nobody can find it any more */
        munmap(trap.h.area, TRAP_BYTES);
    }
}

/* More offers than their places in the index hold: those are found by message only, and the others are found. */
static void test_a_full_index(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    char key[16];
    unsigned entered = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        snprintf(key, sizeof key, "k%u", i);
        const bool is_entered = begin(g, i, 7 + 2 * i, key);
        entered += is_entered;
        assert_true(take(g, key, 0, ENGINE, &grant) == is_entered);
    }
    assert_int_equal(entered, SLOTS); /* an index has more places than the board has slots */
    for (uint32_t i = 0; i < SLOTS; i++)
        end(g, i, 7 + 2 * i, 0);
    for (uint32_t i = 0, slot; i < SLOTS; i++) { /* each slot was told of */
        assert_true(handoff_told(&g->h, &slot));
        assert_int_equal(slot, i);
    }
    assert_false(handoff_told(&g->h, &(uint32_t){0}));
    ground_free(g);
}

/* What is told of a large board: every slot once, and the same again. */
static void test_many_slots(void **state)
{
    (void)state;
    enum { MANY = 65536, STEP = 911 };
    uint8_t *area = calloc(1, handoff_bytes(MANY, 1));
    _Atomic uint64_t *board = calloc(MANY, sizeof *board);
    const struct handoff h = {.area = area, .board = board, .slots = MANY, .places = 1};
    uint32_t slot;
    assert_true(area != NULL && board != NULL);
    for (int round = 1; round <= 2; round++) {
        unsigned told = 0;
        for (uint32_t i = 0; i < MANY; i += STEP) {
            struct handoff_offer offer = {.name = name_of("k", i), .num_tokens = 1};
            struct handoff_grant grant;
            handoff_write(&h, i, (unsigned)round, &offer, (uint64_t[]){HANDOFF_NOBODY}, 1);
            board[i] = (unsigned)round;
            assert_true(handoff_enter(&h, i));
            assert_true(takes(&h, 0, &(struct handoff_want){.name = name_of("k", i), .engine = ENGINE, .num_tokens = 1},
                              &grant));
            handoff_give_back(&h, i, (unsigned)round, 0, 0);
            handoff_leave(&h, i);
        }
        while (handoff_told(&h, &slot)) {
            assert_int_equal(slot % STEP, 0);
            told++;
        }
        assert_int_equal(told, (MANY + STEP - 1) / STEP);
    }
    free(area);
    free((void *)board);
}

/* An area that another process has filled with anything. */
static void test_garbage(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct handoff_grant grant;
    const uint64_t bytes = handoff_bytes(SLOTS, RANKS);
    unsigned found = 0;
    srand(1);
    for (unsigned round = 0; round < 2000; round++) {
        uint32_t slot;
        begin(g, round % SLOTS, 7 + 2 * round, "k");
        for (unsigned i = 0; i < round % 50; i++)
            g->area[(uint64_t)rand() % bytes] = (uint8_t)rand();
        found += take(g, "k", 0, ENGINE, &grant);
        for (uint32_t i = 0; i < SLOTS; i++)
            handoff_word(&g->h, i, 7 + 2 * round, 1);
        for (unsigned i = 0; i < 100 && handoff_told(&g->h, &slot); i++)
            assert_true(slot < SLOTS);
        memset(g->area, 0, bytes);
    }
    assert_true(found > 100 && found < 2000);
    ground_free(g);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

/* Claims whatever there is, reads it, and compares what it has read if the board has not changed. */
static void read_for_ever(struct ground *g, uint32_t rank)
{
    char key[16];
    for (uint64_t n = 0; !atomic_load(&g->over); n++) {
        struct handoff_grant grant;
        uint64_t read[WORDS];
        snprintf(key, sizeof key, "k%u", (unsigned)((n + rank) % 3));
        if (!take(g, key, rank, rank % 2 != 0 ? ENGINE : OTHER, &grant))
            continue;
        for (uint32_t i = 0; i < WORDS; i++)
            read[i] = atomic_load_explicit(&g->block[grant.slot][i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        const bool counts = atomic_load(&g->board[grant.slot]) == grant.generation;
        for (uint32_t i = 0; counts && i < WORDS; i++)
            if (read[i] != grant.generation)
                atomic_fetch_add(&g->wrong, 1);
        if (counts)
            atomic_fetch_add(&g->read[rank], 1);
        handoff_give_back(&g->h, grant.slot, grant.generation, rank, counts ? 0 : BATON_EGONE);
    }
}

static pid_t start(struct ground *g, uint32_t rank)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        read_for_ever(g, rank);
        _exit(0);
    }
    return pid;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Three keys, each offered again as soon as it was ended; readers that are killed and stopped anywhere. */
static void test_readers_are_killed_and_stopped(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    pid_t reader[RANKS];
    uint64_t last = 1, lease[3] = {0}, done = 0, failed = 0, taken_by[2] = {0}, reads = 0;
    uint32_t slot_of[3] = {0};
    for (uint32_t r = 0; r < RANKS; r++)
        reader[r] = start(g, r);
    const uint64_t until = now_ms() + 3000;
    for (unsigned turn = 0; now_ms() < until; turn++) {
        const unsigned k = turn % 3;
        char key[16];
        snprintf(key, sizeof key, "k%u", k);
        if (lease[k] != 0) {
            for (uint32_t r = 0; r < RANKS; r++) {
                const struct handoff_word w = handoff_word(&g->h, slot_of[k], lease[k], r);
                done += w.state == HANDOFF_DONE;
                failed += w.state == HANDOFF_FAILED;
                taken_by[r % 2] += w.state != HANDOFF_NONE;
                /* One seat: ranks of one engine alone have it. */
                for (uint32_t q = 0; q < r; q++)
                    assert_false(q % 2 != r % 2 && w.state != HANDOFF_NONE &&
                                 handoff_word(&g->h, slot_of[k], lease[k], q).state != HANDOFF_NONE);
            }
            end(g, slot_of[k], lease[k], 0);
        }
        slot_of[k] = (slot_of[k] + 3) % 6; /* a slot of its own, now and then the other one */
        if (slot_of[k] % 3 != k)
            slot_of[k] = k;
        lease[k] = last += 2;
        assert_true(begin(g, slot_of[k], lease[k], key));
        if (turn % 64 == 0)
            usleep(200);
        if (turn % 4096 == 4095) {
            const uint32_t r = turn / 4096 % RANKS;
            if (turn / 4096 % 3 == 0) {
                kill(reader[r], SIGSTOP);
                usleep(2000);
                kill(reader[r], SIGCONT);
            } else {
                kill(reader[r], SIGKILL);
                assert_int_equal(waitpid(reader[r], NULL, 0), reader[r]);
                reader[r] = start(g, r);
            }
        }
    }
    atomic_store(&g->over, true);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(waitpid(reader[r], NULL, 0), reader[r]);
        reads += g->read[r];
    }
    assert_int_equal(g->wrong, 0);
    assert_true(done > 100 && reads > 100 && taken_by[0] > 0 && taken_by[1] > 0);
    (void)failed;
    ground_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_offer_is_found_and_given_back),
        cmocka_unit_test(test_what_is_unusual_goes_by_message),
        cmocka_unit_test(test_seats),
        cmocka_unit_test(test_engines_go),
        cmocka_unit_test(test_many_engines),
        cmocka_unit_test(test_seats_are_vacated),
        cmocka_unit_test(test_a_late_word),
        cmocka_unit_test(test_a_lease_is_held),
        cmocka_unit_test(test_an_offer_that_ends_while_it_is_taken),
        cmocka_unit_test(test_a_full_index),
        cmocka_unit_test(test_many_slots),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_readers_are_killed_and_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
