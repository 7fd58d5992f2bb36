/* SPDX-License-Identifier: BSD-3-Clause */
/* lanes: messages of a node come in order, whole and once; who is stopped, killed or writes garbage hinders nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "shm/lanes.h"
#include "with_vicinity.h"

/* Ranks 0, 2, 3 and 5 of a world of six are of one node; 1 and 4 are elsewhere. */
enum { WORLD = 6, RANKS = 4 };
static const uint32_t of_node[RANKS] = {0, 2, 3, 5};

struct ground {
    struct bell bell[RANKS];
    struct lanes_at at[WORLD];
    uint32_t place[WORLD]; /* of a rank, in all areas */
    _Atomic uint64_t sent[RANKS], taken[RANKS], wrong;
    _Atomic bool over;
    _Alignas(64) uint8_t area[];
};

static size_t ground_bytes(void)
{
    return sizeof(struct ground) + RANKS * lanes_bytes(RANKS);
}

static struct ground *ground_create(void)
{
    struct ground *g = mmap(NULL, ground_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(g != MAP_FAILED);
    for (uint32_t i = 0; i < RANKS; i++) {
        g->at[of_node[i]] = (struct lanes_at){g->area + i * lanes_bytes(RANKS), RANKS};
        g->place[of_node[i]] = i;
    }
    return g;
}

/* A rank's lanes to others, and the rings that it owes them. */
struct side {
    struct vicinity *vicinity;
    struct lanes *lanes;
    struct rings *rings;
};

static struct side open_as(struct ground *g, uint32_t rank)
{
    static const struct logger quiet = {.level = LOG_NONE};
    struct side s;
    s.vicinity = with_vicinity(rank, WORLD, of_node, RANKS);
    assert_int_equal(rings_create(s.vicinity, &s.rings), 0);
    assert_int_equal(lanes_create(&g->at[rank], s.vicinity, s.rings, &quiet, &s.lanes), 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        const uint32_t to = of_node[i];
        rings_join(s.rings, to, &g->bell[i]);
        lanes_join(s.lanes, to, &(struct lanes_rank){g->at[to], g->place[rank], g->place[to]});
    }
    return s;
}

static void close_side(struct side s)
{
    lanes_destroy(s.lanes);
    rings_destroy(s.rings);
    vicinity_destroy(s.vicinity);
}

static void ring(struct side s)
{
    rings_ring(s.rings, RINGS_NOW);
}

static void send_text(struct side s, uint32_t to, const char *text)
{
    assert_int_equal(lanes_send(s.lanes, to, text, (uint32_t)strlen(text) + 1, RINGS_NOW), 0);
}

static void expect_text(struct side s, uint32_t from, const char *text)
{
    struct port_event e;
    assert_int_equal(lanes_take(s.lanes, &e, 1), 1);
    assert_int_equal(e.kind, PORT_MESSAGE);
    assert_int_equal(e.peer, from);
    assert_int_equal(e.bytes, strlen(text) + 1);
    assert_string_equal((const char *)e.data, text);
}

static void expect_nothing(struct side s)
{
    struct port_event e;
    assert_int_equal(lanes_take(s.lanes, &e, 1), 0);
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void test_messages_come_in_order(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 2), b = open_as(g, 5);
    assert_true(lanes_lead_to(a.lanes, 5) && lanes_lead_to(a.lanes, 2) && !lanes_lead_to(a.lanes, 1));
    expect_nothing(b);
    const uint32_t rings = bell_read(&g->bell[3]);
    send_text(a, 5, "one");
    send_text(a, 5, "two");
    send_text(b, 5, "to myself");
    assert_int_equal(bell_read(&g->bell[3]) - rings, 0);
    ring(a); /* once for both */
    assert_int_equal(bell_read(&g->bell[3]) - rings, 1);
    ring(a);
    assert_int_equal(bell_read(&g->bell[3]) - rings, 1);
    ring(b);
    assert_int_equal(bell_read(&g->bell[3]) - rings, 2);
    expect_text(b, 2, "one");
    expect_text(b, 5, "to myself"); /* the lanes have turns */
    expect_text(b, 2, "two");
    expect_nothing(b);
    expect_nothing(a);
    close_side(a);
    close_side(b);
    munmap(g, ground_bytes());
}

/* Whom nobody waits for is rung later. */
static void test_a_message_that_can_wait(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 2);
    const uint32_t rings = bell_read(&g->bell[3]);
    assert_int_equal(lanes_send(a.lanes, 5, "x", 1, RINGS_LATER), 0);
    ring(a);
    assert_int_equal(bell_read(&g->bell[3]), rings);
    rings_ring(a.rings, RINGS_LATER);
    assert_int_equal(bell_read(&g->bell[3]), rings + 1);
    for (uint32_t i = 1; i < LANES_MESSAGES; i++)
        assert_int_equal(lanes_send(a.lanes, 5, "x", 1, RINGS_LATER), 0);
    ring(a);
    assert_int_equal(bell_read(&g->bell[3]), rings + 1);
    assert_int_equal(lanes_send(a.lanes, 5, "x", 1, RINGS_LATER), BATON_EAGAIN); /* what is next waits for them */
    ring(a);
    assert_int_equal(bell_read(&g->bell[3]), rings + 2);
    close_side(a);
    munmap(g, ground_bytes());
}

