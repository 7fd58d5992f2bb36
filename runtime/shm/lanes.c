/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lanes: see lanes.h. An area has, one behind the other, for each place of a rank that may send:
 *
 *   heads    a word: how many messages the sender has put into its lane. The sender's
 *   tails    a word: how many of them were taken. The receiver's
 *   stuck    a word: not 0, the sender found no room. The sender's to set, the receiver's to clear
 *   places   LANES_MESSAGES of MESSAGE_BYTES: the length of a message and its bytes. The sender's
 *
 * The words of all senders lie together, so that a receiver who looks for messages reads one line for 16 senders.
 *
 * Why no ring is lost where a lane is full. Both sides write one word, then read the other's, all sequentially
 * consistent. Either the sender reads a tail that was raised, and there is room; or the receiver, who reads `stuck`
 * after it has raised the tail, sees that the sender waits.
 */
#include "shm/lanes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/count.h"

#define LINE 64u
#define MESSAGE_BYTES 2048u
#define TAKEN_MOST 16 /* messages that one call takes */
_Static_assert((LANES_MESSAGES & (LANES_MESSAGES - 1)) == 0, "counts modulo 2^32 go round the places evenly");
_Static_assert(LANES_MESSAGE_MAX + sizeof(uint32_t) <= MESSAGE_BYTES, "a message fits its room");

struct lane_peer {
    struct lanes_rank to;
    uint32_t sent; /* as the head in its area says */
};

/* A lane to me. */
struct lane {
    bool is_open;
    uint32_t sender; /* the rank */
    uint32_t taken;  /* as the tail in my area says */
    uint32_t marked; /* up to this count they had come when the look began */
};

struct lanes {
    struct lanes_at mine;
    uint32_t num_used, first; /* places below which all open ones lie; where the next look begins */
    struct lane *lane;        /* by place */
    struct rings *rings;
    count_t bad;
    bool is_cut; /* the last look took as many messages as it may */
    const struct logger *log;
    uint8_t (*message)[LANES_MESSAGE_MAX];
    const struct vicinity *vicinity;
    struct lane_peer peer[]; /* by spot */
};

/* ---- where things lie -------------------------------------------------------------------------------------------- */

static uint64_t words_bytes(uint32_t places)
{
    return ((uint64_t)places * sizeof(uint32_t) + LINE - 1) / LINE * LINE;
}

uint64_t lanes_bytes(uint32_t places)
{
    return 3 * words_bytes(places) + (uint64_t)places * LANES_MESSAGES * MESSAGE_BYTES;
}

enum { HEADS, TAILS, STUCK, MESSAGES };

static _Atomic uint32_t *word(const struct lanes_at *at, unsigned which, uint32_t place)
{
    return (_Atomic uint32_t *)(void *)(at->area + which * words_bytes(at->places)) + place;
}

