/* SPDX-License-Identifier: BSD-3-Clause */
/* fakes: see the header. */
#include "with_fakes.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/textbuf.h"

_Thread_local char fakes_call[256];

/* A table that is called with anything else than its own `self` is a fault of what is tested. */
static struct fakes *of(const void *self)
{
    struct fakes *f = (struct fakes *)(uintptr_t)self;
    if (f == NULL || f->port.self != f)
        abort();
    return f;
}

static void note(const char *name, const int64_t *numbers, size_t num)
{
    int at = snprintf(fakes_call, sizeof fakes_call, "%s", name);
    for (size_t i = 1; i < num; i++)
        at += snprintf(fakes_call + at, sizeof fakes_call - (size_t)at, " %" PRId64, numbers[i]);
}

/* Notes a call with its numbers, and is what the fakes say to it. */
#define ASKED(self, name, ...)                                                                                         \
    (atomic_fetch_add(&of(self)->asked.name, 1),                                                                       \
     note(#name, (const int64_t[]){0, __VA_ARGS__}, sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)),      \
     of(self)->says.name)

/* ---- the port ---------------------------------------------------------------------------------------------------- */

static int fake_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct fakes *f = of(self);
    if (bytes > WIRE_MESSAGE_MAX)
        abort();
    if (f->no_credit > 0) {
        f->no_credit--;
        return BATON_EAGAIN;
    }
    struct fakes_message *m = &f->message[f->sent++ % FAKES_KEPT];
    m->peer = peer;
    m->bytes = bytes;
    memcpy(m->data, message, bytes);
    return (int)ASKED(self, send, peer, bytes);
}

static void fake_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    ASKED(self, raise, slot, (int64_t)generation, far);
}

static enum port_alive fake_alive(void *self, uint32_t peer)
{
    return (enum port_alive)ASKED(self, alive, peer);
}

static int fake_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                    uint64_t *out, uint64_t tag)
{
    *out = of(self)->sum;
    return (int)ASKED(self, sum, transfer != NULL, source, first, count, (int64_t)tag);
}

static int fake_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    return (int)ASKED(self, zero, transfer != NULL, (int64_t)tag);
}

static int fake_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    return (int)ASKED(self, read, peer, (int64_t)offset, bytes, (int64_t)tag);
}

static int fake_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    return (int)ASKED(self, board, peer, (int64_t)offset, (int64_t)tag);
}

static int64_t fake_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    return ASKED(self, move, leg->peer, (int64_t)leg->tag, (int64_t)budget, leg->write);
}

static int fake_settle(void *self, uint32_t peer, uint64_t tag)
{
    return (int)ASKED(self, settle, peer, (int64_t)tag);
}

static enum path_park fake_park(void *self, uint32_t peer, uint64_t tag)
{
    return (enum path_park)ASKED(self, park, peer, (int64_t)tag);
}

static bool fake_ended(void *self, uint32_t peer)
{
    return ASKED(self, ended, peer) != 0;
}

static int fake_progress(void *self, struct port_event *events, int max)
{
    const int num = (int)ASKED(self, progress, max);
    for (int i = 0; i < num && i < max; i++)
        events[i] = of(self)->event;
    return num;
}

static bool fake_busy(const void *self)
{
    return ASKED(self, busy) != 0;
}

/* ---- the handoff ------------------------------------------------------------------------------------------------- */

static void fake_write(void *self, uint32_t slot, uint64_t generation, const struct handoff_offer *offer,
                       const uint64_t *seats, uint32_t num_seats)
{
    ASKED(self, write, slot, (int64_t)generation, offer->num_tokens, num_seats > 0 ? (int64_t)seats[0] : 0, num_seats);
}

static void fake_enter(void *self, uint32_t slot)
{
    ASKED(self, enter, slot);
}

static void fake_say_why(void *self, uint32_t slot, uint64_t generation, int error)
{
    ASKED(self, say_why, slot, (int64_t)generation, error);
}

static void fake_leave_slot(void *self, uint32_t slot)
{
    ASKED(self, leave_slot, slot);
}

static int fake_bind(void *self, uint32_t slot, uint64_t generation, uint64_t engine)
{
    return (int)ASKED(self, bind, slot, (int64_t)generation, (int64_t)engine);
}