static void test_the_longest_message(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0), b = open_as(g, 3);
    uint8_t long_one[LANES_MESSAGE_MAX];
    struct port_event e[2];
    for (uint32_t i = 0; i < sizeof long_one; i++)
        long_one[i] = (uint8_t)(i * 7 + 1);
    for (unsigned n = 0; n < 3 * LANES_MESSAGES; n++) {
        assert_int_equal(lanes_send(a.lanes, 3, long_one, sizeof long_one, RINGS_NOW), 0);
        assert_int_equal(lanes_send(a.lanes, 3, "x", 1, RINGS_NOW), 0);
        assert_int_equal(lanes_take(b.lanes, e, 2), 2);
        assert_int_equal(e[0].bytes, sizeof long_one);
        assert_memory_equal(e[0].data, long_one, sizeof long_one);
        assert_int_equal(e[1].bytes, 1);
    }
    close_side(a);
    close_side(b);
    munmap(g, ground_bytes());
}

/* A full lane holds up its own messages alone, and its sender is rung once there is a place. */
static void test_a_full_lane(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0), b = open_as(g, 2), c = open_as(g, 3);
    struct port_event e;
    for (uint32_t i = 0; i < LANES_MESSAGES; i++)
        assert_int_equal(lanes_send(a.lanes, 2, &i, sizeof i, RINGS_NOW), 0);
    ring(a);
    uint32_t rings = bell_read(&g->bell[0]);
    assert_int_equal(lanes_send(a.lanes, 2, "x", 1, RINGS_NOW), BATON_EAGAIN);
    assert_int_equal(lanes_send(a.lanes, 2, "x", 1, RINGS_NOW), BATON_EAGAIN);
    send_text(a, 3, "to another one");
    expect_text(c, 0, "to another one");
    send_text(c, 2, "from another one");
    ring(c);
    assert_int_equal(bell_read(&g->bell[0]), rings);
    assert_int_equal(lanes_take(b.lanes, &e, 1), 1);
    assert_int_equal(e.peer, 0);
    assert_int_equal(bell_read(&g->bell[0]), rings);
    ring(b);
    assert_int_equal(bell_read(&g->bell[0]), rings + 1);
    expect_text(b, 3, "from another one"); /* before all that is left of the full lane */
    ring(b);
    assert_int_equal(bell_read(&g->bell[0]), rings + 1);
    send_text(a, 2, "the last");
    for (uint32_t i = 1; i < LANES_MESSAGES; i++) {
        uint32_t value;
        assert_int_equal(lanes_take(b.lanes, &e, 1), 1);
        memcpy(&value, e.data, sizeof value);
        assert_int_equal(value, i);
    }
    expect_text(b, 0, "the last");
    close_side(a);
    close_side(b);
    close_side(c);
    munmap(g, ground_bytes());
}

/* A look takes so many messages at most. Nobody rings for what it leaves, so it says that there may be more. */
static void test_a_look_that_is_cut(void **state)
{
    (void)state;
    enum { EACH = LANES_MESSAGES - 6, ALL = 3 * EACH };
    struct ground *g = ground_create();
    struct side to = open_as(g, 0), from[] = {open_as(g, 2), open_as(g, 3), open_as(g, 5)};
    struct port_event events[2 * ALL];
    int taken = 0, looks = 0;
    for (int i = 0; i < ALL; i++)
        send_text(from[i / EACH], 0, "a message");
    do {
        taken += lanes_take(to.lanes, events, 2 * ALL);
        assert_true(lanes_are_cut(to.lanes) || taken == ALL);
    } while (lanes_are_cut(to.lanes) && ++looks < ALL);
    assert_int_equal(taken, ALL);
    assert_in_range(looks, 1, ALL - 1);
    close_side(to);
    for (int i = 0; i < 3; i++)
        close_side(from[i]);
    munmap(g, ground_bytes());
}

