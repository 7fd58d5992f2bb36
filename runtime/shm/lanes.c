/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lanes: see lanes.h. An area has, one behind the other, for each rank of the node that may send:
 *
 *   heads    a word: how many messages the sender has put into its lane. The sender's
 *   tails    a word: how many of them were taken. The receiver's
 *   stuck    a word: not 0, the sender found no place. The sender's to set, the receiver's to clear
 *   places   LANES_PLACES of PLACE_BYTES: the length of a message and its bytes. The sender's
 *
 * The words of all senders lie together, so that a receiver who looks for messages reads one line for 16 senders.
 *
 * Why no ring is lost where a lane is full. Both sides write one word, then read the other's, all sequentially
 * consistent. Either the sender reads a tail that was raised, and there is a place; or the receiver, who reads `stuck`
 * after it has raised the tail, sees that the sender waits.
 */
#include "shm/lanes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/count.h"

#define LINE 64u
#define PLACE_BYTES 2048u
#define TAKEN_MOST 16 /* messages that one call takes */
_Static_assert((LANES_PLACES & (LANES_PLACES - 1)) == 0, "counts modulo 2^32 go round the places evenly");
_Static_assert(LANES_MESSAGE_MAX + sizeof(uint32_t) <= PLACE_BYTES, "a message fills a place");

struct lane_peer {
    struct lanes_rank at;
    uint32_t sent; /* as the head in its area says */
};

/* A lane to me. */
struct lane {
    uint32_t sender; /* the rank; UINT32_MAX: none */
    uint32_t taken;  /* as the tail in my area says */
    uint32_t marked; /* up to this count they had come when the look began */
};

struct lanes {
    uint32_t self, num_ranks;
    uint32_t num_senders, first; /* of my node; where the next look begins */
    struct lane *lane;           /* by the sender's number among the ranks of my node */
    struct rings *rings;
    count_t bad;
    bool is_cut; /* the last look took as many messages as it may */
    const struct logger *log;
    uint8_t (*message)[LANES_MESSAGE_MAX];
    struct lane_peer peer[];
};

/* ---- where things lie -------------------------------------------------------------------------------------------- */

static uint64_t words_bytes(uint32_t ranks)
{
    return ((uint64_t)ranks * sizeof(uint32_t) + LINE - 1) / LINE * LINE;
}

uint64_t lanes_bytes(uint32_t ranks)
{
    return 3 * words_bytes(ranks) + (uint64_t)ranks * LANES_PLACES * PLACE_BYTES;
}

enum { HEADS, TAILS, STUCK, PLACES };

static _Atomic uint32_t *word(const struct lanes_rank *at, unsigned which, uint32_t sender)
{
    return (_Atomic uint32_t *)(void *)(at->area + which * words_bytes(at->ranks)) + sender;
}

