/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell: a ring wakes whoever sleeps on the bell; what is no ring does not; nobody is rung too often. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "baton.h"
#include "mpi/doorbell.h"
#include "with_descriptors.h"

#define MS CLOCK_NS_PER_MS
#define RANKS 3

/* ---- the addresses of this host, as a test has them -------------------------------------------------------------- */

static struct ifaddrs *faked; /* NULL: as the system has them */
static int lists_given, lists_freed;
static bool has_no_list;

int getifaddrs(struct ifaddrs **list)
{
    int (*real)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");
    errno = ENOMEM;
    if (has_no_list)
        return -1;
    lists_given++;
    *list = faked;
    return faked != NULL ? 0 : real(list);
}

void freeifaddrs(struct ifaddrs *list)
{
    void (*real)(struct ifaddrs *) = (void (*)(struct ifaddrs *))dlsym(RTLD_NEXT, "freeifaddrs");
    lists_freed++;
    if (list != faked)
        real(list);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

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

/* Rank 1 listens anew, with that function, and rank 0 knows it. */
static bool listen_with(struct ranks *w, doorbell_rung_fn *rung_fn, void *arg)
{
    doorbell_close(&w->bell[1]);
    if (open_with(w, 1, true, rung_fn, arg) != 0)
        return false;
    w->cards[1] = w->bell[1].card;
    doorbell_close(&w->bell[0]);
    return open_one(w, 0, true) == 0 && doorbell_know(&w->bell[0], w->cards, RANKS) == 0;
}

static void close_all(struct ranks *w)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        doorbell_close(&w->bell[r]);
        doorbell_close(&w->bell[r]); /* does no harm */
        assert_false(w->bell[r].is_open);
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
        const uint32_t seen = bell_read(&w.rung[1]);
        const uint64_t began = clock_now_ns();
        ring(&w.bell[from], 1, began);
        bell_sleep(&w.rung[1], seen, 5000 * MS);
        assert_true(clock_now_ns() - began < 4000 * MS);
        assert_int_not_equal(bell_read(&w.rung[1]), seen);
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

/* Near is what lies in one network by the mask of this host's own address. */
static void test_which_address_is_near(void **state)
{
    (void)state;
    static const struct {
        uint8_t prefix;
        uint32_t theirs[3], chosen;
    } cases[] = {
        {24, {0x0a000102, 0x0a000082, 0x0a000083}, 0x0a000082}, /* the first that is near */
        {25, {0x0a000102, 0x0a000082, 0x0a00007f}, 0x0a00007f},
        {25, {0x0a000102, 0x0a000082}, 0x0a000102},
        {32, {0x0a000102, 0x0a000003}, 0x0a000102},
        {1, {0x8a000001, 0x7f000009}, 0x7f000009},
        {0, {0x8a000001, 0x7f000009}, 0x8a000001},             /* all are */
        {24, {0x0a000001, 0x0b000001, 0x0c000001}, 0x0b000001} /* the first one is this host's own */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ranks w;
        open_all(&w);
        doorbell_close(&w.bell[0]);
        assert_int_equal(open_one(&w, 0, false), 0);
        w.bell[0].card.num = 1;
        w.bell[0].card.address[0] = htonl(0x0a000001);
        w.bell[0].card.prefix[0] = cases[i].prefix;
        w.cards[1].num = 0;
        memset(w.cards[1].address, 0, sizeof w.cards[1].address);
        for (int k = 0; k < 3 && cases[i].theirs[k] != 0; k++)
            w.cards[1].address[w.cards[1].num++] = htonl(cases[i].theirs[k]);
        assert_int_equal(doorbell_know(&w.bell[0], w.cards, RANKS), 0);
        if (w.bell[0].peer[1].address != htonl(cases[i].chosen))
            fail_msg("case %zu: %08x", i, ntohl(w.bell[0].peer[1].address));
        close_all(&w);
    }
}

/* A device of a list: its address and the bits of its mask; 0: it has no mask. */
struct device {
    unsigned flags;
    sa_family_t family; /* 0: it has no address */
    uint32_t address;
    int bits;
};

/* The card of a host with these devices. */
static int card_of(const struct device *devices, size_t n, struct doorbell_card *card)
{
    struct ifaddrs list[8] = {{NULL}};
    struct sockaddr_in at[8], mask[8];
    struct doorbell d = {.rung_fn = rung};
    const char *why = NULL;
    for (size_t i = 0; i < n; i++) {
        at[i] = (struct sockaddr_in){.sin_family = devices[i].family, .sin_addr = {htonl(devices[i].address)}};
        mask[i].sin_addr.s_addr = htonl(devices[i].bits > 0 ? UINT32_MAX << (32 - devices[i].bits) : 0);
        list[i] = (struct ifaddrs){.ifa_next = i + 1 < n ? &list[i + 1] : NULL,
                                   .ifa_flags = devices[i].flags,
                                   .ifa_addr = devices[i].family != 0 ? (struct sockaddr *)&at[i] : NULL,
                                   .ifa_netmask = devices[i].bits > 0 ? (struct sockaddr *)&mask[i] : NULL};
    }
    lists_given = lists_freed = 0;
    faked = list;
    const int rc = doorbell_open(&d, 0, false, &why);
    *card = d.card;
    if (rc != 0)
        assert_string_equal(why, "this host has no IPv4 address");
    doorbell_close(&d);
    assert_int_equal(lists_given, lists_freed);
    assert_int_equal(lists_given, !has_no_list);
    faked = NULL;
    return rc;
}

static void test_which_addresses_a_card_has(void **state)
{
    (void)state;
    enum { UP = IFF_UP | IFF_RUNNING, LOOP = UP | IFF_LOOPBACK };
    static const struct device many[] = {{LOOP, AF_INET, 0x7f000001, 8}, {UP, 0, 0, 0},
                                         {UP, AF_INET6, 0x0a000001, 24}, {IFF_UP, AF_INET, 0x0a000002, 24},
                                         {UP, AF_INET, 0x0a000003, 24},  {UP, AF_INET, 0x0a000004, 0},
                                         {UP, AF_INET, 0x0a000005, 1},   {IFF_RUNNING, AF_INET, 0x0a000006, 24}};
    static const struct device more[] = {{UP, AF_INET, 1, 8}, {UP, AF_INET, 2, 8}, {UP, AF_INET, 3, 8},
                                         {UP, AF_INET, 4, 8}, {UP, AF_INET, 5, 8}, {UP, AF_INET, 6, 8}};
    struct doorbell_card card;
    assert_int_equal(card_of(many, 8, &card), 0);
    assert_int_equal(card.num, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(card.address[i], htonl(0x0a000003 + i));
    assert_int_equal(card.prefix[0], 24);
    assert_int_equal(card.prefix[1], 32);
    assert_int_equal(card.prefix[2], 1);
    assert_int_equal(card_of(many, 4, &card), 0); /* the loopback is better than none */
    assert_int_equal(card.num, 1);
    assert_int_equal(card.address[0], htonl(INADDR_LOOPBACK));
    assert_int_equal(card_of(more, 6, &card), 0);
    assert_int_equal(card.num, DOORBELL_ADDRESSES);
    assert_int_equal(card.address[DOORBELL_ADDRESSES - 1], htonl(DOORBELL_ADDRESSES));
    assert_int_equal(card_of(many + 1, 3, &card), BATON_ESYSTEM);
    has_no_list = true;
    assert_int_equal(card_of(many, 8, &card), BATON_ESYSTEM);
    has_no_list = false;
}

/* Bytes that are mapped: a thread that nobody joins keeps its stack. */
static uint64_t mapped(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Bells that were closed leave nothing, whether they could be opened or not. Any descriptor will do for them. */
static void test_nothing_is_left(void **state)
{
    (void)state;
    struct ranks w;
    struct doorbell_card card;
    static const struct device none[] = {{0, AF_INET, 0x0a000001, 24}};
    open_all(&w);
    close_all(&w);
    const int before = descriptors_open();
    const uint64_t bytes = mapped();
    for (int i = 0; i < 40; i++) {
        open_all(&w);
        assert_true(descriptors_open() >= before + RANKS + 2); /* sockets, and what ends two threads */
        close_all(&w);
        assert_int_equal(card_of(none, 1, &card), BATON_ESYSTEM);
    }
    assert_int_equal(descriptors_open(), before);
    assert_true(mapped() < bytes + (UINT64_C(100) << 20));
    const int input = descriptor_free_lowest();
    open_all(&w);
    assert_int_equal(w.bell[0].socket, STDIN_FILENO);
    ring(&w.bell[0], 1, 1000 * MS);
    assert_true(is_heard(&w, 1, 1));
    close_all(&w);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    descriptor_back(input);
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

/* A thread that the system lets wait no more says so: nobody hears rings then. It ends all the same. */
static void test_deaf(void **state)
{
    (void)state;
    struct ranks w;
    struct rlimit limit;
    open_all(&w);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {1, limit.rlim_max}; /* poll takes no more entries than that */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (uint64_t i = 0; i < 200 && atomic_load(&w.bell[1].deaf) == 0; i++) {
        ring(&w.bell[0], 1, (1000 + i) * MS);
        usleep(10000);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(atomic_load(&w.bell[1].deaf), EINVAL);
    close_all(&w);
}

/* A rank that cannot have all that listening takes does not open. With room for one more descriptor it has a socket. */
static void test_cannot_listen(void **state)
{
    (void)state;
    struct ranks w = {.rung = {{0}}};
    struct rlimit limit;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a000001)}};
    struct ifaddrs list = {.ifa_flags = IFF_UP | IFF_RUNNING, .ifa_addr = (struct sockaddr *)&at};
    const int next = dup(STDOUT_FILENO);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit one = {(rlim_t)next + 1, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
    faked = &list;
    const int speaks = open_one(&w, 0, false);
    doorbell_close(&w.bell[0]);
    const int listens = open_one(&w, 0, true);
    faked = NULL;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(speaks, 0);
    assert_int_equal(listens, BATON_ESYSTEM);
    assert_false(w.bell[0].is_open);
    const int after = dup(STDOUT_FILENO);
    assert_int_equal(after, next);
    close(after);
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
    assert_int_equal(bell_read(&w.rung[1]), 0);
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
    assert_true(listen_with(&w, hang, &go_on));
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
        if (!listen_with(&w, stop_all, NULL))
            _exit(2);
        ring(&w.bell[0], 1, 1000 * MS);
        _exit(is_heard(&w, 1, 1) && doorbell_silence(&w.bell[1]) ? 0 : 1);
    }
    assert_true(child > 0);
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
        cmocka_unit_test(test_wakes),
        cmocka_unit_test(test_not_too_often),
        cmocka_unit_test(test_tries),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_bad_cards),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_deaf),
        cmocka_unit_test(test_cannot_listen),
        cmocka_unit_test(test_which_address_is_near),
        cmocka_unit_test(test_which_addresses_a_card_has),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
