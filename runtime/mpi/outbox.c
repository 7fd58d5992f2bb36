/* SPDX-License-Identifier: BSD-3-Clause */
/* outbox: see the header. */
#include "mpi/outbox.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/error.h"
#include "mpi/address.h"
#include "mpi/doorbell.h"
#include "mpi/mpi_error.h"
#include "wire/message.h"

_Static_assert(WIRE_MESSAGE_MAX + ENVELOPE_BYTES == INBOX_BYTES, "a message and its envelope fill a slot");

#define AGAIN_NS (10 * CLOCK_NS_PER_MS) /* the first pause before a message is sent again */

static void finish_send(struct outbox *o, struct slot *slot, int rc);

/* ---- peers ------------------------------------------------------------------------------------------------------- */

int outbox_init(struct outbox *o, const struct world *w, const struct windows *v, MPI_Comm comm)
{
    size_t sends = SLOTS_MAX + (size_t)w->size;
    o->world = w;
    o->windows = v;
    o->comm = comm;
    o->by_rank = calloc((size_t)w->size, sizeof(struct outbox_peer *));
    o->request = calloc(sends, sizeof *o->request);
    o->sending = calloc(sends, sizeof(struct slot *));
    o->finished = calloc(sends, sizeof(struct slot *));
    o->index = calloc(sends, sizeof *o->index);
    o->status = calloc(sends, sizeof *o->status);
    if (o->by_rank != NULL && o->request != NULL && o->sending != NULL && o->finished != NULL && o->index != NULL &&
        o->status != NULL)
        return 0;
    return error_set(BATON_ENOMEM, "no memory for the control messages to %d ranks", w->size);
}

void outbox_fini(struct outbox *o)
{
    for (int r = 0; o->by_rank != NULL && r < o->world->size; r++)
        free(o->by_rank[r]);
    slots_fini(&o->slots);
    free(o->by_rank);
    free(o->request);
    free(o->sending);
    free(o->finished);
    free(o->index);
    free(o->status);
    *o = (struct outbox){0};
}

struct outbox_peer *outbox_peer_of(struct outbox *o, uint32_t rank)
{
    if (rank >= (uint32_t)o->world->size)
        return NULL;
    if (o->by_rank[rank] != NULL)
        return o->by_rank[rank];
    struct outbox_peer *p = calloc(1, sizeof *p);
    if (p != NULL)
        p->rank = rank;
    o->by_rank[rank] = p;
    return p;
}

uint32_t outbox_posted(const struct outbox *o, uint32_t rank)
{
    return o->by_rank[rank] != NULL ? o->by_rank[rank]->posted : 0;
}

void outbox_owe(struct outbox *o, struct outbox_peer *p)
{
    if (p->is_owed || !envelope_is_owed(&p->counts))
        return;
    p->is_owed = true;
    p->next_owed = o->owed;
    o->owed = p;
}