static uint8_t *place(const struct lanes_rank *at, uint32_t sender, uint32_t count)
{
    uint8_t *places = at->area + PLACES * words_bytes(at->ranks);
    return places + ((uint64_t)sender * LANES_PLACES + count % LANES_PLACES) * PLACE_BYTES;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

bool lanes_lead_to(const struct lanes *l, uint32_t rank)
{
    return l->peer[l->self].at.area != NULL && l->peer[rank].at.area != NULL;
}

bool lanes_lead_everywhere(const struct lanes *l)
{
    for (uint32_t i = 0; i < l->num_ranks; i++)
        if (!lanes_lead_to(l, i))
            return false;
    return true;
}

/* A tail that makes no sense is of a lane that stays full. */
static bool has_place(uint32_t sent, uint32_t tail)
{
    return sent - tail < LANES_PLACES;
}

int lanes_send(struct lanes *l, uint32_t rank, const void *message, uint32_t bytes, enum rings_when when)
{
    struct lane_peer *p = &l->peer[rank];
    const uint32_t me = l->peer[l->self].at.node_rank;
    _Atomic uint32_t *tail = word(&p->at, TAILS, me);
    /* acquire: the receiver has read what lay in the place */
    if (!has_place(p->sent, atomic_load_explicit(tail, memory_order_acquire))) {
        atomic_store_explicit(word(&p->at, STUCK, me), 1, memory_order_seq_cst);
        if (!has_place(p->sent, atomic_load_explicit(tail, memory_order_seq_cst))) {
            rings_hurry(l->rings, rank);
            return BATON_EAGAIN;
        }
    }
    uint8_t *at = place(&p->at, me, p->sent);
    memcpy(at, &bytes, sizeof bytes);
    memcpy(at + sizeof bytes, message, bytes);
    /* release: whoever sees the count sees the message */
    atomic_store_explicit(word(&p->at, HEADS, me), ++p->sent, memory_order_release);
    rings_owe(l->rings, rank, when);
    return 0;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static void refuse(struct lanes *l, uint32_t sender, const char *why, uint32_t value)
{
    count_add(&l->bad, 1);
    log_line(l->log, LOG_WARN, "a bad message came from rank %u: %s: %u", l->lane[sender].sender, why, value);
}

/* The next message of a lane, of which there is one. False: it makes no sense. */
static bool take(struct lanes *l, uint32_t sender, uint8_t *message, struct port_event *event)
{
    struct lane *lane = &l->lane[sender];
    const uint8_t *at = place(&l->peer[l->self].at, sender, lane->taken++);
    uint32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    if (bytes == 0 || bytes > LANES_MESSAGE_MAX) {
        refuse(l, sender, "its length is none", bytes);
        return false;
    }
    memcpy(message, at + sizeof bytes, bytes);
    *event = (struct port_event){.kind = PORT_MESSAGE, .peer = lane->sender, .data = message, .bytes = bytes};
    return true;
}

/* Messages of one lane, of which `n` are in the room already. How many there are then. */
static int take_all(struct lanes *l, uint32_t sender, struct port_event *events, int n, int max)
{
    const struct lanes_rank *mine = &l->peer[l->self].at;
    struct lane *lane = &l->lane[sender];
    /* acquire: the messages that it counts are there */
    const uint32_t head = atomic_load_explicit(word(mine, HEADS, sender), memory_order_acquire);
    if (head == lane->taken || lane->sender == UINT32_MAX) {
        lane->marked = lane->taken; /* whatever its head said before */
        return n;
    }
    if (head - lane->taken > LANES_PLACES) {
        refuse(l, sender, "its lane cannot hold so many", head - lane->taken);
        lane->taken = head;
    }
    while (n < max && lane->taken != head)
        n += take(l, sender, l->message[n], &events[n]);
    if (lane->taken == head)
        lane->marked = head;
    atomic_store_explicit(word(mine, TAILS, sender), lane->taken, memory_order_seq_cst);
    if (atomic_load_explicit(word(mine, STUCK, sender), memory_order_seq_cst) != 0) {
        atomic_store_explicit(word(mine, STUCK, sender), 0, memory_order_seq_cst);
        rings_owe(l->rings, lane->sender, RINGS_NOW);
    }
    return n;
}

int lanes_take(struct lanes *l, struct port_event *events, int max)
{
    int n = 0, most = max < TAKEN_MOST ? max : TAKEN_MOST;
    uint32_t i = 0;
    for (; i < l->num_senders && n < most; i++)
        n = take_all(l, (l->first + i) % l->num_senders, events, n, most);
    l->is_cut = n == most;
    if (n == most && i > 0) /* the last one may have more, and has to wait for the others */
        l->first = (l->first + i) % l->num_senders;
    return n;
}

void lanes_look(struct lanes *l)
{
    for (uint32_t i = 0; i < l->num_senders; i++)
        l->lane[i].marked = atomic_load_explicit(word(&l->peer[l->self].at, HEADS, i), memory_order_relaxed);
}

/* A lane that was found empty, or that says to have more than it can hold, has nothing that was marked. */
bool lanes_have_looked(const struct lanes *l)
{
    for (uint32_t i = 0; i < l->num_senders; i++) {
        const uint32_t left = l->lane[i].marked - l->lane[i].taken;
        if (left > 0 && left <= LANES_PLACES)
            return false;
    }
    return true;
}

uint64_t lanes_bad(const struct lanes *l)
{
    return count_of(&l->bad);
}

bool lanes_are_cut(const struct lanes *l)
{
    return l->is_cut;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Finds the sender of each lane. A rank of another node has none here. */
static void find_senders(struct lanes *l)
{
    for (uint32_t i = 0; i < l->num_senders; i++)
        l->lane[i].sender = UINT32_MAX;
    for (uint32_t i = 0; i < l->num_ranks; i++)
        if (lanes_lead_to(l, i))
            l->lane[l->peer[i].at.node_rank].sender = i;
}

int lanes_create(uint32_t self, const struct lanes_rank *ranks, uint32_t num_ranks, struct rings *rings,
                 const struct logger *log, struct lanes **out)
{
    struct lanes *l = calloc(1, sizeof *l + num_ranks * sizeof l->peer[0]);
    if (l == NULL)
        return BATON_ENOMEM;
    const struct lanes_rank *mine = &ranks[self];
    l->self = self;
    l->num_ranks = num_ranks;
    l->rings = rings;
    l->log = log;
    l->num_senders = mine->area != NULL ? mine->ranks : 0;
    for (uint32_t i = 0; i < num_ranks; i++)
        if (ranks[i].area != NULL && mine->node_rank < ranks[i].ranks && ranks[i].node_rank < mine->ranks)
            l->peer[i].at = ranks[i];
    l->lane = calloc(l->num_senders + 1, sizeof *l->lane);
    l->message = calloc(TAKEN_MOST, sizeof *l->message);
    if (l->lane == NULL || l->message == NULL) {
        lanes_destroy(l);
        return BATON_ENOMEM;
    }
    find_senders(l);
    *out = l;
    return 0;
}

void lanes_destroy(struct lanes *l)
{
    if (l == NULL)
        return;
    free(l->lane);
    free(l->message);
    free(l);
}
