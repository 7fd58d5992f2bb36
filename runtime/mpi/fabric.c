/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric: ties world, windows, control and rma into one handle. They are opened in this order, and closed in the
 * reverse order. Calls MPI itself only to ask which library it is.
 */
#include "mpi/fabric.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/page.h"
#include "mpi/selftest.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

int fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                int local, struct fabric **out)
{
    struct fabric *f = calloc(1, sizeof *f);
    if (f == NULL)
        return error_set(BATON_ENOMEM, "no memory for a context");
    int error = world_open(&f->world, comm, settings, mode, log, local);
    if (error) {
        if (!f->world.steps.is_lost) /* else MPI may still write into it */
            free(f);
        return error;
    }
    fabric_fill(f);
    *out = f;
    return 0;
}

int fabric_comm(int handle, MPI_Comm *out)
{
    int initialised = 0, finalised = 0;
    *out = MPI_COMM_NULL;
    if (handle == BATON_COMM_NULL_F)
        return 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (!initialised || finalised)
        return error_set(BATON_ESTATE, "communicator %d was given, but MPI %s", handle,
                         finalised ? "is already finalised" : "is not initialised");
    *out = MPI_Comm_f2c((MPI_Fint)handle);
    bool none = *out == (MPI_Comm)0 || (*out == MPI_COMM_NULL && handle != (int)MPI_Comm_c2f(MPI_COMM_NULL));
    if (none) /* (MPI_Comm)0: from Open MPI for a handle that it does not know */
        return error_set(BATON_EINVAL, "no communicator has the Fortran handle %d", handle);
    return 0;
}

int fabric_agree(void *self, const char *step, int local)
{
    struct fabric *f = self;
    return steps_agree(&f->world.steps, step, local);
}

bool fabric_is_lost(const void *self)
{
    const struct fabric *f = self;
    return f->world.steps.is_lost;
}

int fabric_least(void *self, const char *step, const int mine[2], int least[2])
{
    struct fabric *f = self;
    return steps_least(&f->world.steps, step, mine, least);
}

int fabric_meet_init(void *self)
{
    struct fabric *f = self;
    int error = meeting_init(&f->meeting, &f->world.steps);
    f->windows.is_pool_used = true; /* start returns before the meeting */
    for (int r = 0; error == 0 && r < f->world.size; r++)
        meeting_watch(&f->meeting, &f->world.steps, r, windows_process(&f->windows, (uint32_t)r));
    return error;
}

static const char meeting_name[] = "caches that come late";

int fabric_meet(void *self, bool is_here)
{
    struct fabric *f = self;
    return meeting_wait(&f->meeting, &f->world.steps, meeting_name, is_here);
}

void fabric_meet_missing(const void *self, char *text, size_t size)
{
    const struct fabric *f = self;
    meeting_missing(&f->meeting, &f->world.steps, text, size);
}

int fabric_meet_close(void *self, uint64_t until_ns)
{
    struct fabric *f = self;
    return meeting_close(&f->meeting, &f->world.steps, meeting_name, until_ns);
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

static void choose_quirks(struct fabric *f)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(library, &length);
    quirks_choose(&f->quirks, library, f->windows.overlay_name, f->world.settings.rma_gets_per_request);
    if (f->world.settings.rma_put != 0)
        f->quirks.put_is_remote = f->world.settings.rma_put == 1;
}

/* Refused here, before an operation uses the window: it can be freed still. */
static int check_threads(const struct fabric *f)
{
    const struct quirks *q = &f->quirks;
    if (!q->one_thread || f->world.mode == BATON_PROGRESS_CALLER)
        return 0;
    return error_set(BATON_EWINDOW,
                     "the window '%s' of %s is for one thread, a call of MPI by another ends the process: %s; or open "
                     "with BATON_PROGRESS_CALLER and let one thread alone call MPI",
                     f->windows.overlay_name, q->library, quirks_remedy(q->library));
}

static void undo_start(struct fabric *f)
{
    if (f->world.steps.is_lost)
        return;
    rma_fini(&f->rma);
    if (f->control.is_open)
        control_close(&f->control);
    windows_close(&f->windows, &f->world);
}

