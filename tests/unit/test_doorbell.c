/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell: a ring wakes whoever sleeps on the bell; what is no ring does not; nobody is rung too often. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "mpi/doorbell.h"

#define MS CLOCK_NS_PER_MS
#define RANKS 3

/* Rank 2 rings others and cannot be rung. */
struct ranks {
    struct doorbell bell[RANKS];
    struct bell rung[RANKS];
    struct doorbell_card cards[RANKS];
};

static void rung(void *bell)
{
    bell_ring(bell);
}

/* Opens rank r's anew. */
static int open_with(struct ranks *w, uint32_t r, bool listens, doorbell_rung_fn *rung_fn, void *arg)
{
    const char *why = NULL;
    w->bell[r] = (struct doorbell){.rung_fn = rung_fn, .arg = arg};
    return doorbell_open(&w->bell[r], r, listens, &why);
}

static int open_one(struct ranks *w, uint32_t r, bool listens)
{
    return open_with(w, r, listens, rung, &w->rung[r]);
}

static void open_all(struct ranks *w)
{
    memset(w, 0, sizeof *w);
    for (uint32_t r = 0; r < RANKS; r++) {
        bell_init(&w->rung[r]);
        assert_int_equal(open_one(w, r, r != 2), 0);
        w->cards[r] = w->bell[r].card;
    }
    assert_int_equal(w->cards[2].port, 0); /* nothing that peers would write to */
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(doorbell_know(&w->bell[r], w->cards, RANKS), 0);
}

static void close_all(struct ranks *w)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        doorbell_close(&w->bell[r]);
        doorbell_close(&w->bell[r]); /* does no harm */
    }
}

static void ring(struct doorbell *from, uint32_t to, uint64_t now_ns)
{
    doorbell_ring(from, to, now_ns);
    doorbell_flush(from);
}

static bool is_heard(const struct ranks *w, uint32_t rank, uint32_t rings)
{
    const uint64_t until = clock_now_ns() + 2000 * MS;
    while (doorbell_heard(&w->bell[rank]) != rings && clock_now_ns() < until)
        usleep(200);
    return doorbell_heard(&w->bell[rank]) == rings;
}

static void test_wakes(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    for (uint32_t from = 0; from < RANKS; from += 2) {
        const uint32_t seen = bell_look(&w.rung[1]);
        const uint64_t began = clock_now_ns();
        ring(&w.bell[from], 1, began);
        bell_sleep(&w.rung[1], seen, 5000 * MS);
        assert_true(clock_now_ns() - began < 4000 * MS);
        assert_int_not_equal(bell_look(&w.rung[1]), seen);
        assert_int_equal(doorbell_heard(&w.bell[1]), from / 2 + 1);
    }
    assert_int_equal(doorbell_heard(&w.bell[0]), 0);
    close_all(&w);
}

static void test_not_too_often(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    ring(&w.bell[0], 1, 1000 * MS);
    ring(&w.bell[0], 1, 1000 * MS + 99999);
    ring(&w.bell[0], 1, 1000 * MS + 100000);
    assert_true(is_heard(&w, 1, 2));
    ring(&w.bell[0], 2, 1000 * MS);     /* cannot be rung */
    ring(&w.bell[0], RANKS, 1000 * MS); /* there is none */
    assert_int_equal(w.bell[0].unsent, 0);
    usleep(20000);
    assert_int_equal(doorbell_heard(&w.bell[1]), 2);
    close_all(&w);
    ring(&w.bell[0], 1, 2000 * MS); /* closed */
}

/* Rings wait for the end of a turn. More than there is room for go at once. */
static void test_flush(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    doorbell_ring(&w.bell[0], 1, 1000 * MS);
    doorbell_ring(&w.bell[0], 1, 2000 * MS);
    usleep(20000);
    assert_int_equal(doorbell_heard(&w.bell[1]), 0);
    doorbell_flush(&w.bell[0]);
    doorbell_flush(&w.bell[0]);
    assert_true(is_heard(&w, 1, 2));
    for (uint64_t i = 0; i <= DOORBELL_OWED; i++)
        doorbell_ring(&w.bell[0], 1, (3000 + i) * MS);
    assert_true(is_heard(&w, 1, 2 + DOORBELL_OWED));
    assert_int_equal(w.bell[0].rung, 3 + DOORBELL_OWED);
    doorbell_close(&w.bell[0]);
    doorbell_flush(&w.bell[0]);
    usleep(20000);
    assert_int_equal(doorbell_heard(&w.bell[1]), 2 + DOORBELL_OWED);
    close_all(&w);
}