static void list_as_failing(struct outbox *o, struct outbox_peer *p)
{
    if (p->is_failing)
        return;
    p->is_failing = true;
    p->next_failing = o->failing;
    o->failing = p;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static struct slot *take_slot(struct outbox *o, struct outbox_peer *p)
{
    struct slot *slot = slots_have_place(&o->slots, p->places) ? slots_get(&o->slots) : NULL;
    if (slot == NULL)
        return NULL;
    slot->peer = p->rank;
    slot->was_begun = false;
    slots_take_place(&o->slots, &p->places);
    return slot;
}

/* Its message is not sent any more. */
static void drop_slot(struct outbox *o, struct outbox_peer *p, struct slot *slot)
{
    slots_leave_place(&o->slots, &p->places);
    if (!slot->was_begun) {
        slots_put_back(&o->slots, slot);
    } else if (slot->is_alone && p->failed_alone == NULL) {
        p->failed_alone = slot;
    } else {
        slot->next = p->held;
        p->held = slot;
    }
}

/* ---- a send ends ------------------------------------------------------------------------------------------------- */

static void ring_bell(const struct outbox *o, uint32_t rank)
{
    struct bell *bell = windows_bell(o->windows, rank);
    if (bell != NULL)
        bell_ring(bell);
    else if (o->doorbell != NULL)
        doorbell_ring(o->doorbell, rank, clock_now_ns());
}

void outbox_revive(struct outbox *o, struct outbox_peer *p)
{
    p->pause_ns = 0;
    if (p->is_lost)
        log_line(o->world->log, LOG_WARN, "rank %" PRIu32 " can be reached again", p->rank);
    p->is_lost = false;
    while (p->held != NULL) {
        struct slot *slot = p->held;
        p->held = slot->next;
        slots_put_back(&o->slots, slot);
    }
    if (p->failed_alone != NULL)
        slots_put_back(&o->slots, p->failed_alone);
    p->failed_alone = NULL;
}

/*
 * The peer is lost: its messages that wait are dropped. Where none was given to MPI behind them, the peer never saw
 * their numbers, and these are used again.
 */
static void lose(struct outbox *o, struct outbox_peer *p)
{
    log_each(o->world->log, LOG_WARN, "no message to rank %" PRIu32 " has come through for %" PRIu64 " ms: it is lost",
             p->rank, o->world->settings.peer_ms);
    p->is_lost = true;
    p->failing_ns = 0;
    if (p->again != NULL && p->under_way == 0) {
        uint32_t first = p->again->number;
        p->counts.sent = (int32_t)(first - p->counts.confirmed) >= 0 ? first : p->counts.confirmed;
    }
    while (p->again != NULL) {
        struct slot *slot = p->again;
        p->again = slot->next;
        drop_slot(o, p, slot);
    }
}

static void note_success(struct outbox *o, struct outbox_peer *p, struct slot *slot)
{
    p->under_way--;
    p->failing_ns = 0;
    p->next_try_ns = 0;
    ring_bell(o, p->rank);
    outbox_revive(o, p);
    while (!slot->is_alone && p->again != NULL && slot_is_before(p->again, slot)) {
        struct slot *late = p->again;
        p->again = late->next;
        log_line(o->world->log, LOG_WARN, "a message to rank %" PRIu32 " was lost: later ones came through", p->rank);
        drop_slot(o, p, late);
    }
    slots_leave_place(&o->slots, &p->places);
    slots_put_back(&o->slots, slot);
}

/* Each failure doubles the pause before the peer's next message, up to an eighth of BATON_PEER_MS. */
static void lengthen_pause(const struct outbox *o, struct outbox_peer *p, uint64_t now)
{
    uint64_t most = o->world->settings.peer_ms * CLOCK_NS_PER_MS / 8;
    p->pause_ns = p->pause_ns == 0 ? AGAIN_NS : 2 * p->pause_ns;
    if (p->pause_ns > most)
        p->pause_ns = most;
    p->next_try_ns = now + p->pause_ns;
}

static void note_failure(struct outbox *o, struct outbox_peer *p, struct slot *slot, int rc)
{
    uint64_t now = clock_now_ns();
    if (p->pause_ns == 0)
        log_line(o->world->log, LOG_WARN, "a message to rank %" PRIu32 " failed (MPI error %d): it is sent again",
                 p->rank, rc);
    if (p->failing_ns == 0 && !slot->is_alone)
        p->failing_ns = now;
    lengthen_pause(o, p, now);
    if (slot->is_alone || p->is_lost) {
        if (slot->is_alone) /* the confirmation is still owed */
            p->counts.returned = p->counts.consumed - ENVELOPE_CONFIRM;
        drop_slot(o, p, slot);
        if (!p->is_lost)
            outbox_owe(o, p);
        return;
    }
    struct slot **at = &p->again;
    while (*at != NULL && slot_is_before(*at, slot))
        at = &(*at)->next;
    slot->next = *at;
    *at = slot;
    list_as_failing(o, p);
}

static void finish_send(struct outbox *o, struct slot *slot, int rc)
{
    struct outbox_peer *p = o->by_rank[slot->peer];
    if (rc == MPI_SUCCESS) {
        note_success(o, p, slot);
        return;
    }
    p->under_way--;
    p->posted--;
    slot->was_begun = true;
    note_failure(o, p, slot, rc);
}

/* ---- a send begins ----------------------------------------------------------------------------------------------- */

/*
 * The message in the slot goes out. The bell is rung after the send, for a receiver that sleeps. Where MPI could not
 * hand the message over at once, the bell is rung again when that has happened.
 */
static void post(struct outbox *o, struct outbox_peer *p, struct slot *slot)
{
    MPI_Request request;
    int is_done = 0, rank = address_of(o->windows, p->rank).rank;
    int rc = MPI_Isend(slot->bytes, (int)slot->length, MPI_BYTE, rank, INBOX_TAG, o->comm, &request);
    if (rc != MPI_SUCCESS) {
        note_failure(o, p, slot, rc);
        return;
    }
    p->posted++;
    p->under_way++;
    rc = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && !is_done) {
        ring_bell(o, p->rank);
        o->request[o->num_sending] = request;
        o->sending[o->num_sending++] = slot;
        return;
    }
    finish_send(o, slot, rc);
}

/* A new message of so many bytes, which lie in the slot; 0: an envelope alone. */
static void post_new(struct outbox *o, struct outbox_peer *p, struct slot *slot, uint32_t bytes)
{
    slot->is_alone = bytes == 0;
    slot->length = ENVELOPE_BYTES + bytes;
    slot->number = p->counts.sent;
    const struct envelope_route route = {address_peer(o->world->rank), p->rank};
    envelope_seal(&p->counts, route, slot->bytes, bytes);
    envelope_sent(&p->counts, slot->is_alone);
    post(o, p, slot);
}

