/* SPDX-License-Identifier: BSD-3-Clause */
/* net: the fabric as the way to peers (core/net.h): messages by control, bytes by rma, rings by the doorbell. */
#include "mpi/fabric.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/textbuf.h"

static int net_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct fabric *f = self;
    return control_send(&f->control, peer, message, bytes);
}

static int net_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct fabric *f = self;
    doorbell_ring(&f->ringing.doorbell, peer, clock_now_ns()); /* over some transports the peer has to help */
    return rma_read(&f->rma, RMA_READ, peer, offset, bytes, tag);
}

static int net_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct fabric *f = self;
    return rma_read(&f->rma, RMA_WORD, peer, offset, sizeof(uint64_t), tag);
}

static int net_room(void *self, uint32_t peer)
{
    struct fabric *f = self;
    return rma_room(&f->rma, peer);
}

static int64_t net_move(void *self, const struct net_move *move)
{
    struct fabric *f = self;
    return rma_move(&f->rma, move);
}

/* At once where a put's request implies remote completion, else by a flush of a peer that answers. */
static int net_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct fabric *f = self;
    return rma_settle(&f->rma, peer, tag);
}

static enum path_park net_park(void *self, uint32_t peer, uint64_t tag)
{
    struct fabric *f = self;
    return rma_park(&f->rma, peer, tag);
}

/*
 * The connection has ended where one of our one-sided requests to the rank completed in error. A call that was refused
 * does not count. In each park_ms this may send a probe, for the next time that it is asked. It stays false where
 * a refused call poisoned the peer, and over osc/rdma, where an operation on a dead process may never return.
 */
static bool net_ended(void *self, uint32_t peer)
{
    struct fabric *f = self;
    return rma_ended(&f->rma, peer);
}

static void net_sync(void *self)
{
    struct fabric *f = self;
    windows_sync(&f->windows);
}

static bool net_busy(const void *self)
{
    const struct fabric *f = self;
    return rma_busy(&f->rma) > 0 || control_busy(&f->control);
}

/* Messages and completions take turns at being first, so that neither can fill the room of every call. */
static int net_progress(void *self, struct port_event *events, int max)
{
    struct fabric *f = self;
    control_release(&f->control);
    bool messages_first = f->turn++ & 1;
    int n = messages_first ? control_progress(&f->control, events, max) : rma_progress(&f->rma, events, max);
    events += n;
    max -= n;
    return n + (messages_first ? rma_progress(&f->rma, events, max) : control_progress(&f->control, events, max));
}

static void net_look(void *self)
{
    struct fabric *f = self;
    control_look(&f->control);
    rma_look(&f->rma);
}

static bool net_has_looked(const void *self)
{
    const struct fabric *f = self;
    return control_has_looked(&f->control) && look_has_ended(&f->rma.look);
}

static bool net_failed(const void *self)
{
    const struct fabric *f = self;
    return f->control.has_failed || rma_has_failed(&f->rma);
}

static struct net_counts net_counts(const void *self)
{
    const struct fabric *f = self;
    struct rma_counts rma = rma_counts(&f->rma);
    return (struct net_counts){.messages_bad = count_of(&f->control.bad),
                               .flushes = rma.flushes,
                               .settled = rma.settled,
                               .poisoned = rma.poisonings,
                               .parked = rma.parked};
}

static bool net_is_rung(const void *self)
{
    const struct fabric *f = self;
    return ringing_is_rung(&f->ringing);
}

static uint32_t net_rings(const void *self)
{
    const struct fabric *f = self;
    return doorbell_heard(&f->ringing.doorbell) + f->ringing.doorbell.rung;
}

static void net_ring(void *self)
{
    struct fabric *f = self;
    ringing_flush(&f->ringing, &f->world);
}

static void net_forget(void *self)
{
    struct fabric *f = self;
    doorbell_forget(&f->ringing.doorbell);
}

/* ---- description ------------------------------------------------------------------------------------------------- */

static void describe_far_windows(const struct fabric *f, struct textbuf *p)
{
    const struct windows *v = &f->windows;
    if (v->overlay == MPI_WIN_NULL)
        textbuf_print(p, "window over nodes: none, there is one node\n");
    else
        textbuf_print(p, "window over nodes: %s\n", fabric_component(f, v->overlay_name));
    if (v->exposure.way == EXPOSURE_SPAN)
        textbuf_print(p, "windows over engines' memory: one, from the first region to the last\n");
    if (v->exposure.way == EXPOSURE_NONE && v->exposure.why[0] != '\0')
        textbuf_print(p, "windows over engines' memory: none: %s\n", v->exposure.why);
    if (v->exposure.way == EXPOSURE_EACH)
        textbuf_print(p, "windows over engines' memory: %d, one a region: %s\n", v->exposure.num, v->exposure.why);
}

static void describe_quirks(const struct fabric *f, struct textbuf *p)
{
    const struct quirks *q = &f->quirks;
    textbuf_print(p, "mpi: %s\n", q->library);
    if (q->close_first)
        textbuf_print(p, "quirks: MPI_Finalize may abort or hang unless baton_close came before it\n");
    if (f->windows.overlay == MPI_WIN_NULL)
        return;
    textbuf_print(p,
                  "quirks: %" PRIu32 " gets or %" PRIu32 " puts a request%s; put completion %s; flush within %" PRIu64
                  " operations (%s)\n",
                  q->per_request, q->per_request, q->is_forced ? " (BATON_TUNE=rma_gets_per_request)" : "",
                  q->put_is_remote ? "is remote" : "is local", q->flush_within, q->why);
    if (q->one_thread)
        textbuf_print(p, "quirks: only the thread that opened the context may call MPI\n");
    if (q->keeps_window)
        textbuf_print(
            p, "quirks: the window over nodes is never freed; closing ends with BATON_EPEER, leave by baton_exit\n");
    textbuf_print(p,
                  "rma: %" PRIu64 " requests, %" PRIu64 " a peer, runs of %" PRIu64
                  " bytes; short ones moved together by %" PRIu32 " requests at most; %d may be parked\n",
                  f->world.settings.rma_requests, f->world.settings.rma_peer_requests, f->world.settings.rma_run_bytes,
                  f->rma.sieves.max, RMA_PARKED);
}

static void net_describe(const void *self, struct textbuf *p)
{
    const struct fabric *f = self;
    describe_far_windows(f, p);
    describe_quirks(f, p);
    ringing_describe(&f->ringing, &f->world, p);
    textbuf_print(p, "control: %d receives, %d places of messages and one a rank, at most %d a peer, %u credits\n",
                  INBOX_RECEIVES, SLOTS_MAX, SLOTS_OF_PEER, ENVELOPE_CREDITS);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

void fabric_fill_net(struct fabric *f)
{
    const struct path path = {.self = f,
                              .read = net_read,
                              .board = net_board,
                              .settle = net_settle,
                              .park = net_park,
                              .ended = net_ended,
                              .progress = net_progress,
                              .look = net_look,
                              .has_looked = net_has_looked,
                              .busy = net_busy,
                              .kind = BATON_PATH_RMA,
                              .name = "rma"};
    f->net = (struct net){.name = "MPI",
                          .path = path,
                          .self = f,
                          .room = net_room,
                          .move = net_move,
                          .has_nodes = f->world.nodes > 1,
                          .send = net_send,
                          .sync = net_sync,
                          .is_rung = net_is_rung,
                          .rings = net_rings,
                          .ring = net_ring,
                          .failed = net_failed,
                          .forget = net_forget,
                          .counts = net_counts,
                          .describe = net_describe};
}