static void test_tries(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    assert_true(doorbell_try(&w.bell[0], 1, 2000 * MS));
    assert_true(doorbell_try(&w.bell[2], 0, 2000 * MS)); /* who does not listen hears the answer all the same */
    assert_false(doorbell_try(&w.bell[0], 2, 10 * MS));
    doorbell_close(&w.bell[1]);
    const uint64_t began = clock_now_ns();
    assert_false(doorbell_try(&w.bell[0], 1, 50 * MS)); /* nobody is there any more */
    assert_true(clock_now_ns() - began >= 50 * MS);
    assert_int_equal(doorbell_heard(&w.bell[0]), 0); /* questions and answers are no rings */
    close_all(&w);
}

static void send_raw(const struct ranks *w, uint32_t rank, const void *data, size_t bytes)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(w->cards[rank].port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(s >= 0);
    assert_int_equal(sendto(s, data, bytes, 0, (const struct sockaddr *)&to, sizeof to), (ssize_t)bytes);
    close(s);
}

static void test_strangers(void **state)
{
    (void)state;
    struct ranks w;
    uint8_t garbage[64] = {0};
    open_all(&w);
    ring(&w.bell[0], 1, 1000 * MS);
    assert_true(is_heard(&w, 1, 1));
    for (size_t bytes = 0; bytes <= sizeof garbage; bytes++)
        send_raw(&w, 1, garbage, bytes);
    struct { /* a right one but for its key */
        uint32_t magic;
        uint16_t version, kind;
        uint32_t from, zero;
        uint64_t key, reply;
    } ring = {UINT32_C(0x4b4e5442), 1, 1, 0, 0, w.cards[1].key + 1, 0};
    send_raw(&w, 1, &ring, sizeof ring);
    ring.key--;
    ring.kind = 9;
    send_raw(&w, 1, &ring, sizeof ring);
    ring.kind = 1;
    ring.version = 2;
    send_raw(&w, 1, &ring, sizeof ring);
    ring.version = 1;
    send_raw(&w, 1, &ring, sizeof ring); /* and a right one, by which the others have been looked at */
    assert_true(is_heard(&w, 1, 2));
    assert_int_equal(atomic_load(&w.bell[1].strange), sizeof garbage + 1 + 3);
    close_all(&w);
}

/* Cards as a rank with a fault would send them. */
static void test_bad_cards(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    doorbell_close(&w.bell[0]);
    w.cards[1].num = DOORBELL_ADDRESSES + 1;
    w.cards[2] = (struct doorbell_card){.key = 1, .port = 9};
    assert_int_equal(open_one(&w, 0, false), 0);
    assert_int_equal(doorbell_know(&w.bell[0], w.cards, RANKS), 0);
    for (uint32_t r = 1; r < RANKS; r++) {
        ring(&w.bell[0], r, 1000 * MS);
        assert_false(doorbell_try(&w.bell[0], r, MS));
    }
    assert_int_equal(w.bell[0].unsent, 0);
    assert_int_equal(doorbell_heard(&w.bell[1]), 0);
    close_all(&w);
}

/* Docker's bridge has one address on every host: it leads to this host. What is left is taken, or nothing. */
static void test_addresses(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    doorbell_close(&w.bell[0]);
    assert_int_equal(open_one(&w, 0, false), 0);
    w.bell[0].card.num = 2;
    w.bell[0].card.address[0] = htonl(0xac110001); /* 172.17.0.1 */
    w.bell[0].card.address[1] = htonl(0x0a000001);
    w.bell[0].card.prefix[0] = 16;
    w.bell[0].card.prefix[1] = 24;
    w.cards[1].num = 3;
    w.cards[1].address[0] = htonl(0xac110001);
    w.cards[1].address[1] = htonl(0x0b000002);
    w.cards[1].address[2] = htonl(0x0a000002); /* in the network that both are in */
    w.cards[2].port = 9;
    w.cards[2].num = 1;
    w.cards[2].address[0] = htonl(0xac110001);
    assert_int_equal(doorbell_know(&w.bell[0], w.cards, RANKS), 0);
    assert_int_equal(w.bell[0].peer[1].address, htonl(0x0a000002));
    assert_int_equal(w.bell[0].peer[2].port, 0);
    doorbell_close(&w.bell[0]);
    assert_int_equal(open_one(&w, 0, false), 0);
    w.cards[1] = w.bell[0].card; /* another rank of this host */
    w.cards[1].port = 9;
    assert_int_equal(doorbell_know(&w.bell[0], w.cards, 2), 0);
    assert_int_equal(w.bell[0].peer[1].address, htonl(INADDR_LOOPBACK));
    close_all(&w);
}