/* All lanes of an area that are full of the longest messages fill it, and touch no byte around it. */
static unsigned take_some(struct side s, int max)
{
    struct port_event e[LANES_MESSAGES];
    return (unsigned)lanes_take(s.lanes, e, max);
}

/* A look ends when all that was there at its beginning was taken, though a rank goes on sending. */
static void test_a_look_ends_though_messages_go_on(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0), b = open_as(g, 3), to = open_as(g, 5);
    lanes_look(to.lanes);
    assert_true(lanes_have_looked(to.lanes));
    for (uint32_t i = 0; i < LANES_MESSAGES; i++)
        assert_int_equal(lanes_send(a.lanes, 5, "x", 1, RINGS_NOW), 0);
    assert_true(lanes_have_looked(to.lanes)); /* they came later */
    for (uint32_t i = 0; i < 3; i++)
        send_text(b, 5, "y");
    lanes_look(to.lanes);
    unsigned taken = 0;
    while (!lanes_have_looked(to.lanes)) {
        assert_true(taken < 2 * (LANES_MESSAGES + 3));
        taken += take_some(to, 2);
        for (uint32_t i = 0; i < 2; i++)
            lanes_send(a.lanes, 5, "z", 1, RINGS_NOW);
    }
    assert_true(taken >= LANES_MESSAGES + 3);
    assert_true(take_some(to, 1) == 1); /* of those that were sent meanwhile */
    close_side(a);
    close_side(b);
    close_side(to);
    munmap(g, ground_bytes());
}

/* A count that was changed by no message keeps no look open. */
static void test_a_look_at_garbage_ends(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0), b = open_as(g, 5);
    uint32_t *words = (void *)g->at[5].area; /* the first: how many rank 0 has put there */
    for (uint32_t i = 0; i < 10; i++)
        send_text(a, 5, "x");
    lanes_look(b.lanes);
    words[0] = 7;
    for (unsigned n = 0; n < 2 * RANKS; n++)
        take_some(b, LANES_MESSAGES);
    assert_true(lanes_have_looked(b.lanes));
    words[0] = 1000000;
    lanes_look(b.lanes);
    assert_true(lanes_have_looked(b.lanes));
    close_side(a);
    close_side(b);
    munmap(g, ground_bytes());
}

static void test_nothing_lies_outside(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    const size_t around = 4096, bytes = lanes_bytes(RANKS);
    uint8_t message[LANES_MESSAGE_MAX], *area = aligned_alloc(64, (2 * around + bytes + 63) & ~(size_t)63);
    assert_non_null(area);
    memset(area, 0x5a, 2 * around + bytes);
    memset(area + around, 0, bytes);
    memset(message, 0x77, sizeof message);
    g->at[of_node[1]].area = area + around;
    struct side to = open_as(g, 2), from[] = {open_as(g, 0), open_as(g, 3), open_as(g, 5)};
    for (int round = 0; round < 3; round++) {
        struct port_event e;
        int taken = 0;
        for (int i = 0; i < 3; i++) {
            for (uint32_t k = 0; k < LANES_MESSAGES; k++)
                assert_int_equal(lanes_send(from[i].lanes, 2, message, sizeof message, RINGS_NOW), 0);
            assert_int_equal(lanes_send(from[i].lanes, 2, message, sizeof message, RINGS_NOW), BATON_EAGAIN);
        }
        for (; lanes_take(to.lanes, &e, 1) == 1; taken++) {
            assert_int_equal(e.bytes, sizeof message);
            assert_memory_equal(e.data, message, sizeof message);
        }
        assert_int_equal(taken, 3 * LANES_MESSAGES);
    }
    for (size_t i = 0; i < around; i++) {
        assert_int_equal(area[i], 0x5a);
        assert_int_equal(area[around + bytes + i], 0x5a);
    }
    assert_int_equal(lanes_bad(to.lanes), 0);
    close_side(to);
    for (int i = 0; i < 3; i++)
        close_side(from[i]);
    free(area);
    munmap(g, ground_bytes());
}

