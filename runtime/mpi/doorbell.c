/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell: see the header. */
#include "mpi/doorbell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define MAGIC UINT32_C(0x4b4e5442)
#define VERSION 1
#define RUNG_NS (100 * CLOCK_NS_PER_US)
#define AGAIN_NS (20 * CLOCK_NS_PER_MS)

#define ASKED_NS (100 * CLOCK_NS_PER_MS) /* rings that are apart by so much count as asked again */
#define ASKS_MOST 5
#define END_NS (2 * CLOCK_NS_PER_S) /* how long the end waits for rung_fn to return */

enum kind { RING = 1, ASK, ANSWER, RING_AND_ASK };

struct datagram {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t from, zero;
    uint64_t key;   /* the receiver's */
    uint64_t reply; /* of ASK: what an answer must have as its key */
};

_Static_assert(sizeof(struct doorbell_card) == 32, "cards have no gaps, and are exchanged as they are");

static struct datagram datagram_of(const struct doorbell *d, enum kind kind, uint64_t key)
{
    return (struct datagram){.magic = MAGIC,
                             .version = VERSION,
                             .kind = (uint16_t)kind,
                             .from = d->rank,
                             .key = key,
                             .reply = kind == ASK || kind == RING_AND_ASK ? d->card.key : 0};
}

static bool send_to(const struct doorbell *d, const struct sockaddr_in *to, const struct datagram *m)
{
    ssize_t sent;
    do
        sent = sendto(d->socket, m, sizeof *m, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)to, sizeof *to);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *m;
}

/* ---- who rings --------------------------------------------------------------------------------------------------- */

static void take(struct doorbell *d, const struct datagram *m, const struct sockaddr_in *from)
{
    if (m->magic != MAGIC || m->version != VERSION || m->key != d->card.key) {
        atomic_fetch_add_explicit(&d->strange, 1, memory_order_relaxed);
        return;
    }
    if (m->kind == RING || m->kind == RING_AND_ASK)
        atomic_fetch_add_explicit(&d->heard, 1, memory_order_release); /* before whoever sleeps is woken */
    if (m->kind == ASK || m->kind == RING_AND_ASK) {
        const struct datagram answer = datagram_of(d, ANSWER, m->reply);
        send_to(d, from, &answer); /* one that is lost is asked for again */
    } else if (m->kind == ANSWER && m->from < atomic_load_explicit(&d->known, memory_order_acquire)) {
        atomic_store_explicit(&d->peer[m->from].has_answered, true, memory_order_release);
    } else if (m->kind != RING) {
        atomic_fetch_add_explicit(&d->strange, 1, memory_order_relaxed);
    }
}

/* One datagram, if there is one. */
static bool receive(struct doorbell *d)
{
    struct datagram m;
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    ssize_t got = recvfrom(d->socket, &m, sizeof m, MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&from, &length);
    if (got < 0)
        return errno == EINTR || errno == ECONNREFUSED; /* a peer's port was closed: nothing of ours */
    if (got == (ssize_t)sizeof m && length == sizeof from)
        take(d, &m, &from);
    else
        atomic_fetch_add_explicit(&d->strange, 1, memory_order_relaxed);
    return true;
}

static void *listen_to(void *arg)
{
    struct doorbell *d = arg;
    struct pollfd fds[] = {{.fd = d->stop, .events = POLLIN}, {.fd = d->socket, .events = POLLIN}};
    thread_ask(d->slice_us, d->nice);
    uint32_t told = 0;
    while ((fds[0].revents & POLLIN) == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            atomic_store_explicit(&d->deaf, errno, memory_order_relaxed);
            break;
        }
        for (int i = 0; i < 64 && receive(d); i++)
            continue;
        if (doorbell_heard(d) != told)
            d->rung_fn(d->arg);
        told = doorbell_heard(d);
    }
    latch_open(&d->ended);
    return NULL;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static uint8_t prefix_of(const struct sockaddr *mask)
{
    return mask == NULL
               ? 32
               : (uint8_t)__builtin_popcount(((const struct sockaddr_in *)(const void *)mask)->sin_addr.s_addr);
}