static uint8_t *message_at(const struct lanes_at *at, uint32_t place, uint32_t count)
{
    uint8_t *messages = at->area + MESSAGES * words_bytes(at->places);
    return messages + ((uint64_t)place * LANES_MESSAGES + count % LANES_MESSAGES) * MESSAGE_BYTES;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

static struct lane_peer *peer_of(struct lanes *l, uint32_t rank)
{
    return &l->peer[l->vicinity->spot_of[rank]];
}

bool lanes_lead_to(const struct lanes *l, uint32_t rank)
{
    return l->peer[l->vicinity->spot_of[rank]].to.at.area != NULL;
}

/* A tail that makes no sense is of a lane that stays full. */
static bool has_room(uint32_t sent, uint32_t tail)
{
    return sent - tail < LANES_MESSAGES;
}

int lanes_send(struct lanes *l, uint32_t rank, const void *message, uint32_t bytes, enum rings_when when)
{
    struct lane_peer *p = peer_of(l, rank);
    const struct lanes_at *lanes = &p->to.at;
    _Atomic uint32_t *tail = word(lanes, TAILS, p->to.place);
    /* acquire: the receiver has read what lay there */
    if (!has_room(p->sent, atomic_load_explicit(tail, memory_order_acquire))) {
        atomic_store_explicit(word(lanes, STUCK, p->to.place), 1, memory_order_seq_cst);
        if (!has_room(p->sent, atomic_load_explicit(tail, memory_order_seq_cst))) {
            rings_hurry(l->rings, rank);
            return BATON_EAGAIN;
        }
    }
    uint8_t *at = message_at(lanes, p->to.place, p->sent);
    memcpy(at, &bytes, sizeof bytes);
    memcpy(at + sizeof bytes, message, bytes);
    /* release: whoever sees the count sees the message */
    atomic_store_explicit(word(lanes, HEADS, p->to.place), ++p->sent, memory_order_release);
    rings_owe(l->rings, rank, when);
    return 0;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

static void refuse(struct lanes *l, uint32_t place, const char *why, uint32_t value)
{
    count_add(&l->bad, 1);
    log_line(l->log, LOG_WARN, "a bad message came from rank %u: %s: %u", l->lane[place].sender, why, value);
}

/* The next message of a lane, of which there is one. False: it makes no sense. */
static bool take(struct lanes *l, uint32_t place, uint8_t *message, struct port_event *event)
{
    struct lane *lane = &l->lane[place];
    const uint8_t *at = message_at(&l->mine, place, lane->taken++);
    uint32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    if (bytes == 0 || bytes > LANES_MESSAGE_MAX) {
        refuse(l, place, "its length is none", bytes);
        return false;
    }
    memcpy(message, at + sizeof bytes, bytes);
    *event = (struct port_event){.kind = PORT_MESSAGE, .peer = lane->sender, .data = message, .bytes = bytes};
    return true;
}

/* Messages of one lane, of which `n` are in the room already. How many there are then. */
static int take_all(struct lanes *l, uint32_t place, struct port_event *events, int n, int max)
{
    const struct lanes_at *mine = &l->mine;
    struct lane *lane = &l->lane[place];
    /* acquire: the messages that it counts are there */
    const uint32_t head = atomic_load_explicit(word(mine, HEADS, place), memory_order_acquire);
    if (head == lane->taken || !lane->is_open) {
        lane->marked = lane->taken; /* whatever its head said before */
        return n;
    }
    if (head - lane->taken > LANES_MESSAGES) {
        refuse(l, place, "its lane cannot hold so many", head - lane->taken);
        lane->taken = head;
    }
    while (n < max && lane->taken != head)
        n += take(l, place, l->message[n], &events[n]);
    if (lane->taken == head)
        lane->marked = head;
    atomic_store_explicit(word(mine, TAILS, place), lane->taken, memory_order_seq_cst);
    if (atomic_load_explicit(word(mine, STUCK, place), memory_order_seq_cst) != 0) {
        atomic_store_explicit(word(mine, STUCK, place), 0, memory_order_seq_cst);
        rings_owe(l->rings, lane->sender, RINGS_NOW);
    }
    return n;
}

int lanes_take(struct lanes *l, struct port_event *events, int max)
{
    int n = 0, most = max < TAKEN_MOST ? max : TAKEN_MOST;
    uint32_t i = 0;
    for (; i < l->num_used && n < most; i++)
        n = take_all(l, (l->first + i) % l->num_used, events, n, most);
    l->is_cut = n == most;
    if (n == most && i > 0) /* the last one may have more, and has to wait for the others */
        l->first = (l->first + i) % l->num_used;
    return n;
}

void lanes_look(struct lanes *l)
{
    for (uint32_t i = 0; i < l->num_used; i++)
        l->lane[i].marked = atomic_load_explicit(word(&l->mine, HEADS, i), memory_order_relaxed);
}

/* A lane that was found empty, or that says to have more than it can hold, has nothing that was marked. */
bool lanes_have_looked(const struct lanes *l)
{
    for (uint32_t i = 0; i < l->num_used; i++) {
        const uint32_t left = l->lane[i].marked - l->lane[i].taken;
        if (left > 0 && left <= LANES_MESSAGES)
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

int lanes_create(const struct lanes_at *mine, const struct vicinity *vicinity, struct rings *rings,
                 const struct logger *log, struct lanes **out)
{
    struct lanes *l = calloc(1, sizeof *l + (vicinity->most + 1) * sizeof l->peer[0]);
    if (l == NULL)
        return BATON_ENOMEM;
    l->mine = *mine;
    l->vicinity = vicinity;
    l->rings = rings;
    l->log = log;
    l->lane = calloc(mine->places + 1, sizeof *l->lane);
    l->message = calloc(TAKEN_MOST, sizeof *l->message);
    if (l->lane == NULL || l->message == NULL) {
        lanes_destroy(l);
        return BATON_ENOMEM;
    }
    *out = l;
    return 0;
}

void lanes_join(struct lanes *l, uint32_t rank, const struct lanes_rank *neighbour)
{
    *peer_of(l, rank) = (struct lane_peer){.to = *neighbour};
    l->lane[neighbour->its] = (struct lane){.is_open = true, .sender = rank};
    if (neighbour->its >= l->num_used)
        l->num_used = neighbour->its + 1;
}

void lanes_leave(struct lanes *l, uint32_t rank)
{
    *peer_of(l, rank) = (struct lane_peer){0};
}

void lanes_clear(struct lanes *l, uint32_t place)
{
    if (l->mine.area == NULL)
        return;
    for (unsigned which = HEADS; which < MESSAGES; which++)
        atomic_store_explicit(word(&l->mine, which, place), 0, memory_order_relaxed);
    l->lane[place] = (struct lane){.is_open = false};
}

void lanes_destroy(struct lanes *l)
{
    if (l == NULL)
        return;
    free(l->lane);
    free(l->message);
    free(l);
}
