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
#include "base/deadline.h"
#include "base/error.h"
#include "base/textbuf.h"
#include "mpi/selftest.h"

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static int fabric_agree(void *self, const char *step, int local)
{
    struct fabric *f = self;
    return steps_agree(&f->world.steps, step, local);
}

static bool fabric_is_lost(const void *self)
{
    const struct fabric *f = self;
    return f->world.steps.is_lost;
}

static int fabric_least(void *self, const char *step, const int mine[2], int least[2])
{
    struct fabric *f = self;
    return steps_least(&f->world.steps, step, mine, least);
}

static int fabric_meet_init(void *self)
{
    struct fabric *f = self;
    int error = meeting_init(&f->meeting, &f->world.steps);
    f->windows.is_pool_used = true; /* start returns before the meeting */
    for (int r = 0; error == 0 && r < f->world.size; r++)
        meeting_watch(&f->meeting, &f->world.steps, r, windows_process(&f->windows, (uint32_t)r));
    return error;
}

static const char meeting_name[] = "caches that come late";

static int fabric_meet(void *self, bool is_here)
{
    struct fabric *f = self;
    return meeting_wait(&f->meeting, &f->world.steps, meeting_name, is_here);
}

static void fabric_meet_missing(const void *self, char *text, size_t size)
{
    const struct fabric *f = self;
    meeting_missing(&f->meeting, &f->world.steps, text, size);
}

static int fabric_meet_close(void *self, uint64_t until_ns)
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

/* What is known of segments, for the ground. */
static int find_peers(struct fabric *f)
{
    const struct world *w = &f->world;
    uint32_t place = 0;
    f->peers = calloc((size_t)w->size, sizeof *f->peers);
    if (f->peers == NULL)
        return error_set(BATON_ENOMEM, "no memory for the table of %d ranks", w->size);
    for (uint32_t r = 0; r < (uint32_t)w->size; r++) {
        const struct windows_segment *s = &f->windows.segments[r];
        if (s->mapped != NULL)
            f->peers[r] = (struct ground_peer){s->mapped, s->bytes, windows_process(&f->windows, r), place++};
    }
    f->ground.peers = f->peers;
    f->ground.segment = f->windows.segment;
    f->ground.pool_offset = f->windows.pool_offset;
    return 0;
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

static int fabric_start(void *self, const struct world_segment *wish)
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
            local = find_peers(f);
        error = steps_agree(&f->world.steps, "one-sided operations", local);
    }
    if (error)
        undo_start(f);
    else
        f->is_started = true;
    f->calls.bears_threads = f->world.level >= MPI_THREAD_MULTIPLE && !f->quirks.one_thread;
    return error;
}

static int fabric_exchange(void *self, const void *row, uint32_t row_bytes, void *rows)
{
    struct fabric *f = self;
    int error = steps_allgather(&f->world.steps, "directory", row, (int)row_bytes, rows);
    return f->world.steps.is_lost ? error : steps_agree(&f->world.steps, "directory", error);
}

static int fabric_doorbell(void *self, void (*rung)(void *arg), void *arg, const char *cpus)
{
    struct fabric *f = self;
    return ringing_open(&f->ringing, &f->world, rung, arg, cpus);
}

static bool fabric_silence(void *self)
{
    struct fabric *f = self;
    return doorbell_silence(&f->ringing.doorbell);
}

static int fabric_expose(void *self, const struct path_regions *mine)
{
    struct fabric *f = self;
    if (mine->num > 0)
        f->windows.mine = *mine;
    const int error = exposure_open(&f->windows.exposure, &f->world, mine);
    f->net.exposes = f->windows.exposure.way != EXPOSURE_NONE;
    return error;
}