/* Who does not answer some rings is named, until it answers; who has answered is not asked again. */
static void test_silent(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    ring(&w.bell[0], 1, 1000 * MS);
    for (uint64_t until = clock_now_ns() + 2000 * MS; clock_now_ns() < until && !w.bell[0].peer[1].has_answered;)
        usleep(200);
    assert_true(w.bell[0].peer[1].has_answered);
    doorbell_close(&w.bell[1]);
    for (uint64_t i = 1; i < 20; i++)
        ring(&w.bell[0], 1, (1000 + 200 * i) * MS);
    assert_int_equal(w.bell[0].silent, -1);
    doorbell_silence(&w.bell[0]);
    w.bell[0].peer[1].has_answered = false;
    for (uint64_t i = 0; i < 20; i++) /* all within 100 ms: asked once */
        ring(&w.bell[0], 1, 10000 * MS + i * MS);
    assert_int_equal(w.bell[0].silent, -1);
    for (uint64_t i = 1; i < 10; i++)
        ring(&w.bell[0], 1, (10000 + 200 * i) * MS);
    assert_int_equal(w.bell[0].silent, 1);
    w.bell[0].peer[2] = w.bell[0].peer[1]; /* one more that does not answer */
    w.bell[0].peer[2].asks = 0;
    for (uint64_t i = 1; i < 10; i++)
        ring(&w.bell[0], 2, (20000 + 200 * i) * MS);
    assert_int_equal(w.bell[0].silent, 1);
    w.bell[0].peer[1].has_answered = true; /* as the thread notes it */
    doorbell_flush(&w.bell[0]);
    assert_int_equal(w.bell[0].silent, -1);
    ring(&w.bell[0], 2, 30000 * MS);
    assert_int_equal(w.bell[0].silent, 2);
    close_all(&w);
}

/* After the silence the bell's memory may go, while the reactor still rings others. */
static void test_silence(void **state)
{
    (void)state;
    struct ranks w;
    open_all(&w);
    doorbell_silence(&w.bell[1]);
    doorbell_silence(&w.bell[1]);
    ring(&w.bell[0], 1, 1000 * MS);
    ring(&w.bell[1], 0, 1000 * MS);
    assert_true(is_heard(&w, 0, 1));
    assert_int_equal(doorbell_heard(&w.bell[1]), 0);
    assert_int_equal(bell_look(&w.rung[1]), 0);
    close_all(&w);
}

static void hang(void *go_on)
{
    while (sem_wait(go_on) != 0)
        continue;
}

/* A rung_fn that does not return, since MPI does not, holds nobody for ever, and nothing is freed that it may use. */
static void test_stuck(void **state)
{
    (void)state;
    struct ranks w;
    sem_t go_on;
    sem_init(&go_on, 0, 0);
    open_all(&w);
    doorbell_close(&w.bell[1]); /* another one takes its place */
    assert_int_equal(open_with(&w, 1, true, hang, &go_on), 0);
    w.cards[1] = w.bell[1].card;
    doorbell_close(&w.bell[0]);
    assert_int_equal(open_one(&w, 0, true), 0);
    assert_int_equal(doorbell_know(&w.bell[0], w.cards, RANKS), 0);
    ring(&w.bell[0], 1, 1000 * MS);
    assert_true(is_heard(&w, 1, 1));
    assert_false(doorbell_silence(&w.bell[1]));
    doorbell_close(&w.bell[1]);
    assert_true(w.bell[1].is_open);
    sem_post(&go_on);
    pthread_join(w.bell[1].thread, NULL);
    w.bell[1].is_stuck = false;
    close_all(&w);
    sem_destroy(&go_on);
}

static void stop_all(void *arg)
{
    (void)arg;
    usleep(200000); /* the end waits for this one by now */
    kill(getpid(), SIGSTOP);
    usleep(200000);
}

/* A pause of the whole process, by a debugger or a frozen container, is no time that rung_fn has taken. */
static void test_pause(void **state)
{
    (void)state;
    int status;
    const pid_t child = fork();
    if (child == 0) {
        struct ranks w;
        open_all(&w);
        doorbell_close(&w.bell[1]);
        if (open_with(&w, 1, true, stop_all, NULL) != 0)
            _exit(2);
        w.cards[1] = w.bell[1].card;
        doorbell_close(&w.bell[0]);
        if (open_one(&w, 0, true) != 0 || doorbell_know(&w.bell[0], w.cards, RANKS) != 0)
            _exit(2);
        ring(&w.bell[0], 1, 1000 * MS);
        _exit(is_heard(&w, 1, 1) && doorbell_silence(&w.bell[1]) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    usleep(2500000);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wakes),     cmocka_unit_test(test_not_too_often), cmocka_unit_test(test_tries),
        cmocka_unit_test(test_strangers), cmocka_unit_test(test_bad_cards),     cmocka_unit_test(test_silence),
        cmocka_unit_test(test_flush),     cmocka_unit_test(test_addresses),     cmocka_unit_test(test_silent),
        cmocka_unit_test(test_stuck),     cmocka_unit_test(test_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
