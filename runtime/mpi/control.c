/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control: envelopes, credits, the ring of receives, the pool of send slots. Reactor's thread after start. Never
 * blocks, never trusts an envelope: a bad one is counted and named, and its message dropped.
 */
#include "mpi/control.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/wire.h"

_Static_assert(WIRE_MESSAGE_MAX + ENVELOPE_BYTES == CONTROL_BYTES, "a message and its envelope fill a slot");

enum { TAG_CONTROL = 1 };

#define AGAIN_NS (10 * CLOCK_NS_PER_MS) /* the first pause before a message is sent again */

static void finish_send(struct control *c, struct control_slot *slot, int rc);

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static struct control_peer *peer_of(struct control *c, uint32_t rank)
{
    struct control_peer *p = c->peers[rank];
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (p) {
        p->rank = rank;
        p->counts.hashed = c->hashed[rank];
        c->peers[rank] = p;
    }
    return p;
}

static void owe(struct control *c, struct control_peer *p)
{
    if (p->is_owed || !envelope_is_owed(&p->counts))
        return;
    p->is_owed = true;
    p->next_owed = c->owed;
    c->owed = p;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* Once CONTROL_SENDS are taken, only for a peer that has none: so there are never more than one for each rank beyond. */
static bool may_take(const struct control *c, const struct control_peer *p)
{
    return p->slots == 0 || (p->slots < CONTROL_PEER_SENDS && c->num_taken < CONTROL_SENDS);
}

static void take(struct control *c, struct control_peer *p)
{
    p->slots++;
    c->num_taken++;
}

static void give_back(struct control *c, struct control_peer *p)
{
    p->slots--;
    c->num_taken--;
}

static struct control_slot *take_slot(struct control *c, struct control_peer *p)
{
    struct control_slot *slot = c->free_slots;
    if (!may_take(c, p))
        return NULL;
    if (slot) {
        c->free_slots = slot->next;
    } else if ((slot = malloc(sizeof *slot))) {
        slot->next_made = c->slots;
        c->slots = slot;
    }
    if (!slot)
        return NULL;
    slot->peer = p->rank;
    slot->was_begun = false;
    take(c, p);
    return slot;
}

static void put_back(struct control *c, struct control_slot *slot)
{
    slot->next = c->free_slots;
    c->free_slots = slot;
}

static void free_slot(struct control *c, struct control_slot *slot)
{
    give_back(c, c->peers[slot->peer]);
    put_back(c, slot);
}

/* Its message is not sent any more. */
static void drop_slot(struct control *c, struct control_peer *p, struct control_slot *slot)
{
    give_back(c, p);
    if (!slot->was_begun) {
        put_back(c, slot);
    } else if (slot->is_alone && !p->knock) {
        p->knock = slot;
    } else {
        slot->next = p->held;
        p->held = slot;
    }
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void ring(const struct control *c, uint32_t peer)
{
    struct bell *bell = windows_bell(c->windows, peer);
    if (bell)
        bell_ring(bell);
}

static bool is_before(const struct control_slot *a, const struct control_slot *b)
{
    return (int32_t)(a->number - b->number) < 0;
}

/* Something came through: it is there. */
static void revive(struct control *c, struct control_peer *p)
{
    p->pause_ns = 0;
    if (p->is_lost)
        log_line(c->world->log, LOG_WARN, "rank %" PRIu32 " can be reached again", p->rank);
    p->is_lost = false;
    while (p->held) {
        struct control_slot *slot = p->held;
        p->held = slot->next;
        put_back(c, slot);
    }
    if (p->knock)
        put_back(c, p->knock);
    p->knock = NULL;
}

/* Its messages that wait are dropped. Those at the end of the line were never there: their numbers are used again. */
static void lose(struct control *c, struct control_peer *p)
{
    log_each(c->world->log, LOG_WARN, "no message to rank %" PRIu32 " has come through for %" PRIu64 " ms: it is lost",
             p->rank, c->world->settings.peer_ms);
    p->is_lost = true;
    p->failing_ns = 0;
    if (p->again && p->under_way == 0) {
        uint32_t first = p->again->number;
        p->counts.sent = (int32_t)(first - p->counts.confirmed) >= 0 ? first : p->counts.confirmed;
    }
    while (p->again) {
        struct control_slot *slot = p->again;
        p->again = slot->next;
        drop_slot(c, p, slot);
    }
}

static void succeeded(struct control *c, struct control_peer *p, struct control_slot *slot)
{
    p->under_way--;
    p->failing_ns = 0;
    p->next_try_ns = 0;
    ring(c, p->rank);
    revive(c, p);
    while (!slot->is_alone && p->again && is_before(p->again, slot)) {
        struct control_slot *late = p->again;
        p->again = late->next;
        log_line(c->world->log, LOG_WARN, "a message to rank %" PRIu32 " was lost: later ones came through", p->rank);
        drop_slot(c, p, late);
    }
    free_slot(c, slot);
}

static void failed(struct control *c, struct control_peer *p, struct control_slot *slot, int rc)
{
    uint64_t now = clock_now_ns(), most = c->world->settings.peer_ms * CLOCK_NS_PER_MS / 8;
    if (p->pause_ns == 0)
        log_line(c->world->log, LOG_WARN, "a message to rank %" PRIu32 " failed (MPI error %d): it is sent again",
                 p->rank, rc);
    if (p->failing_ns == 0 && !slot->is_alone)
        p->failing_ns = now;
    p->pause_ns = p->pause_ns == 0 ? AGAIN_NS : 2 * p->pause_ns;
    if (p->pause_ns > most)
        p->pause_ns = most;
    p->next_try_ns = now + p->pause_ns;
    if (slot->is_alone || p->is_lost) {
        if (slot->is_alone) /* what it would have told is still owed */
            p->counts.returned = p->counts.consumed - ENVELOPE_CONFIRM;
        drop_slot(c, p, slot);
        if (!p->is_lost)
            owe(c, p);
        return;
    }
    struct control_slot **at = &p->again;
    while (*at && is_before(*at, slot))
        at = &(*at)->next;
    slot->next = *at;
    *at = slot;
    if (p->is_failing)
        return;
    p->is_failing = true;
    p->next_failing = c->failing;
    c->failing = p;
}

/*
 * The message in the slot goes out. The doorbell is rung after the send, for a receiver that sleeps; where MPI could
 * not hand the message over at once, it is rung again when that happened.
 */
static void post(struct control *c, struct control_peer *p, struct control_slot *slot)
{
    MPI_Request request;
    int done = 0;
    int rc = MPI_Isend(slot->bytes, (int)slot->length, MPI_BYTE, (int)p->rank, TAG_CONTROL, c->comm, &request);
    if (rc != MPI_SUCCESS) {
        failed(c, p, slot, rc);
        return;
    }
    p->posted++;
    p->under_way++;
    rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && !done) {
        ring(c, p->rank);
        c->send[c->num_sending] = request;
        c->sending[c->num_sending++] = slot;
        return;
    }
    finish_send(c, slot, rc);
}

static void finish_send(struct control *c, struct control_slot *slot, int rc)
{
    struct control_peer *p = c->peers[slot->peer];
    if (rc == MPI_SUCCESS) {
        succeeded(c, p, slot);
        return;
    }
    p->under_way--;
    p->posted--;
    slot->was_begun = true;
    failed(c, p, slot, rc);
}

/* A new message of so many bytes, which lie in the slot; 0: an envelope alone. */
static void post_new(struct control *c, struct control_peer *p, struct control_slot *slot, uint32_t bytes)
{
    slot->is_alone = bytes == 0;
    slot->length = ENVELOPE_BYTES + bytes;
    slot->number = p->counts.sent;
    envelope_seal(&p->counts, slot->bytes, bytes);
    envelope_sent(&p->counts, slot->is_alone);
    post(c, p, slot);
}

/*
 * An envelope alone. One that failed before goes out again from its slot, so that those which MPI may still read are not
 * ever more: nothing was consumed since, or the rank would be back. False: there is no slot.
 */
static bool post_alone(struct control *c, struct control_peer *p)
{
    struct control_slot *slot = p->knock;
    if (!slot && !(slot = take_slot(c, p)))
        return false;
    if (slot != p->knock) {
        post_new(c, p, slot, 0);
        return true;
    }
    if (!may_take(c, p))
        return false;
    take(c, p);
    p->knock = NULL;
    envelope_sent(&p->counts, true);
    post(c, p, slot);
    return true;
}

/* Now and then an envelope alone goes to a lost rank: where that succeeds, it is back. */
static void try_lost(struct control *c, struct control_peer *p)
{
    uint64_t now = clock_now_ns();
    if (now < p->next_try_ns)
        return;
    p->next_try_ns = now + c->world->settings.peer_ms * CLOCK_NS_PER_MS / 8;
    post_alone(c, p);
}

void control_hash(struct control *c, uint32_t peer)
{
    c->hashed[peer] = true;
    if (c->peers[peer])
        c->peers[peer]->counts.hashed = true;
}

int control_send(struct control *c, uint32_t peer, const void *message, uint32_t bytes)
{
    if (peer >= (uint32_t)c->world->size || bytes == 0 || bytes > WIRE_MESSAGE_MAX)
        return error_set(BATON_EINVAL, "a message of %" PRIu32 " bytes to rank %" PRIu32, bytes, peer);
    struct control_peer *p = peer_of(c, peer);
    if (!p)
        return error_set(BATON_ENOMEM, "no memory for the state of rank %" PRIu32, peer);
    if (c->failed)
        return BATON_EPEER;
    if (p->is_lost)
        try_lost(c, p);
    if (p->is_lost)
        return BATON_EPEER;
    struct control_slot *slot = !p->again && envelope_has_credit(&p->counts) ? take_slot(c, p) : NULL;
    if (!slot)
        return BATON_EAGAIN;
    memcpy(slot->bytes + ENVELOPE_BYTES, message, bytes);
    post_new(c, p, slot, bytes);
    return 0;
}

/* Tells those who are owed it how much was consumed; who finds no slot stays in the queue. */
static void send_owed(struct control *c)
{
    struct control_peer *p = c->owed;
    c->owed = NULL;
    while (p) {
        struct control_peer *next = p->next_owed;
        p->is_owed = false;
        bool still = !p->is_lost && envelope_is_owed(&p->counts); /* not told by a message since */
        bool waits = p->again || clock_now_ns() < p->next_try_ns;
        if (still && (waits || !post_alone(c, p)))
            owe(c, p);
        p = next;
    }
}

/* What failed goes out again in its order, once its time has come and nothing of that rank is in MPI. */
static void send_again(struct control *c)
{
    uint64_t now = clock_now_ns(), limit = c->world->settings.peer_ms * CLOCK_NS_PER_MS;
    struct control_peer *p = c->failing;
    c->failing = NULL;
    while (p) {
        struct control_peer *next = p->next_failing;
        struct control_slot *slot = p->again;
        p->is_failing = false;
        if (slot && p->failing_ns != 0 && now - p->failing_ns > limit) {
            lose(c, p);
        } else if (slot && p->under_way == 0 && now >= p->next_try_ns) {
            p->again = slot->next;
            post(c, p, slot);
        }
        if (p->again && !p->is_failing) {
            p->is_failing = true;
            p->next_failing = c->failing;
            c->failing = p;
        }
        p = next;
    }
}

static void compact_sends(struct control *c)
{
    int kept = 0;
    for (int i = 0; i < c->num_sending; i++) {
        if (!c->sending[i])
            continue;
        c->send[kept] = c->send[i];
        c->sending[kept++] = c->sending[i];
    }
    c->num_sending = kept;
}

static int advance_sends(struct control *c)
{
    int done = 0;
    if (c->num_sending == 0)
        return 0;
    int rc = MPI_Testsome(c->num_sending, c->send, &done, c->index, c->status);
    if (rc != MPI_SUCCESS && world_error_class(rc) != MPI_ERR_IN_STATUS)
        return world_mpi_error(BATON_EMPI, "testing the sends", rc);
    if (done == MPI_UNDEFINED)
        return 0;
    for (int i = 0; i < done; i++) {
        c->finished[i] = c->sending[c->index[i]];
        c->sending[c->index[i]] = NULL;
    }
    compact_sends(c); /* first, so that what is counted as under way is */
    for (int i = 0; i < done; i++)
        finish_send(c, c->finished[i], rc == MPI_SUCCESS ? MPI_SUCCESS : c->status[i].MPI_ERROR);
    return 0;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* The channel carries no messages any more. Said once; what moves one-sided goes on. */
static void fail(struct control *c)
{
    if (!c->failed)
        log_line(c->world->log, LOG_ERROR, "the control channel failed: %s", baton_errmsg());
    c->failed = true;
}

/* A receive could not be posted, or came to nothing. True: that has lasted too long. */
static bool receives_fail(struct control *c, const char *what, int rc)
{
    uint64_t now = clock_now_ns();
    if (c->receives_failing_ns == 0) {
        c->receives_failing_ns = now;
        log_line(c->world->log, LOG_WARN, "%s failed (MPI error %d): it is tried again", what, rc);
    }
    if (now - c->receives_failing_ns <= c->world->settings.peer_ms * CLOCK_NS_PER_MS)
        return false;
    world_mpi_error(BATON_EMPI, what, rc);
    fail(c);
    return true;
}

static int post_receive(struct control *c, uint32_t at)
{
    return MPI_Irecv(c->received[at], CONTROL_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG_CONTROL, c->comm, &c->receive[at]);
}

void control_release(struct control *c)
{
    while (c->handed > 0 && !c->failed) {
        int rc = post_receive(c, (c->head - c->handed) % CONTROL_RECEIVES);
        if (rc != MPI_SUCCESS) { /* those behind it wait for it, or the order would be lost */
            receives_fail(c, "posting a receive", rc);
            return;
        }
        c->handed--;
    }
}

/*
 * Tests the ring's head. 1: something came, `*bytes` from `*rank` (bytes < 0: it is damaged; the rank may be none). 0:
 * nothing, or the channel failed.
 */
static int take_head(struct control *c, uint8_t **data, int *bytes, uint32_t *rank)
{
    int there = 0;
    uint32_t at = c->head % CONTROL_RECEIVES;
    MPI_Status status = {.MPI_SOURCE = -1};
    int rc = MPI_Test(&c->receive[at], &there, &status);
    if (rc != MPI_SUCCESS && world_error_class(rc) != MPI_ERR_TRUNCATE) {
        if (receives_fail(c, "receiving a message", rc))
            return 0;
        status.MPI_SOURCE = -1;
    } else if (rc == MPI_SUCCESS && there) {
        c->receives_failing_ns = 0;
    }
    if (rc == MPI_SUCCESS && !there)
        return 0;
    c->receive[at] = MPI_REQUEST_NULL;
    c->head++;
    c->handed++;
    c->arrived++;
    *data = c->received[at];
    *rank = (uint32_t)status.MPI_SOURCE;
    *bytes = -1;
    if (rc == MPI_SUCCESS)
        MPI_Get_count(&status, MPI_BYTE, bytes);
    return 1;
}

/* Takes the envelope off. True: a message is to be handed out. */
static bool accept(struct control *c, uint32_t rank, const uint8_t *data, int bytes)
{
    struct control_peer *p = rank < (uint32_t)c->world->size ? peer_of(c, rank) : NULL;
    const char *why = bytes < 0 ? "it is too long" : "no such rank, or no memory for its state";
    enum envelope_kind kind = ENVELOPE_REFUSED;
    if (p && bytes >= 0)
        kind = envelope_open(&p->counts, data, (uint32_t)bytes, &why);
    if (why) {
        c->bad++;
        log_line(c->world->log, LOG_WARN, "a bad message from rank %d: %s", (int)rank, why);
    }
    if (kind != ENVELOPE_REFUSED)
        revive(c, p);
    if (kind == ENVELOPE_MESSAGE)
        owe(c, p);
    return kind == ENVELOPE_MESSAGE;
}

static int receive(struct control *c, struct port_event *events, int max)
{
    int n = 0;
    while (n < max && c->handed < CONTROL_RECEIVES) {
        uint8_t *data;
        uint32_t rank;
        int bytes;
        if (!take_head(c, &data, &bytes, &rank))
            break;
        if (bytes < 0 && rank == UINT32_MAX) { /* said already */
            c->bad++;
            continue;
        }
        if (!accept(c, rank, data, bytes))
            continue;
        events[n++] = (struct port_event){.kind = PORT_MESSAGE,
                                          .peer = rank,
                                          .data = data + ENVELOPE_BYTES,
                                          .bytes = (uint32_t)bytes - ENVELOPE_BYTES};
    }
    return n;
}

int control_progress(struct control *c, struct port_event *events, int max)
{
    if (c->failed)
        return 0;
    if (advance_sends(c) != 0) {
        fail(c);
        return 0;
    }
    if (c->failing)
        send_again(c);
    int n = receive(c, events, max);
    if (c->owed)
        send_owed(c);
    return n;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int duplicate(struct world *w, MPI_Comm *comm)
{
    MPI_Request request;
    int error = world_begin(w, "duplicate for control");
    if (error)
        return error;
    int rc = MPI_Comm_idup(w->comm, comm, &request);
    error = world_finish(w, "duplicate for control", rc, &request);
    if (error == 0)
        MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return error;
}

int control_begin(struct control *c, struct world *w, const struct windows *v, MPI_Comm comm)
{
    int rc = MPI_SUCCESS;
    c->world = w;
    c->windows = v;
    c->comm = comm;
    c->peers = calloc((size_t)w->size, sizeof(struct control_peer *));
    c->hashed = calloc((size_t)w->size, sizeof *c->hashed);
    c->received = calloc(CONTROL_RECEIVES, sizeof *c->received);
    size_t sends = CONTROL_SENDS + (size_t)w->size;
    c->send = calloc(sends, sizeof *c->send);
    c->sending = calloc(sends, sizeof *c->sending);
    c->finished = calloc(sends, sizeof *c->finished);
    c->index = calloc(sends, sizeof *c->index);
    c->status = calloc(sends, sizeof *c->status);
    for (int i = 0; i < CONTROL_RECEIVES; i++)
        c->receive[i] = MPI_REQUEST_NULL;
    if (!c->peers || !c->hashed || !c->received || !c->send || !c->sending || !c->finished || !c->index || !c->status)
        return error_set(BATON_ENOMEM, "no memory for the control channel");
    for (uint32_t i = 0; i < CONTROL_RECEIVES && rc == MPI_SUCCESS; i++)
        rc = post_receive(c, i);
    return rc == MPI_SUCCESS ? 0 : world_mpi_error(BATON_EMPI, "posting a receive", rc);
}

int control_open(struct control *c, struct world *w, const struct windows *v)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int error = duplicate(w, &comm);
    if (error)
        return error;
    error = world_agree(w, "open the control channel", control_begin(c, w, v, comm));
    if (error) {
        if (!w->lost)
            control_close(c);
        return error;
    }
    c->is_open = true;
    return 0;
}

/* One turn of closing: what comes is taken and dropped. */
static int discard(struct control *c)
{
    uint8_t *data;
    uint32_t rank;
    int bytes;
    control_release(c);
    int error = advance_sends(c);
    if (error == 0 && c->failing)
        send_again(c);
    while (error == 0 && c->handed < CONTROL_RECEIVES && take_head(c, &data, &bytes, &rank))
        ;
    return c->failed ? error_set(BATON_EPEER, "the control channel has failed") : error;
}

/* Every rank learns from the sum of all ranks' counts how many messages it has to expect. */
static int count_expected(struct control *c, uint32_t *expected)
{
    MPI_Request request;
    uint32_t *posted = calloc((size_t)c->world->size, sizeof *posted);
    bool counted = false;
    int error = world_unanimous(c->world, "memory to close", posted != NULL, &counted);
    if (error == 0 && !counted)
        error = error_set(BATON_ENOMEM, "no memory to count the messages under way");
    if (error) {
        free(posted);
        return error;
    }
    for (int r = 0; r < c->world->size; r++)
        posted[r] = c->peers[r] ? c->peers[r]->posted : 0;
    error = world_begin(c->world, "messages under way");
    if (error == 0) {
        int rc = MPI_Ireduce_scatter_block(posted, expected, 1, MPI_UINT32_T, MPI_SUM, c->world->comm, &request);
        error = world_finish(c->world, "messages under way", rc, &request);
    }
    if (!c->world->lost) /* else MPI may still read it */
        free(posted);
    return error;
}

int control_drain(struct control *c)
{
    if (!c->is_open)
        return 0;
    uint64_t deadline = clock_now_ns() + c->world->settings.start_ms * CLOCK_NS_PER_MS;
    int error = 0;
    for (unsigned polls = 0; error == 0 && control_busy(c); polls++) {
        error = discard(c);
        if (clock_now_ns() > deadline)
            error = error_set(BATON_EPEER, "%d messages could not be sent before closing", c->num_sending);
        world_pause(polls);
    }
    int failed = count_expected(c, &c->expected);
    if (error || failed)
        return error ? error : failed;
    for (unsigned polls = 0; error == 0 && (int32_t)(c->expected - c->arrived) > 0; polls++) {
        error = discard(c);
        if (clock_now_ns() > deadline)
            error =
                error_set(BATON_EPEER, "%" PRIu32 " messages did not arrive before closing", c->expected - c->arrived);
        world_pause(polls);
    }
    return error;
}

static void cancel_receives(struct control *c)
{
    struct watchdog dog;
    world_watch(c->world, &dog, "cancel the receives");
    for (uint32_t i = 0; i < CONTROL_RECEIVES; i++) {
        if (c->receive[i] == MPI_REQUEST_NULL)
            continue;
        int rc = MPI_Cancel(&c->receive[i]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Wait(&c->receive[i], MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            log_line(c->world->log, LOG_WARN, "a receive could not be cancelled: MPI error %d", rc);
    }
    watchdog_stop(&dog);
}

void control_end(struct control *c)
{
    for (int r = 0; c->peers && r < c->world->size; r++)
        free(c->peers[r]);
    while (c->slots) {
        struct control_slot *slot = c->slots;
        c->slots = slot->next_made;
        free(slot);
    }
    free(c->peers);
    free(c->hashed);
    free(c->received);
    free(c->send);
    free(c->sending);
    free(c->finished);
    free(c->index);
    free(c->status);
    memset(c, 0, sizeof *c);
}

void control_close(struct control *c)
{
    cancel_receives(c);
    if (c->comm != MPI_COMM_NULL && MPI_Comm_free(&c->comm) != MPI_SUCCESS)
        log_line(c->world->log, LOG_WARN, "the control channel's communicator could not be freed");
    control_end(c);
}