/*
 * An envelope alone, once nothing of that peer's is in MPI: it could overtake nothing there, and so MPI never holds
 * more than one of them. One that failed before goes out again from its slot, so that a peer which cannot be reached
 * takes no more memory. It still says the truth, since whatever was consumed meanwhile would have revived the peer.
 * False: it must wait, or there is no slot.
 */
static bool post_alone(struct outbox *o, struct outbox_peer *p)
{
    if (p->under_way > 0)
        return false;
    struct slot *slot = p->failed_alone;
    if (slot == NULL) {
        slot = take_slot(o, p);
        if (slot != NULL)
            post_new(o, p, slot, 0);
        return slot != NULL;
    }
    if (!slots_have_place(&o->slots, p->places))
        return false;
    slots_take_place(&o->slots, &p->places);
    p->failed_alone = NULL;
    envelope_sent(&p->counts, true);
    post(o, p, slot);
    return true;
}

/* Now and then an envelope alone goes to a lost rank: where it comes through, the rank is back. */
static void try_lost(struct outbox *o, struct outbox_peer *p)
{
    uint64_t now = clock_now_ns();
    if (now < p->next_try_ns)
        return;
    p->next_try_ns = now + o->world->settings.peer_ms * CLOCK_NS_PER_MS / 8;
    post_alone(o, p);
}

int outbox_send(struct outbox *o, uint32_t rank, const void *message, uint32_t bytes)
{
    struct outbox_peer *p = outbox_peer_of(o, rank);
    if (p == NULL)
        return error_set(BATON_ENOMEM, "no memory for the state of rank %" PRIu32, rank);
    if (p->is_lost)
        try_lost(o, p);
    if (p->is_lost)
        return BATON_EPEER;
    bool may_follow = p->again == NULL && envelope_has_credit(&p->counts);
    struct slot *slot = may_follow ? take_slot(o, p) : NULL;
    if (slot == NULL)
        return BATON_EAGAIN;
    memcpy(slot->bytes + ENVELOPE_BYTES, message, bytes);
    post_new(o, p, slot, bytes);
    return 0;
}

/* ---- in each turn ------------------------------------------------------------------------------------------------ */

static void compact(struct outbox *o)
{
    int kept = 0;
    for (int i = 0; i < o->num_sending; i++) {
        if (o->sending[i] == NULL)
            continue;
        o->request[kept] = o->request[i];
        o->sending[kept++] = o->sending[i];
    }
    o->num_sending = kept;
}

int outbox_test(struct outbox *o)
{
    int done = 0;
    if (o->num_sending == 0)
        return 0;
    int rc = MPI_Testsome(o->num_sending, o->request, &done, o->index, o->status);
    if (rc != MPI_SUCCESS && mpi_error_class(rc) != MPI_ERR_IN_STATUS)
        return mpi_error_set(BATON_EMPI, "testing the sends", rc);
    if (done == MPI_UNDEFINED)
        return 0;
    for (int i = 0; i < done; i++) {
        o->finished[i] = o->sending[o->index[i]];
        o->sending[o->index[i]] = NULL;
    }
    compact(o); /* before any of them is posted again */
    for (int i = 0; i < done; i++)
        finish_send(o, o->finished[i], rc == MPI_SUCCESS ? MPI_SUCCESS : o->status[i].MPI_ERROR);
    return 0;
}

void outbox_repeat(struct outbox *o)
{
    if (o->failing == NULL)
        return;
    uint64_t now = clock_now_ns(), limit = o->world->settings.peer_ms * CLOCK_NS_PER_MS;
    struct outbox_peer *p = o->failing;
    o->failing = NULL;
    while (p != NULL) {
        struct outbox_peer *next = p->next_failing;
        struct slot *slot = p->again;
        p->is_failing = false;
        if (slot != NULL && p->under_way == 0 && now >= p->next_try_ns) {
            p->again = slot->next;
            post(o, p, slot);
        } else if (slot != NULL && p->failing_ns != 0 && now - p->failing_ns > limit) {
            lose(o, p); /* tried again before, also if this process was stopped meanwhile */
        }
        if (p->again != NULL)
            list_as_failing(o, p);
        p = next;
    }
}

void outbox_confirm(struct outbox *o)
{
    struct outbox_peer *p = o->owed;
    o->owed = NULL;
    while (p != NULL) {
        struct outbox_peer *next = p->next_owed;
        p->is_owed = false;
        bool is_still_owed = !p->is_lost && envelope_is_owed(&p->counts); /* no message has told it since */
        bool must_wait = p->again != NULL || clock_now_ns() < p->next_try_ns;
        if (is_still_owed && (must_wait || !post_alone(o, p)))
            outbox_owe(o, p);
        p = next;
    }
}