static int fabric_selftest(void *self, uint64_t offset, uint64_t bytes)
{
    struct fabric *f = self;
    f->windows.spare_offset = offset;
    f->windows.spare_bytes = bytes;
    return selftest_run(&f->world, &f->windows, &f->quirks);
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static int fabric_leave(void *self, bool late)
{
    struct fabric *f = self;
    return steps_leave(&f->world.steps, late);
}

/* Operations that were given up may still be open: windows can be freed only after the last request. */
static int drain_rma(struct fabric *f)
{
    struct deadline deadline = deadline_in(clock_now_ns(), f->world.settings.start_ms);
    for (unsigned polls = 0; rma_open_ops(&f->rma) > 0; polls++) {
        struct port_event dropped[64];
        rma_progress(&f->rma, dropped, 64);
        if (deadline_is_past(&deadline, clock_now_ns()))
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
static int fabric_leave_open(void *self, const char *why)
{
    struct fabric *f = self;
    char sentence[STEPS_SENTENCE_BYTES];
    doorbell_silence(&f->ringing.doorbell);
    snprintf(sentence, sizeof sentence, "%s", why); /* `why` may be the sentence that error_set replaces */
    log_line(f->world.log, LOG_INFO, "the context closes without freeing its windows: %s", sentence);
    return error_set(BATON_EPEER, "%s: no window was freed, leave by baton_exit", sentence);
}

static int fabric_on_finalize(void *self, void (*hook)(void *arg), void *arg)
{
    struct fabric *f = self;
    return world_on_finalize(&f->world, hook, arg);
}

static void fabric_finalize(void *self)
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

static void fabric_hurry(void *self, uint64_t left_ms)
{
    struct fabric *f = self;
    uint64_t limit_ms = left_ms > 1000 ? left_ms : 1000;
    if (f->world.settings.start_ms > limit_ms)
        f->world.settings.start_ms = limit_ms;
}

static int fabric_close(void *self, int local)
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

const char *fabric_component(const struct fabric *f, const char *name)
{
    if (name[0] != '\0')
        return name;
    bool is_open_mpi = strncmp(f->quirks.library, "Open MPI", strlen("Open MPI")) == 0;
    return is_open_mpi ? "sm" : "not named by this MPI"; /* sm alone gives its windows no name in Open MPI */
}

static void describe_segments(const struct fabric *f, struct textbuf *p)
{
    const struct windows *v = &f->windows;
    textbuf_print(p, "window on the node: %s, %d ranks, segment %.1f MiB at %p, pool %.1f MiB at +%" PRIu64 "\n",
                  fabric_component(f, v->shared_name), f->world.node_size, (double)v->segment_bytes / (1 << 20),
                  (void *)v->segment, (double)v->pool_bytes / (1 << 20), v->pool_offset);
    if (v->has_huge)
        textbuf_print(p, "memory pages: huge\n");
    else
        textbuf_print(p, "memory pages: those that the system chooses: %s\n", v->why_small);
}

static void fabric_describe(const void *self, struct textbuf *p)
{
    const struct fabric *f = self;
    const struct world *w = &f->world;
    textbuf_print(p, "world: rank %d of %d, node %" PRIu32 " of %" PRIu32 "%s, %s\n", w->rank, w->size,
                  w->node_of[w->rank], w->nodes, w->settings.fake_nodes ? " (pretended: BATON_FAKE_NODES)" : "",
                  w->mode == BATON_PROGRESS_THREAD ? "progress by a thread" : "progress by the caller");
    if (f->is_started)
        describe_segments(f, p);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void fill(struct fabric *f)
{
    f->ground = (struct ground){
        .self = (uint32_t)f->world.rank, .num_peers = (uint32_t)f->world.size, .places = (uint32_t)f->world.node_size};
    f->calls = (struct world_calls){.self = f,
                                    .node = f->world.node_of[f->world.rank],
                                    .agree = fabric_agree,
                                    .least = fabric_least,
                                    .exchange = fabric_exchange,
                                    .is_lost = fabric_is_lost,
                                    .start = fabric_start,
                                    .expose = fabric_expose,
                                    .doorbell = fabric_doorbell,
                                    .selftest = fabric_selftest,
                                    .meet_init = fabric_meet_init,
                                    .meet = fabric_meet,
                                    .meet_missing = fabric_meet_missing,
                                    .meet_close = fabric_meet_close,
                                    .leave = fabric_leave,
                                    .silence = fabric_silence,
                                    .hurry = fabric_hurry,
                                    .on_finalize = fabric_on_finalize,
                                    .finalize = fabric_finalize,
                                    .close = fabric_close,
                                    .leave_open = fabric_leave_open,
                                    .describe = fabric_describe};
}

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
    fill(f);
    fabric_fill_net(f);
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