/* Ranks of one node that were built at different times must have the same places. */
static void test_the_layout_is_frozen(void **state)
{
    (void)state;
    static const struct {
        uint32_t ranks;
        uint64_t words; /* bytes of heads, tails and stuck ones */
    } cases[] = {{1, 3 * 64}, {16, 3 * 64}, {17, 3 * 128}, {32, 3 * 128}, {33, 3 * 192}};
    const uint64_t lane = lanes_bytes(1) - 3 * 64;
    assert_int_equal(lane, 16 * 2048);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(lanes_bytes(cases[i].ranks), cases[i].words + cases[i].ranks * lane);
}

static void test_where_lanes_lead(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0);
    for (uint32_t i = 0; i < WORLD; i++)
        assert_int_equal(lanes_lead_to(a.lanes, i), i != 1 && i != 4);
    close_side(a);
    munmap(g, ground_bytes());
}

/* A neighbour goes with its lane full and half read. Who has its place and rank then, or another rank, starts anew. */
static void test_a_neighbour_leaves(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0), b = open_as(g, 5), c = open_as(g, 3);
    for (uint32_t i = 0; i < LANES_MESSAGES; i++)
        send_text(a, 5, "old");
    assert_int_equal(lanes_send(a.lanes, 5, "x", 2, RINGS_NOW), BATON_EAGAIN);
    for (int i = 0; i < 3; i++)
        expect_text(b, 0, "old");
    lanes_look(b.lanes);
    lanes_leave(b.lanes, 0);
    lanes_clear(b.lanes, g->place[0]);
    close_side(a);
    assert_false(lanes_lead_to(b.lanes, 0));
    assert_true(lanes_have_looked(b.lanes));
    expect_nothing(b);
    send_text(c, 5, "another");
    expect_text(b, 3, "another");
    lanes_join(b.lanes, 1, &(struct lanes_rank){g->at[0], g->place[5], g->place[0]});
    a = open_as(g, 0);
    for (uint32_t i = 0; i < LANES_MESSAGES; i++)
        send_text(a, 5, "new");
    for (uint32_t i = 0; i < LANES_MESSAGES; i++)
        expect_text(b, 1, "new");
    expect_nothing(b);
    assert_int_equal(lanes_bad(b.lanes), 0);
    close_side(a);
    close_side(b);
    close_side(c);
    munmap(g, ground_bytes());
}

/* ---- garbage ----------------------------------------------------------------------------------------------------- */