int fabric_start(void *self, const struct world_segment *wish)
{
    struct fabric *f = self;
    int error = windows_open(&f->windows, &f->world, wish);
    if (error)
        return error;
    choose_quirks(f);
    f->control.outbox.doorbell = &f->ringing.doorbell;
    error = control_open(&f->control, &f->world, &f->windows);
    if (error == 0) {
        int local = check_threads(f);
        if (local == 0)
            local = rma_init(&f->rma, &f->world, &f->windows, &f->quirks);
        if (local == 0)
            local = fabric_find_peers(f);
        error = steps_agree(&f->world.steps, "one-sided operations", local);
    }
    if (error)
        undo_start(f);
    else
        f->is_started = true;
    f->calls.bears_threads = f->world.level >= MPI_THREAD_MULTIPLE && !f->quirks.one_thread;
    return error;
}

int fabric_exchange(void *self, const void *row, uint32_t row_bytes, void *rows)
{
    struct fabric *f = self;
    int error = steps_allgather(&f->world.steps, "directory", row, (int)row_bytes, rows);
    return f->world.steps.is_lost ? error : steps_agree(&f->world.steps, "directory", error);
}

int fabric_doorbell(void *self, void (*rung)(void *arg), void *arg, const char *cpus)
{
    struct fabric *f = self;
    return ringing_open(&f->ringing, &f->world, rung, arg, cpus);
}

bool fabric_is_rung(const void *self)
{
    const struct fabric *f = self;
    return ringing_is_rung(&f->ringing);
}

uint32_t fabric_rings(const void *self)
{
    const struct fabric *f = self;
    return doorbell_heard(&f->ringing.doorbell) + f->ringing.doorbell.rung;
}

void fabric_ring(void *self)
{
    struct fabric *f = self;
    ringing_flush(&f->ringing, &f->world);
}

bool fabric_silence(void *self)
{
    struct fabric *f = self;
    return doorbell_silence(&f->ringing.doorbell);
}

int fabric_expose(void *self, const struct path_regions *mine)
{
    struct fabric *f = self;
    if (mine->num > 0)
        f->windows.mine = *mine;
    const int error = exposure_open(&f->windows.exposure, &f->world, mine);
    f->net.exposes = f->windows.exposure.way != EXPOSURE_NONE;
    return error;
}

int fabric_selftest(void *self, uint64_t offset, uint64_t bytes)
{
    struct fabric *f = self;
    f->windows.spare_offset = offset;
    f->windows.spare_bytes = bytes;
    return selftest_run(&f->world, &f->windows, &f->quirks);
}

/* ---- the reactor's ----------------------------------------------------------------------------------------------- */

int fabric_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct fabric *f = self;
    return control_send(&f->control, peer, message, bytes);
}

int fabric_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct fabric *f = self;
    doorbell_ring(&f->ringing.doorbell, peer, clock_now_ns()); /* over some transports the peer has to help */
    return rma_read(&f->rma, peer, offset, bytes, tag);
}

int fabric_read_word(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct fabric *f = self;
    return rma_read_word(&f->rma, peer, offset, tag);
}

int64_t fabric_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    struct fabric *f = self;
    return rma_move(&f->rma, leg, budget);
}

int fabric_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct fabric *f = self;
    return rma_settle(&f->rma, peer, tag);
}

enum path_park fabric_park(void *self, uint32_t peer, uint64_t tag)
{
    struct fabric *f = self;
    return rma_park(&f->rma, peer, tag);
}

bool fabric_ended(void *self, uint32_t peer)
{
    struct fabric *f = self;
    return rma_ended(&f->rma, peer);
}

void fabric_sync(void *self)
{
    struct fabric *f = self;
    windows_sync(&f->windows);
}

bool fabric_busy(const void *self)
{
    const struct fabric *f = self;
    return rma_busy(&f->rma) > 0 || control_busy(&f->control);
}

struct net_counts fabric_counts(const void *self)
{
    const struct fabric *f = self;
    struct rma_counts rma = rma_counts(&f->rma);
    return (struct net_counts){.messages_bad = count_of(&f->control.bad),
                               .flushes = rma.flushes,
                               .settled = rma.settled,
                               .poisoned = rma.poisonings,
                               .parked = rma.parked};
}

/* Messages and completions take turns at being first, so that neither can fill the room of every call. */
int fabric_progress(void *self, struct port_event *events, int max)
{
    struct fabric *f = self;
    rma_release(&f->rma);
    control_release(&f->control);
    bool messages_first = f->turn++ & 1;
    int n = messages_first ? control_progress(&f->control, events, max) : rma_progress(&f->rma, events, max);
    events += n;
    max -= n;
    return n + (messages_first ? rma_progress(&f->rma, events, max) : control_progress(&f->control, events, max));
}

