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

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static struct control_peer *peer_of(struct control *c, uint32_t rank)
{
    struct control_peer *p = c->peers[rank];
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (p) {
        p->rank = rank;
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

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void ring(const struct control *c, uint32_t peer)
{
    struct bell *bell = windows_bell(c->windows, peer);
    if (bell)
        bell_ring(bell);
}

static struct control_slot *take_slot(struct control *c, const struct control_peer *p)
{
    struct control_slot *slot = p->slots < CONTROL_PEER_SENDS ? c->free_slots : NULL;
    if (slot)
        c->free_slots = slot->next_free;
    return slot;
}

static void free_slot(struct control *c, struct control_slot *slot)
{
    slot->next_free = c->free_slots;
    c->free_slots = slot;
}

static int lose(struct control *c, struct control_peer *p, int rc)
{
    if (!p->is_lost)
        log_line(c->world->log, LOG_WARN, "a message to rank %" PRIu32 " failed (MPI error %d): no more are sent to it",
                 p->rank, rc);
    p->is_lost = true;
    return BATON_EPEER;
}

/*
 * The message in the slot goes out. The doorbell is rung after the send, for a receiver that sleeps; where MPI could
 * not hand the message over at once, it is rung again when that happened.
 */
static int post(struct control *c, struct control_peer *p, struct control_slot *slot, uint32_t bytes)
{
    MPI_Request request;
    bool alone = bytes == 0;
    int done = 0;
    envelope_seal(&p->counts, alone, slot->bytes);
    slot->peer = p->rank;
    int rc =
        MPI_Isend(slot->bytes, (int)(ENVELOPE_BYTES + bytes), MPI_BYTE, (int)p->rank, TAG_CONTROL, c->comm, &request);
    if (rc != MPI_SUCCESS) {
        free_slot(c, slot);
        return lose(c, p, rc);
    }
    p->posted++;
    envelope_sent(&p->counts, alone);
    rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS) /* MPI may still read the slot: it is given up, and the peer with it */
        return lose(c, p, rc);
    ring(c, p->rank);
    if (done) {
        free_slot(c, slot);
        return 0;
    }
    c->send[c->num_sending] = request;
    c->sending[c->num_sending++] = slot;
    p->slots++;
    return 0;
}

int control_send(struct control *c, uint32_t peer, const void *message, uint32_t bytes)
{
    if (peer >= (uint32_t)c->world->size || bytes == 0 || bytes > WIRE_MESSAGE_MAX)
        return error_set(BATON_EINVAL, "a message of %" PRIu32 " bytes to rank %" PRIu32, bytes, peer);
    struct control_peer *p = peer_of(c, peer);
    if (!p)
        return error_set(BATON_ENOMEM, "no memory for the state of rank %" PRIu32, peer);
    if (p->is_lost)
        return BATON_EPEER;
    struct control_slot *slot = envelope_has_credit(&p->counts) ? take_slot(c, p) : NULL;
    if (!slot)
        return BATON_EAGAIN;
    memcpy(slot->bytes + ENVELOPE_BYTES, message, bytes);
    int error = post(c, p, slot, bytes);
    c->messages_out += error == 0;
    return error;
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
        struct control_slot *slot = still ? take_slot(c, p) : NULL;
        if (slot && post(c, p, slot, 0) == 0)
            c->envelopes_out++;
        else if (still)
            owe(c, p);
        p = next;
    }
}

static void finish_send(struct control *c, int i, int rc)
{
    struct control_slot *slot = c->sending[i];
    struct control_peer *p = c->peers[slot->peer];
    p->slots--;
    if (rc != MPI_SUCCESS)
        lose(c, p, rc);
    else
        ring(c, p->rank);
    free_slot(c, slot);
    c->sending[i] = NULL;
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
    int done = 0, index[CONTROL_SENDS];
    MPI_Status status[CONTROL_SENDS];
    if (c->num_sending == 0)
        return 0;
    int rc = MPI_Testsome(c->num_sending, c->send, &done, index, status);
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS)
        return world_mpi_error(BATON_EMPI, "testing the sends", rc);
    if (done == MPI_UNDEFINED)
        return 0;
    for (int i = 0; i < done; i++)
        finish_send(c, index[i], rc == MPI_ERR_IN_STATUS ? status[i].MPI_ERROR : MPI_SUCCESS);
    if (done > 0)
        compact_sends(c);
    return 0;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

static int post_receive(struct control *c, uint32_t at)
{
    int rc = MPI_Irecv(c->received[at], CONTROL_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG_CONTROL, c->comm, &c->receive[at]);
    return rc == MPI_SUCCESS ? 0 : world_mpi_error(BATON_EMPI, "posting a receive", rc);
}

int control_release(struct control *c)
{
    for (; c->handed > 0; c->handed--) {
        int error = post_receive(c, (c->head - c->handed) % CONTROL_RECEIVES);
        if (error) {
            c->failed = true;
            return error;
        }
    }
    return 0;
}

