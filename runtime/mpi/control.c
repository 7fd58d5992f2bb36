/* SPDX-License-Identifier: BSD-3-Clause */
/* control: see the header. Never trusts an envelope: a bad one is counted and logged, and its message dropped. */
#include "mpi/control.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "mpi/address.h"
#include "wire/message.h"

#define LOOKED_MOST 4096 /* messages: a look at the inbox takes no more, however many ranks send without end */

/* The channel carries no messages any more. One-sided operations go on. */
static void fail(struct control *c)
{
    if (!c->has_failed)
        log_line(c->world->log, LOG_ERROR, "the control channel failed: %s", baton_errmsg());
    c->has_failed = true;
}

/* ---- the reactor's ----------------------------------------------------------------------------------------------- */

int control_send(struct control *c, uint32_t peer, const void *message, uint32_t bytes)
{
    if (peer >= (uint32_t)c->world->size || bytes == 0 || bytes > WIRE_MESSAGE_MAX)
        return error_set(BATON_EINVAL, "a message of %" PRIu32 " bytes to rank %" PRIu32 " cannot be sent", bytes,
                         peer);
    return c->has_failed ? BATON_EPEER : outbox_send(&c->outbox, peer, message, bytes);
}

void control_release(struct control *c)
{
    if (!c->has_failed && inbox_release(&c->inbox) != 0)
        fail(c);
}

/* Who speaks in a packet: one of whom the state is known here, to me. NULL: why not. */
static struct outbox_peer *find_speaker(struct control *c, const struct inbox_message *m, const char **why)
{
    struct envelope_route route;
    struct outbox_peer *p = NULL;
    if (m->bytes < 0)
        *why = "it is too long";
    else if (!envelope_read_route(m->data, (uint32_t)m->bytes, &route))
        *why = "its envelope is malformed";
    else if (route.to != address_peer(c->world->rank))
        *why = "it is for another rank";
    else if ((p = outbox_peer_of(&c->outbox, route.from)) == NULL)
        *why = "nobody has the number of its sender, or there is no memory for its state";
    return p;
}

/* Takes the envelope off. True: there is a message to be handed out, and *from is who speaks. */
static bool unwrap(struct control *c, const struct inbox_message *m, uint32_t *from)
{
    const char *why = NULL;
    enum envelope_kind kind = ENVELOPE_REFUSED;
    struct outbox_peer *p = find_speaker(c, m, &why);
    if (p != NULL) {
        kind = envelope_open(&p->counts, m->data, (uint32_t)m->bytes, &why);
        *from = p->rank;
    }
    if (why != NULL) {
        count_add(&c->bad, 1);
        log_line(c->world->log, LOG_WARN, "a bad message came from rank %d: %s", (int)m->rank, why);
    }
    if (kind != ENVELOPE_REFUSED)
        outbox_revive(&c->outbox, p);
    if (kind == ENVELOPE_MESSAGE)
        outbox_owe(&c->outbox, p);
    return kind == ENVELOPE_MESSAGE;
}

/* The next message. 0: none is there, or the channel failed. */
static int take(struct control *c, struct inbox_message *m)
{
    int got = inbox_take(&c->inbox, m);
    if (got < 0)
        fail(c);
    return got > 0;
}

static int hand_out(struct control *c, struct port_event *events, int max)
{
    int n = 0;
    uint64_t taken = 0;
    bool is_empty = false;
    struct inbox_message m;
    for (; n < max && !is_empty; taken += !is_empty) {
        is_empty = !take(c, &m);
        if (is_empty)
            continue;
        if (m.bytes < 0 && m.rank == UINT32_MAX) { /* logged already */
            count_add(&c->bad, 1);
            continue;
        }
        uint32_t from = 0;
        if (!unwrap(c, &m, &from))
            continue;
        events[n++] = (struct port_event){.kind = PORT_MESSAGE,
                                          .peer = from,
                                          .data = m.data + ENVELOPE_BYTES,
                                          .bytes = (uint32_t)m.bytes - ENVELOPE_BYTES};
    }
    /* All receives were handed out: there may be more messages, unless none could be posted again since. */
    if (c->inbox.handed == INBOX_RECEIVES && taken > 0)
        is_empty = false;
    look_take(&c->look, taken, is_empty);
    return n;
}

/* A rank has so many messages here that were not consumed, and one envelope alone. */
void control_look(struct control *c)
{
    const uint64_t all = (uint64_t)c->world->size * (ENVELOPE_CREDITS + 1);
    look_begin(&c->look, all < LOOKED_MOST ? all : LOOKED_MOST);
}