void fabric_look(void *self)
{
    struct fabric *f = self;
    control_look(&f->control);
    rma_look(&f->rma);
}

bool fabric_has_looked(const void *self)
{
    const struct fabric *f = self;
    return control_has_looked(&f->control) && look_has_ended(&f->rma.look);
}

bool fabric_failed(const void *self)
{
    const struct fabric *f = self;
    return f->control.has_failed || rma_has_failed(&f->rma);
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

int fabric_leave(void *self, bool late)
{
    struct fabric *f = self;
    return steps_leave(&f->world.steps, late);
}

/* Operations that were given up may still be open: windows can be freed only after the last request. */
static int drain_rma(struct fabric *f)
{
    uint64_t deadline = clock_now_ns() + f->world.settings.start_ms * CLOCK_NS_PER_MS;
    for (unsigned polls = 0; rma_open_ops(&f->rma) > 0; polls++) {
        struct port_event dropped[64];
        rma_release(&f->rma);
        rma_progress(&f->rma, dropped, 64);
        if (clock_now_ns() > deadline)
            return error_set(BATON_EPEER, "%" PRIu32 " one-sided operations were still open at closing",
                             rma_open_ops(&f->rma));
        steps_pause(polls);
    }
    return rma_counts(&f->rma).poisonings > 0
               ? error_set(BATON_EPEER, "a one-sided operation failed, and its rank is lost")
               : 0;
}

/*
 * The ranks agree before anything is freed: where one rank cannot go on, no rank waits for it in a collective. The
 * steps of each part are collective, so every rank takes them, whatever its own result is.
 */
static int quiesce(struct fabric *f, int local)
{
    f->world.settings.fail_step = 0; /* fail_step is for steps of start */
    int drained = f->is_started ? drain_rma(f) : 0;
    int error = steps_agree(&f->world.steps, "close: memory at rest", drained != 0 ? drained : local);
    if (error)
        return error;
    return steps_agree(&f->world.steps, "close: messages", f->is_started ? control_drain(&f->control) : 0);
}

/* MPI may still use any of the fabric's memory. */
int fabric_leave_open(void *self, const char *why)
{
    struct fabric *f = self;
    char sentence[STEPS_SENTENCE_BYTES];
    doorbell_silence(&f->ringing.doorbell);
    snprintf(sentence, sizeof sentence, "%s", why); /* `why` may be the sentence that error_set replaces */
    log_line(f->world.log, LOG_INFO, "the context closes without freeing its windows: %s", sentence);
    return error_set(BATON_EPEER, "%s: no window was freed, leave by baton_exit", sentence);
}

void fabric_forget(void *self)
{
    struct fabric *f = self;
    doorbell_forget(&f->ringing.doorbell);
}

int fabric_on_finalize(void *self, void (*hook)(void *arg), void *arg)
{
    struct fabric *f = self;
    return world_on_finalize(&f->world, hook, arg);
}

void fabric_finalize(void *self)
{
    struct fabric *f = self;
    doorbell_silence(&f->ringing.doorbell);
    if (!f->quirks.close_first)
        return;
    if (f->world.mode == BATON_PROGRESS_THREAD) {
        log_line(f->world.log, LOG_ERROR, "MPI_Finalize of this MPI may abort or hang now: call baton_close before it");
        return;
    }
    if (f->windows.overlay == MPI_WIN_NULL)
        return;
    f->world.settings.fail_step = 0; /* fail_step is for steps of start */
    if (steps_agree(&f->world.steps, "MPI_Finalize: one-sided operations", drain_rma(f)) == 0)
        windows_close_overlay(&f->windows, &f->world);
    else
        log_line(f->world.log, LOG_ERROR, "MPI_Finalize of this MPI may abort or hang now: %s", baton_errmsg());
}

void fabric_hurry(void *self, uint64_t left_ms)
{
    struct fabric *f = self;
    uint64_t limit_ms = left_ms > 1000 ? left_ms : 1000;
    if (f->world.settings.start_ms > limit_ms)
        f->world.settings.start_ms = limit_ms;
}

int fabric_close(void *self, int local)
{
    struct fabric *f = self;
    if (quiesce(f, local) != 0)
        return fabric_leave_open(f, baton_errmsg());
    if (f->is_started && f->quirks.keeps_window)
        return fabric_leave_open(f, "MPI_Win_free may hang with this MPI");
    doorbell_close(&f->ringing.doorbell);
    if (f->is_started) {
        rma_fini(&f->rma);
        control_close(&f->control);
        windows_close(&f->windows, &f->world);
    }
    meeting_fini(&f->meeting, &f->world.steps);
    world_close(&f->world);
    free(f->peers);
    free(f);
    return 0;
}

/* ---- description ------------------------------------------------------------------------------------------------- */

static const char *component(const struct fabric *f, const char *name)
{
    if (name[0] != '\0')
        return name;
    bool is_open_mpi = strncmp(f->quirks.library, "Open MPI", strlen("Open MPI")) == 0;
    return is_open_mpi ? "sm" : "not named by this MPI"; /* sm alone gives its windows no name in Open MPI */
}

static void describe_segments(const struct fabric *f, struct page *p)
{
    const struct windows *v = &f->windows;
    page_print(p, "window on the node: %s, %d ranks, segment %.1f MiB at %p, pool %.1f MiB at +%" PRIu64 "\n",
               component(f, v->shared_name), f->world.node_size, (double)v->segment_bytes / (1 << 20),
               (void *)v->segment, (double)v->pool_bytes / (1 << 20), v->pool_offset);
    if (v->has_huge)
        page_print(p, "memory pages: huge\n");
    else
        page_print(p, "memory pages: those that the system chooses: %s\n", v->why_small);
}

static void describe_far_windows(const struct fabric *f, struct page *p)
{
    const struct windows *v = &f->windows;
    if (v->overlay == MPI_WIN_NULL)
        page_print(p, "window over nodes: none, there is one node\n");
    else
        page_print(p, "window over nodes: %s\n", component(f, v->overlay_name));
    if (v->exposure.way == EXPOSURE_SPAN)
        page_print(p, "windows over engines' memory: one, from the first region to the last\n");
    if (v->exposure.way == EXPOSURE_NONE && v->exposure.why[0] != '\0')
        page_print(p, "windows over engines' memory: none: %s\n", v->exposure.why);
    if (v->exposure.way == EXPOSURE_EACH)
        page_print(p, "windows over engines' memory: %d, one a region: %s\n", v->exposure.num, v->exposure.why);
}

static void describe_quirks(const struct fabric *f, struct page *p)
{
    const struct quirks *q = &f->quirks;
    page_print(p, "mpi: %s\n", q->library);
    if (q->close_first)
        page_print(p, "quirks: MPI_Finalize may abort or hang unless baton_close came before it\n");
    if (f->windows.overlay == MPI_WIN_NULL)
        return;
    page_print(p,
               "quirks: %" PRIu32 " gets or %" PRIu32 " puts a request%s; put completion %s; flush within %" PRIu64
               " operations (%s)\n",
               q->gets_per_request, q->puts_per_request, q->is_forced ? " (BATON_TUNE=rma_gets_per_request)" : "",
               q->put_is_remote ? "is remote" : "is local", q->flush_within, q->why);
    if (q->one_thread)
        page_print(p, "quirks: only the thread that opened the context may call MPI\n");
    if (q->keeps_window)
        page_print(
            p, "quirks: the window over nodes is never freed; closing ends with BATON_EPEER, leave by baton_exit\n");
    page_print(p,
               "rma: %" PRIu64 " requests, %" PRIu64 " a peer, runs of %" PRIu64
               " bytes; short ones moved together by %" PRIu32 " requests at most; %d may be parked\n",
               f->world.settings.rma_requests, f->world.settings.rma_peer_requests, f->world.settings.rma_run_bytes,
               f->rma.sieves.max, RMA_PARKED);
}

void fabric_describe(const void *self, struct page *p)
{
    const struct fabric *f = self;
    const struct world *w = &f->world;
    page_print(p, "world: rank %d of %d, node %" PRIu32 " of %" PRIu32 "%s, %s\n", w->rank, w->size,
               w->node_of[w->rank], w->nodes, w->settings.fake_nodes ? " (pretended: BATON_FAKE_NODES)" : "",
               w->mode == BATON_PROGRESS_THREAD ? "progress by a thread" : "progress by the caller");
    if (f->is_started)
        describe_segments(f, p);
}

void fabric_describe_net(const void *self, struct page *p)
{
    const struct fabric *f = self;
    describe_far_windows(f, p);
    describe_quirks(f, p);
    ringing_describe(&f->ringing, &f->world, p);
    page_print(p, "control: %d receives, %d places of messages and one a rank, at most %d a peer, %u credits\n",
               INBOX_RECEIVES, SLOTS_MAX, SLOTS_OF_PEER, ENVELOPE_CREDITS);
}