static void fake_vacate(void *self, uint32_t slot, uint64_t generation, uint32_t seat, bool is_free)
{
    ASKED(self, vacate, slot, (int64_t)generation, seat, is_free);
}

static struct handoff_word fake_word(void *self, uint32_t slot, uint64_t generation, uint32_t peer)
{
    ASKED(self, word, slot, (int64_t)generation, peer);
    return of(self)->word;
}

static bool fake_told(void *self, uint32_t *slot)
{
    *slot = of(self)->slot;
    return ASKED(self, told) != 0;
}

static enum handoff_taken fake_take(void *self, uint32_t peer, const struct handoff_want *want,
                                    struct handoff_grant *grant)
{
    *grant = of(self)->grant;
    return (enum handoff_taken)ASKED(self, take, peer, (int64_t)want->engine);
}

static bool fake_hold(void *self, uint32_t peer, uint32_t slot, uint64_t generation, uint32_t left_ms)
{
    return ASKED(self, hold, peer, slot, (int64_t)generation, left_ms) != 0;
}

static void fake_give_back(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int error)
{
    ASKED(self, give_back, peer, slot, (int64_t)generation, error);
}

static bool fake_why(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int *error)
{
    *error = of(self)->reason;
    return ASKED(self, why, peer, slot, (int64_t)generation) != 0;
}

/* ---- the net ----------------------------------------------------------------------------------------------------- */

static bool fake_net_busy(const void *self)
{
    return ASKED(self, net_busy) != 0;
}

static int fake_room(void *self, uint32_t peer)
{
    return (int)ASKED(self, room, peer);
}

static int64_t fake_net_move(void *self, const struct net_move *move)
{
    return ASKED(self, net_move, move->peer, (int64_t)move->tag, move->num_runs, move->write);
}

static void fake_sync(void *self)
{
    ASKED(self, sync);
    atomic_thread_fence(memory_order_seq_cst);
}

static bool fake_is_rung(const void *self)
{
    return ASKED(self, is_rung) != 0;
}

static uint32_t fake_rings(const void *self)
{
    return (uint32_t)ASKED(self, rings);
}

static void fake_ring(void *self)
{
    ASKED(self, ring);
}

static bool fake_failed(const void *self)
{
    return ASKED(self, failed) != 0;
}

static void fake_net_close(void *self)
{
    ASKED(self, net_close);
}

static void fake_forget(void *self)
{
    ASKED(self, forget);
}

static struct net_counts fake_counts(const void *self)
{
    ASKED(self, counts);
    return (struct net_counts){0};
}

static void fake_describe(const void *self, struct textbuf *out)
{
    ASKED(self, describe);
    textbuf_print(out, "made up\n");
}

/* ---- the world --------------------------------------------------------------------------------------------------- */

static int fake_agree(void *self, const char *step, int local)
{
    const int rc = (int)ASKED(self, agree, local);
    (void)step;
    return rc != 0 ? rc : local;
}

static int fake_least(void *self, const char *step, const int mine[2], int least[2])
{
    (void)step;
    memcpy(least, mine, 2 * sizeof *mine);
    return (int)ASKED(self, least, mine[0], mine[1]);
}

static int fake_exchange(void *self, const void *row, uint32_t row_bytes, void *rows)
{
    memcpy(rows, row, row_bytes);
    return (int)ASKED(self, exchange, row_bytes);
}

static bool fake_is_lost(const void *self)
{
    return ASKED(self, is_lost) != 0;
}

static int fake_start(void *self, const struct world_segment *wish)
{
    return (int)ASKED(self, start, (int64_t)wish->meta_bytes, (int64_t)wish->pool_bytes);
}

static int fake_expose(void *self, const struct path_regions *mine)
{
    return (int)ASKED(self, expose, mine->num);
}

static int fake_doorbell(void *self, void (*rung)(void *arg), void *arg, const char *cpus)
{
    (void)rung, (void)arg, (void)cpus;
    return (int)ASKED(self, doorbell);
}

static int fake_selftest(void *self, uint64_t offset, uint64_t bytes)
{
    return (int)ASKED(self, selftest, (int64_t)offset, (int64_t)bytes);
}

static int fake_meet_init(void *self)
{
    return (int)ASKED(self, meet_init);
}