int control_progress(struct control *c, struct port_event *events, int max)
{
    if (c->has_failed)
        return 0;
    if (outbox_test(&c->outbox) != 0) {
        fail(c);
        return 0;
    }
    int n = hand_out(c, events, max);
    if (look_has_ended(&c->look)) /* what came may show that a rank can be reached again */
        outbox_repeat(&c->outbox);
    outbox_confirm(&c->outbox);
    return n;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int duplicate(struct world *w, MPI_Comm *comm)
{
    MPI_Request request;
    int error = steps_begin(&w->steps, "duplicate for control");
    if (error)
        return error;
    int rc = MPI_Comm_idup(w->comm, comm, &request);
    error = steps_finish(&w->steps, "duplicate for control", rc, &request);
    if (error == 0)
        MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return error;
}

int control_begin(struct control *c, struct world *w, const struct windows *v, MPI_Comm comm)
{
    c->world = w;
    c->comm = comm;
    int out = outbox_init(&c->outbox, w, v, comm), in = inbox_init(&c->inbox, w, comm);
    return out ? out : in;
}

int control_open(struct control *c, struct world *w, const struct windows *v)
{
    c->comm = MPI_COMM_NULL;
    int error = duplicate(w, &c->comm); /* if the step is lost, MPI may still store the handle */
    if (error)
        return error;
    error = steps_agree(&w->steps, "open the control channel", control_begin(c, w, v, c->comm));
    if (error) {
        if (!w->steps.is_lost)
            control_close(c);
        return error;
    }
    c->is_open = true;
    return 0;
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

/* One turn of closing: whatever comes is dropped. */
static int discard(struct control *c)
{
    struct inbox_message m;
    control_release(c);
    int error = outbox_test(&c->outbox);
    if (error == 0)
        outbox_repeat(&c->outbox);
    while (error == 0 && take(c, &m))
        ;
    return c->has_failed ? error_set(BATON_EPEER, "the control channel has failed") : error;
}

/* Every rank learns from the sum of all ranks' counts how many messages it has to expect. */
static int count_expected(struct control *c, uint32_t *expected)
{
    MPI_Request request;
    uint32_t *posted = calloc((size_t)c->world->size, sizeof *posted);
    bool has_memory = false;
    int error = steps_unanimous(&c->world->steps, "memory to close", posted != NULL, &has_memory);
    if (error == 0 && !has_memory)
        error = error_set(BATON_ENOMEM, "no memory to count the messages under way");
    if (error) {
        free(posted);
        return error;
    }
    for (int r = 0; r < c->world->size; r++)
        posted[address_of(c->outbox.windows, (uint32_t)r).rank] = outbox_posted(&c->outbox, (uint32_t)r);
    error = steps_begin(&c->world->steps, "messages under way");
    if (error == 0) {
        int rc = MPI_Ireduce_scatter_block(posted, expected, 1, MPI_UINT32_T, MPI_SUM, c->world->comm, &request);
        error = steps_finish(&c->world->steps, "messages under way", rc, &request);
    }
    if (!c->world->steps.is_lost) /* else MPI may still read it */
        free(posted);
    return error;
}

static int drain_sends(struct control *c, struct deadline *deadline)
{
    int error = 0;
    for (unsigned polls = 0; error == 0 && control_busy(c); polls++) {
        error = discard(c);
        if (deadline_is_past(deadline, clock_now_ns()))
            error = error_set(BATON_EPEER, "%d messages could not be sent before closing", c->outbox.num_sending);
        steps_pause(polls);
    }
    return error;
}

static int drain_receives(struct control *c, struct deadline *deadline)
{
    int error = 0;
    for (unsigned polls = 0; error == 0; polls++) {
        int32_t missing = (int32_t)(c->expected - c->inbox.arrived);
        if (missing <= 0)
            break;
        error = discard(c);
        if (deadline_is_past(deadline, clock_now_ns()))
            error = error_set(BATON_EPEER, "%" PRId32 " messages did not arrive before closing", missing);
        steps_pause(polls);
    }
    return error;
}

int control_drain(struct control *c)
{
    if (!c->is_open)
        return 0;
    struct deadline deadline = deadline_in(clock_now_ns(), c->world->settings.start_ms);
    int sends = drain_sends(c, &deadline);
    int counted = count_expected(c, &c->expected); /* collective: whatever the sends came to */
    if (sends || counted)
        return sends ? sends : counted;
    return drain_receives(c, &deadline);
}

void control_end(struct control *c)
{
    outbox_fini(&c->outbox);
    inbox_fini(&c->inbox);
    memset(c, 0, sizeof *c);
}

void control_close(struct control *c)
{
    struct watchdog dog;
    steps_watch(&c->world->steps, &dog, "close the control channel");
    inbox_cancel(&c->inbox);
    if (c->comm != MPI_COMM_NULL && MPI_Comm_free(&c->comm) != MPI_SUCCESS)
        log_line(c->world->log, LOG_WARN, "the control channel's communicator could not be freed");
    watchdog_stop(&dog);
    control_end(c);
}