/* Tests the ring's head. 1: something came, `*bytes` from `*rank` (bytes < 0: it was too long). 0: nothing. */
static int take_head(struct control *c, uint8_t **data, int *bytes, uint32_t *rank)
{
    int there = 0;
    uint32_t at = c->head % CONTROL_RECEIVES;
    MPI_Status status;
    int rc = MPI_Test(&c->receive[at], &there, &status), class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS) {
        MPI_Error_class(rc, &class);
        if (class != MPI_ERR_TRUNCATE) {
            c->failed = true;
            return world_mpi_error(BATON_EMPI, "receiving a message", rc);
        }
        there = 1;
    }
    if (!there)
        return 0;
    c->head++;
    c->handed++;
    c->arrived++;
    *data = c->received[at];
    *rank = (uint32_t)status.MPI_SOURCE;
    *bytes = -1;
    if (class == MPI_SUCCESS)
        MPI_Get_count(&status, MPI_BYTE, bytes);
    return 1;
}

/* Takes the envelope off. True: a message is to be handed out. */
static bool accept(struct control *c, uint32_t rank, const uint8_t *data, int bytes)
{
    struct control_peer *p = rank < (uint32_t)c->world->size ? peer_of(c, rank) : NULL;
    const char *why = "no such rank, or no memory for its state";
    enum envelope_kind kind = ENVELOPE_REFUSED;
    if (p && bytes < 0)
        why = "it is too long";
    else if (p)
        kind = envelope_open(&p->counts, data, (uint32_t)bytes, &why);
    if (why) {
        c->bad++;
        log_line(c->world->log, LOG_WARN, "a bad message from rank %" PRIu32 ": %s", rank, why);
    }
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
        int came = take_head(c, &data, &bytes, &rank);
        if (came < 0) /* said again by the next call: first what is in hand */
            return n > 0 ? n : came;
        if (came == 0)
            break;
        if (!accept(c, rank, data, bytes))
            continue;
        events[n++] = (struct port_event){.kind = PORT_MESSAGE,
                                          .peer = rank,
                                          .data = data + ENVELOPE_BYTES,
                                          .bytes = (uint32_t)bytes - ENVELOPE_BYTES};
        c->messages_in++;
    }
    return n;
}

int control_progress(struct control *c, struct port_event *events, int max)
{
    if (c->failed)
        return error_set(BATON_EMPI, "the control channel has failed");
    int error = advance_sends(c);
    if (error) {
        c->failed = true;
        return error;
    }
    int n = receive(c, events, max);
    if (c->owed)
        send_owed(c);
    return n;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int duplicate(struct control *c, struct world *w)
{
    MPI_Request request;
    int error = world_begin(w, "duplicate for control");
    if (error)
        return error;
    int rc = MPI_Comm_idup(w->comm, &c->comm, &request);
    error = world_finish(w, "duplicate for control", rc, &request);
    if (error == 0)
        MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    return error;
}

static int allocate(struct control *c)
{
    c->peers = calloc((size_t)c->world->size, sizeof(struct control_peer *));
    c->slots = calloc(CONTROL_SENDS, sizeof *c->slots);
    c->received = calloc(CONTROL_RECEIVES, sizeof *c->received);
    if (!c->peers || !c->slots || !c->received)
        return error_set(BATON_ENOMEM, "no memory for the control channel");
    for (int i = 0; i < CONTROL_SENDS; i++)
        free_slot(c, &c->slots[i]);
    return 0;
}

int control_open(struct control *c, struct world *w, const struct windows *v)
{
    c->world = w;
    c->windows = v;
    c->comm = MPI_COMM_NULL;
    for (int i = 0; i < CONTROL_RECEIVES; i++)
        c->receive[i] = MPI_REQUEST_NULL;
    int error = duplicate(c, w);
    if (error == 0) {
        int local = allocate(c);
        for (uint32_t i = 0; i < CONTROL_RECEIVES && local == 0; i++)
            local = post_receive(c, i);
        error = world_agree(w, "open the control channel", local);
    }
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
    int error = control_release(c);
    uint8_t *data;
    uint32_t rank;
    int bytes, came = 0;
    if (error == 0)
        error = advance_sends(c);
    while (error == 0 && c->handed < CONTROL_RECEIVES && (came = take_head(c, &data, &bytes, &rank)) > 0)
        ;
    return error ? error : came < 0 ? came : 0;
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
    for (unsigned polls = 0; error == 0 && c->num_sending > 0; polls++) {
        error = discard(c);
        if (clock_now_ns() > deadline)
            error = error_set(BATON_EPEER, "%d messages could not be sent before closing", c->num_sending);
        world_pause(polls);
    }
    int failed = count_expected(c, &c->expected);
    if (error || failed)
        return error ? error : failed;
    for (unsigned polls = 0; error == 0 && c->arrived != c->expected; polls++) {
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

void control_close(struct control *c)
{
    cancel_receives(c);
    if (c->comm != MPI_COMM_NULL && MPI_Comm_free(&c->comm) != MPI_SUCCESS)
        log_line(c->world->log, LOG_WARN, "the control channel's communicator could not be freed");
    for (int r = 0; c->peers && r < c->world->size; r++)
        free(c->peers[r]);
    free(c->peers);
    free(c->slots);
    free(c->received);
    memset(c, 0, sizeof *c);
}