/* The addresses of devices that have a link. The loopback device counts only where there is no other. */
static void find_addresses(struct doorbell_card *card, const struct ifaddrs *list, bool loopback)
{
    for (const struct ifaddrs *i = list; i != NULL && card->num < DOORBELL_ADDRESSES; i = i->ifa_next) {
        bool is_up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0 &&
                     ((i->ifa_flags & IFF_LOOPBACK) != 0) == loopback;
        if (!is_up || i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET)
            continue;
        card->address[card->num] = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr;
        card->prefix[card->num++] = prefix_of(i->ifa_netmask);
    }
}

static bool is_mine(const struct doorbell_card *mine, uint32_t address)
{
    for (int i = 0; i < mine->num; i++)
        if (mine->address[i] == address)
            return true;
    return false;
}

static bool is_near(const struct doorbell_card *mine, uint32_t address)
{
    for (int i = 0; i < mine->num; i++) {
        uint32_t mask = mine->prefix[i] == 0 ? 0 : UINT32_MAX << (32 - mine->prefix[i]);
        if (((ntohl(mine->address[i]) ^ ntohl(address)) & mask) == 0)
            return true;
    }
    return false;
}

static bool is_my_host(const struct doorbell_card *mine, const struct doorbell_card *theirs)
{
    return mine->num == theirs->num && memcmp(mine->address, theirs->address, sizeof mine->address) == 0;
}

/*
 * By the loopback to ranks of this host, else in a network that both are in, else by the first address. Addresses that
 * this host has too are of bridges that exist on every host, such as Docker's. 0: there is no other.
 */
static uint32_t choose(const struct doorbell_card *mine, const struct doorbell_card *theirs)
{
    uint32_t first = 0;
    if (is_my_host(mine, theirs))
        return htonl(INADDR_LOOPBACK);
    for (int i = theirs->num - 1; i >= 0; i--)
        if (!is_mine(mine, theirs->address[i]))
            first = theirs->address[i];
    for (int i = 0; i < theirs->num; i++)
        if (!is_mine(mine, theirs->address[i]) && is_near(mine, theirs->address[i]))
            return theirs->address[i];
    return first;
}

int doorbell_know(struct doorbell *d, const struct doorbell_card *cards, uint32_t size)
{
    d->peer = calloc(size, sizeof *d->peer);
    if (d->peer == NULL)
        return error_set(BATON_ENOMEM, "no memory for the doorbells of %u ranks", size);
    d->size = size;
    for (uint32_t r = 0; r < size; r++) {
        const bool is_good = cards[r].port != 0 && cards[r].num > 0 && cards[r].num <= DOORBELL_ADDRESSES;
        struct doorbell_peer *p = &d->peer[r];
        p->key = cards[r].key;
        p->address = is_good ? choose(&d->card, &cards[r]) : 0;
        p->port = p->address != 0 ? cards[r].port : 0;
    }
    atomic_store_explicit(&d->known, size, memory_order_release); /* the thread may use the table */
    return 0;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static bool open_socket(struct doorbell *d, const char **why)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    socklen_t length = sizeof at;
    d->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *why = "no UDP socket can be had";
    if (d->socket < 0)
        return false;
    *why = "no UDP port can be had";
    if (bind(d->socket, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(d->socket, (struct sockaddr *)&at, &length) != 0)
        return false;
    *why = "the system gives no random number";
    if (getrandom(&d->card.key, sizeof d->card.key, GRND_NONBLOCK) != (ssize_t)sizeof d->card.key)
        return false;
    d->card.port = ntohs(at.sin_port);
    return true;
}

static bool know_addresses(struct doorbell *d, const char **why)
{
    struct ifaddrs *list;
    *why = "this host has no IPv4 address";
    if (getifaddrs(&list) != 0)
        return false;
    find_addresses(&d->card, list, false);
    if (d->card.num == 0)
        find_addresses(&d->card, list, true);
    freeifaddrs(list);
    return d->card.num > 0;
}

static bool start_listening(struct doorbell *d, const char **why)
{
    *why = "its thread cannot be made";
    d->stop = eventfd(0, EFD_CLOEXEC);
    if (d->stop < 0 || thread_start(&d->thread, "baton-doorbell", d->cpus, listen_to, d) != 0)
        return false;
    d->listens = true;
    return true;
}

int doorbell_open(struct doorbell *d, uint32_t rank, bool listens, const char **why)
{
    d->rank = rank;
    latch_init(&d->ended);
    d->stop = -1;
    d->silent = -1;
    d->is_open = true;
    if (open_socket(d, why) && know_addresses(d, why) && (!listens || start_listening(d, why))) {
        if (!listens)
            d->card.port = 0;
        return 0;
    }
    doorbell_close(d);
    return BATON_ESYSTEM;
}

bool doorbell_silence(struct doorbell *d)
{
    const uint64_t one = 1;
    if (atomic_exchange(&d->listens, false)) {
        bool is_told = write(d->stop, &one, sizeof one) == (ssize_t)sizeof one;
        d->is_stuck = !is_told || !latch_wait_for(&d->ended, END_NS);
        if (!d->is_stuck)
            pthread_join(d->thread, NULL);
    }
    return !d->is_stuck;
}

void doorbell_close(struct doorbell *d)
{
    if (!d->is_open || !doorbell_silence(d))
        return;
    if (d->stop >= 0)
        close(d->stop);
    if (d->socket >= 0)
        close(d->socket);
    free(d->peer);
    d->peer = NULL;
    d->size = d->num_owed = 0;
    d->known = 0;
    d->card = (struct doorbell_card){0};
    d->is_open = false;
}

void doorbell_forget(struct doorbell *d)
{
    if (!d->is_open)
        return;
    if (d->stop >= 0)
        close(d->stop);
    close(d->socket);
    d->is_open = false;
}

/* ---- ringing ----------------------------------------------------------------------------------------------------- */

static void send_one(struct doorbell *d, const struct doorbell_peer *p, enum kind kind)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(p->port), .sin_addr = {p->address}};
    const struct datagram m = datagram_of(d, kind, p->key);
    if (!send_to(d, &to, &m))
        d->unsent++;
}