static void test_garbage(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side a = open_as(g, 0), b = open_as(g, 5);
    uint32_t *words = (void *)g->at[5].area; /* the first: how many rank 0 has put there */
    uint32_t *length = (void *)(g->at[5].area + 3 * 64);
    words[0] = 77;
    expect_nothing(b);
    assert_true(lanes_bad(b.lanes) == 1);
    words[0] = 78;
    length[77 % LANES_MESSAGES * 512] = LANES_MESSAGE_MAX + 1;
    expect_nothing(b);
    words[0] = 79;
    length[78 % LANES_MESSAGES * 512] = 0;
    expect_nothing(b);
    assert_true(lanes_bad(b.lanes) == 3);
    words[16] = 5; /* it took more than there were: rank 0 finds its lane full */
    assert_int_equal(lanes_send(a.lanes, 5, "x", 1, RINGS_NOW), BATON_EAGAIN);
    srand(1);
    for (unsigned n = 0; n < 2000; n++) {
        struct port_event e[4];
        for (uint64_t i = 0; i < lanes_bytes(RANKS); i += 1 + (uint64_t)rand() % 997)
            g->at[5].area[i] = (uint8_t)rand();
        int got = lanes_take(b.lanes, e, 4);
        for (int i = 0; i < got; i++)
            assert_true(e[i].bytes > 0 && e[i].bytes <= LANES_MESSAGE_MAX && e[i].peer < WORLD);
        lanes_send(a.lanes, 5, "x", 1, RINGS_NOW);
    }
    assert_true(lanes_bad(b.lanes) > 100);
    close_side(a);
    close_side(b);
    munmap(g, ground_bytes());
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

struct letter {
    uint64_t number, copies[9]; /* all alike */
};

static void write_letter(struct letter *m, uint64_t number)
{
    m->number = number;
    for (unsigned i = 0; i < 9; i++)
        m->copies[i] = number * 3;
}

/* Sends to rank 0 for ever, sleeping while the lane is full. */
static void send_for_ever(struct ground *g, uint32_t node_rank)
{
    struct side l = open_as(g, of_node[node_rank]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
    while (!atomic_load(&g->over)) {
        struct letter m;
        const uint32_t seen = bell_read(&g->bell[node_rank]);
        write_letter(&m, atomic_load(&g->sent[node_rank]));
        const int rc = lanes_send(l.lanes, 0, &m, sizeof m, RINGS_NOW);
        ring(l);
        if (rc == 0)
            atomic_fetch_add(&g->sent[node_rank], 1);
        else
            bell_sleep(&g->bell[node_rank], seen, UINT64_C(10000000000));
    }
    _exit(0);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void take_letters(struct ground *g, struct side l, uint64_t next[RANKS])
{
    struct port_event e[8];
    int n = lanes_take(l.lanes, e, 8);
    ring(l);
    for (int i = 0; i < n; i++) {
        struct letter m;
        uint32_t from = 1;
        while (of_node[from] != e[i].peer)
            from++;
        assert_int_equal(e[i].bytes, sizeof m);
        memcpy(&m, e[i].data, sizeof m);
        for (unsigned k = 0; k < 9; k++)
            assert_true(m.copies[k] == m.number * 3);
        assert_true(m.number == next[from]);
        next[from]++;
        atomic_fetch_add(&g->taken[from], 1);
    }
}

#define PATIENCE_MS 5000 /* less than a sender sleeps, and more than any process waits for a processor */

/* Whether messages came from each of those that nobody stops. */
static bool all_sent(const struct ground *g, const uint64_t before[RANKS])
{
    bool all = true;
    for (uint32_t i = 2; i < RANKS; i++)
        all &= g->taken[i] > before[i];
    return all;
}

/*
 * Senders that sleep on their bells alone while their lanes are full, and a receiver that pauses: a ring that is lost
 * would stop one for ten seconds. One sender is stopped and killed at any store; the other two never miss a beat.
 */
static void test_senders_are_stopped_and_killed(void **state)
{
    (void)state;
    struct ground *g = ground_create();
    struct side l = open_as(g, 0);
    uint64_t next[RANKS] = {0}, before[RANKS] = {0};
    pid_t pid[RANKS] = {0};
    for (uint32_t i = 1; i < RANKS; i++)
        if ((pid[i] = fork()) == 0)
            send_for_ever(g, i);
    for (unsigned round = 0; round < 60; round++) {
        for (uint64_t until = now_ms() + 20; now_ms() < until || !all_sent(g, before);) {
            take_letters(g, l, next);
            assert_true(now_ms() < until + PATIENCE_MS);
        }
        if (round % 4 == 1)
            kill(pid[1], SIGSTOP);
        if (round % 4 == 2)
            kill(pid[1], SIGCONT);
        if (round == 40) { /* its lane is its end: nobody else may write it */
            kill(pid[1], SIGKILL);
            waitpid(pid[1], NULL, 0);
        }
        for (uint32_t i = 2; i < RANKS; i++)
            before[i] = g->taken[i];
        if (round % 8 == 7)
            usleep(3000);
    }
    atomic_store(&g->over, true);
    for (uint32_t i = 2; i < RANKS; i++) {
        bell_ring(&g->bell[i]);
        waitpid(pid[i], NULL, 0);
    }
    for (unsigned n = 0; n < 100; n++)
        take_letters(g, l, next);
    for (uint32_t i = 2; i < RANKS; i++)
        assert_true(next[i] == g->sent[i]);
    assert_true(next[1] >= g->sent[1] && next[1] <= g->sent[1] + 1 && next[1] > 0); /* killed before it counted it */
    assert_true(lanes_bad(l.lanes) == 0);
    close_side(l);
    munmap(g, ground_bytes());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_come_in_order),
        cmocka_unit_test(test_a_message_that_can_wait),
        cmocka_unit_test(test_the_longest_message),
        cmocka_unit_test(test_a_full_lane),
        cmocka_unit_test(test_a_look_that_is_cut),
        cmocka_unit_test(test_a_look_ends_though_messages_go_on),
        cmocka_unit_test(test_a_look_at_garbage_ends),
        cmocka_unit_test(test_nothing_lies_outside),
        cmocka_unit_test(test_the_layout_is_frozen),
        cmocka_unit_test(test_where_lanes_lead),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_a_neighbour_leaves),
        cmocka_unit_test(test_senders_are_stopped_and_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