static int fake_meet(void *self, bool is_here)
{
    return (int)ASKED(self, meet, is_here);
}

static void fake_meet_missing(const void *self, char *text, size_t size)
{
    ASKED(self, meet_missing);
    snprintf(text, size, "%s", "");
}

static int fake_meet_close(void *self, uint64_t until_ns)
{
    return (int)ASKED(self, meet_close, (int64_t)until_ns);
}

static int fake_leave(void *self, bool late)
{
    return (int)ASKED(self, leave, late);
}

static bool fake_silence(void *self)
{
    return ASKED(self, silence) != 0;
}

static void fake_hurry(void *self, uint64_t left_ms)
{
    of(self)->left_ms = left_ms;
    ASKED(self, hurry, (int64_t)left_ms);
}

static int fake_on_finalize(void *self, void (*hook)(void *arg), void *arg)
{
    (void)arg;
    return (int)ASKED(self, on_finalize, hook != NULL);
}

static void fake_finalize(void *self)
{
    ASKED(self, finalize);
}

static int fake_close(void *self, int local)
{
    const int rc = (int)ASKED(self, close, local);
    return rc != 0 ? rc : local;
}

static int fake_leave_open(void *self, const char *why)
{
    ASKED(self, leave_open);
    return error_set(BATON_EPEER, "%s", why);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static const struct path path = {.read = fake_read,
                                 .board = fake_board,
                                 .move = fake_move,
                                 .settle = fake_settle,
                                 .park = fake_park,
                                 .ended = fake_ended,
                                 .progress = fake_progress,
                                 .busy = fake_busy,
                                 .kind = BATON_PATH_RMA,
                                 .name = "made up"};
static const struct port port = {
    .send = fake_send, .raise = fake_raise, .alive = fake_alive, .sum = fake_sum, .zero = fake_zero};
static const struct port_handoff handoff = {.write = fake_write,
                                            .enter = fake_enter,
                                            .say_why = fake_say_why,
                                            .leave = fake_leave_slot,
                                            .bind = fake_bind,
                                            .vacate = fake_vacate,
                                            .word = fake_word,
                                            .told = fake_told,
                                            .take = fake_take,
                                            .hold = fake_hold,
                                            .give_back = fake_give_back,
                                            .why = fake_why};
static const struct net net = {.name = "MPI",
                               .room = fake_room,
                               .move = fake_net_move,
                               .send = fake_send,
                               .sync = fake_sync,
                               .is_rung = fake_is_rung,
                               .rings = fake_rings,
                               .ring = fake_ring,
                               .failed = fake_failed,
                               .close = fake_net_close,
                               .forget = fake_forget,
                               .counts = fake_counts,
                               .describe = fake_describe};
static const struct world_calls world = {.bears_threads = true,
                                         .agree = fake_agree,
                                         .least = fake_least,
                                         .exchange = fake_exchange,
                                         .is_lost = fake_is_lost,
                                         .start = fake_start,
                                         .expose = fake_expose,
                                         .doorbell = fake_doorbell,
                                         .selftest = fake_selftest,
                                         .meet_init = fake_meet_init,
                                         .meet = fake_meet,
                                         .meet_missing = fake_meet_missing,
                                         .meet_close = fake_meet_close,
                                         .leave = fake_leave,
                                         .silence = fake_silence,
                                         .hurry = fake_hurry,
                                         .on_finalize = fake_on_finalize,
                                         .finalize = fake_finalize,
                                         .close = fake_close,
                                         .leave_open = fake_leave_open,
                                         .describe = fake_describe};

void fakes_init(struct fakes *f)
{
    memset(f, 0, sizeof *f);
    f->port = port;
    f->port.path = path;
    f->handoff = handoff;
    f->net = net;
    f->net.path = path;
    f->net.path.move = NULL; /* the two of the net take its place */
    f->net.path.busy = fake_net_busy;
    f->world = world;
    f->port.self = f->port.path.self = f->handoff.self = f->net.self = f->net.path.self = f->world.self = f;
    f->port.handoff = &f->handoff;
    f->ground = (struct ground){.num_peers = 1, .places = 1, .peers = &f->peer};
    f->says.silence = true;
    fakes_call[0] = '\0';
}