void doorbell_ring(struct doorbell *d, uint32_t rank, uint64_t now_ns)
{
    if (rank >= d->size || d->peer[rank].port == 0 || now_ns - d->peer[rank].rung_ns < RUNG_NS)
        return;
    d->peer[rank].rung_ns = now_ns;
    d->rung++;
    if (d->num_owed == DOORBELL_OWED)
        doorbell_flush(d);
    d->owed[d->num_owed++] = rank;
}

static int64_t silent_of(const struct doorbell *d)
{
    return atomic_load_explicit(&d->silent, memory_order_relaxed);
}

static void ring_one(struct doorbell *d, uint32_t rank)
{
    struct doorbell_peer *p = &d->peer[rank];
    const bool has_answered = atomic_load_explicit(&p->has_answered, memory_order_acquire);
    send_one(d, p, has_answered ? RING : RING_AND_ASK);
    if (has_answered || (p->asks > 0 && p->rung_ns - p->asked_ns < ASKED_NS))
        return;
    p->asked_ns = p->rung_ns;
    if (p->asks == ASKS_MOST && silent_of(d) < 0)
        atomic_store_explicit(&d->silent, rank, memory_order_relaxed);
    p->asks += p->asks < ASKS_MOST;
}

void doorbell_flush(struct doorbell *d)
{
    for (uint32_t i = 0; i < d->num_owed; i++)
        ring_one(d, d->owed[i]);
    d->num_owed = 0;
    const int64_t silent = silent_of(d);
    if (d->size > 0 && silent >= 0 && atomic_load_explicit(&d->peer[silent].has_answered, memory_order_acquire))
        atomic_store_explicit(
            &d->silent, -1,
            memory_order_relaxed); /* it was held up. Another one is found silent when it is rung next */
}

uint32_t doorbell_heard(const struct doorbell *d)
{
    return atomic_load_explicit(&d->heard, memory_order_acquire);
}

/* For a thread that does not listen: it looks for the answer itself. */
bool doorbell_try(struct doorbell *d, uint32_t rank, uint64_t most_ns)
{
    const uint64_t until = clock_now_ns() + most_ns;
    uint64_t next = 0, now;
    if (rank >= d->size || d->peer[rank].port == 0)
        return false;
    atomic_store_explicit(&d->peer[rank].has_answered, false, memory_order_relaxed);
    while ((now = clock_now_ns()) < until) {
        if (now >= next) {
            send_one(d, &d->peer[rank], ASK);
            next = now + AGAIN_NS;
        }
        if (!d->listens)
            receive(d);
        if (atomic_load_explicit(&d->peer[rank].has_answered, memory_order_acquire))
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}
