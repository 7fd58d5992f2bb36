/* SPDX-License-Identifier: BSD-3-Clause */
/* shm: see shm.h. */
#include "shm/shm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/look.h"
#include "observe/log.h"
#include "observe/timeline.h"

#define JOBS_MOST 256                       /* handed to the workers and not yet collected */
#define INLINE_A_TURN (UINT64_C(256) << 10) /* bytes of several short copies in one turn */
#define SLOW_NS (200 * CLOCK_NS_PER_US)     /* an attach of inline_bytes takes 20 to 60 us; longer: it had to wait */
#define SLOW_FOR_NS CLOCK_NS_PER_S

/* An answer that is known at once. Who asked takes it, or it is told at the next progress. */
struct answer {
    struct answer *prev, *next;
    struct port_event event;
    uint8_t data[]; /* event.bytes of them */
};

/* Copies under way for one leg. */
struct copying {
    uint64_t tag;
    UT_hash_handle hh;
    uint32_t jobs, peer;
    bool parked, write;
    uint64_t board; /* the place of the peer's generation word, to be read behind the last job; 0: it is not */
};

struct neighbour {
    struct shm_segment segment;
    struct shm_memory memory;
    uint64_t slow_ns; /* until then its memory is reached by workers alone: the last attach here took long */
};

struct shm {
    const struct vicinity *vicinity;
    const struct logger *log;
    struct copy_pool *workers;
    struct copying *copying;
    uint64_t inline_bytes, inlined; /* inlined: since the last progress */
    uint64_t queued, queued_most;   /* bytes that copy workers have or that wait for them, also of what was given up */
    struct answer *answers, *told;  /* told: handed out, freed at the next progress */
    struct answer *taken;           /* the last one that who asked took: its data stay until the next call */
    struct looking look_ends, look_answers; /* at ends of copies, and at answers */
    bool answers_first;                     /* in the last progress */
    struct neighbour neighbours[];          /* by spot */
};

static struct neighbour *neighbour_of(struct shm *s, uint32_t rank)
{
    return &s->neighbours[s->vicinity->spot_of[rank]];
}

static const struct shm_memory *my_memory(struct shm *s)
{
    return &neighbour_of(s, s->vicinity->self)->memory;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static struct answer *answer_add(struct shm *s, enum port_event_kind kind, uint64_t tag, uint32_t bytes)
{
    struct answer *a = spare_calloc(sizeof *a + bytes);
    if (a == NULL)
        return NULL;
    a->event = (struct port_event){.kind = kind, .tag = tag, .data = a->data, .bytes = bytes};
    DL_APPEND(s->answers, a);
    return a;
}

/* NULL is ignored. */
static void answer_free(struct answer *a)
{
    if (a != NULL)
        spare_free(a, sizeof *a + a->event.bytes);
}

static void answers_drop(struct shm *s, uint64_t tag)
{
    struct answer *a, *next;
    DL_FOREACH_SAFE(s->answers, a, next)
    {
        if (a->event.tag == tag) {
            DL_DELETE(s->answers, a);
            answer_free(a);
        }
    }
}

static void answers_free(struct answer **list)
{
    struct answer *a, *next;
    DL_FOREACH_SAFE(*list, a, next)
    {
        DL_DELETE(*list, a);
        answer_free(a);
    }
}

/* ---- generations ------------------------------------------------------------------------------------------------- */

static bool holds_word(const struct shm_segment *segment, uint64_t offset)
{
    return offset <= segment->bytes && segment->bytes - offset >= 8 && offset % 8 == 0;
}

/* copy_collect acquired the workers' last stores and loads; the full fence keeps what follows behind them. */
static uint64_t read_word(const struct shm_segment *segment, uint64_t offset)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit((const _Atomic uint64_t *)(const void *)(segment->mapped + offset),
                                memory_order_acquire);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static struct copying *copying_of(struct shm *s, uint64_t tag)
{
    struct copying *c;
    HASH_FIND(hh, s->copying, &tag, sizeof tag, c);
    return c;
}

static struct copying *copying_add(struct shm *s, const struct path_leg *leg)
{
    struct copying *c = spare_calloc(sizeof *c);
    if (c == NULL)
        return NULL;
    c->tag = leg->tag;
    c->peer = leg->peer;
    c->write = leg->write;
    HASH_ADD(hh, s->copying, tag, sizeof c->tag, c);
    if (c->hh.tbl == NULL) {
        spare_free(c, sizeof *c);
        return NULL;
    }
    return c;
}

static void copying_remove(struct shm *s, struct copying *c)
{
    HASH_DEL(s->copying, c);
    spare_free(c, sizeof *c);
}

static void trace(const struct shm *s, const struct copy_end *end, const char *what)
{
    if (s->log->timeline != NULL)
        timeline_add(s->log->timeline, &(struct timeline_record){.kind = TIMELINE_COPY,
                                                                 .ns = end->began_ns,
                                                                 .until_ns = end->ended_ns,
                                                                 .id = end->tag,
                                                                 .what = end->worker,
                                                                 .name = what,
                                                                 .bytes = end->bytes});
}

/* Whether another process's memory could not be reached, and why, is the operator's to know. */
static void log_failure(struct shm *s, const struct copy_end *end, uint32_t peer, bool write)
{
    if (end->error == BATON_ESYSTEM)
        log_line(s->log, LOG_ERROR, "cross-memory attach %s rank %u failed: %s: is the memory of one side gone?",
                 write ? "to" : "from", peer, strerror(end->cause));
    if (end->error == BATON_EPEER && process_is(&neighbour_of(s, peer)->segment.process) == PROCESS_ALIVE)
        log_line(s->log, LOG_ERROR, "rank %u has become another program (execve): its memory is reached no more", peer);
}

static baton_path_t path_of(const struct copy_end *end)
{
    return end->is_attached ? BATON_PATH_CMA : BATON_PATH_SHM;
}

/* True: the event is to be told. */
static bool job_ended(struct shm *s, const struct copy_end *end, struct port_event *event)
{
    struct copying *c = copying_of(s, end->tag);
    trace(s, end, c != NULL ? "copy" : "hash or zero");
    if (c == NULL) { /* hashes or zeros: no bytes are counted */
        *event = (struct port_event){.kind = PORT_WORKED, .tag = end->tag, .error = end->error};
        return true;
    }
    bool parked = c->parked, last = --c->jobs == 0;
    uint64_t generation = 0;
    if (last && !parked && end->error == 0 && c->board != 0)
        generation = read_word(&neighbour_of(s, c->peer)->segment, c->board);
    s->queued -= end->bytes;
    log_failure(s, end, c->peer, c->write);
    if (last)
        copying_remove(s, c);
    *event = (struct port_event){.kind = parked ? PORT_QUIET : PORT_MOVED,
                                 .tag = end->tag,
                                 .path = path_of(end),
                                 .moved = end->bytes,
                                 .generation = generation,
                                 .error = parked ? 0 : end->error};
    return !parked || last;
}

static bool collect(struct shm *s, struct port_event *event)
{
    struct copy_end end;
    while (copy_collect(s->workers, &end))
        if (job_ended(s, &end, event))
            return true;
    return false;
}

/* ---- the path ---------------------------------------------------------------------------------------------------- */

static int shm_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct shm *s = self;
    const struct shm_segment *segment = &neighbour_of(s, peer)->segment;
    if (offset > segment->bytes || bytes > segment->bytes - offset)
        return BATON_EMESSAGE;
    struct answer *a = answer_add(s, PORT_READ, tag, bytes);
    if (a == NULL)
        return BATON_EAGAIN;
    /* The message that named this place was sent after its bytes were stored; this orders our loads behind it. */
    atomic_thread_fence(memory_order_acquire);
    memcpy(a->data, segment->mapped + offset, bytes);
    return 0;
}

static int shm_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct shm *s = self;
    const struct shm_segment *segment = &neighbour_of(s, peer)->segment;
    if (!holds_word(segment, offset))
        return BATON_EMESSAGE;
    struct answer *a = answer_add(s, PORT_BOARD, tag, 0);
    if (a == NULL)
        return BATON_EAGAIN;
    a->event.generation = read_word(segment, offset);
    return 0;
}

/*
 * A worker sleeps, and takes 20 to 30 us to wake; a short copy takes less. One that would overtake others of its turn
 * waits for a worker too, so that small transfers do not keep the reactor from its messages. Cross-memory attach waits
 * while the other process changes its mappings (a fork, a large munmap): a peer that took long is left to workers for a
 * while.
 */
static bool is_for_reactor(struct shm *s, const struct path_leg *leg, const struct copy_job *job)
{
    const uint64_t slow_ns = neighbour_of(s, leg->peer)->slow_ns;
    if (job->attached != NULL && slow_ns != 0 && clock_now_ns() < slow_ns)
        return false;
    const uint64_t most = s->inline_bytes < INLINE_A_TURN ? s->inline_bytes : INLINE_A_TURN;
    return job->bytes <= s->inline_bytes && s->queued == 0 && (s->inlined == 0 || s->inlined + job->bytes <= most);
}

/* False: no memory, and nothing was copied. Workers have nothing of the leg. */
static bool copy_here(struct shm *s, const struct path_leg *leg, uint64_t board, const struct copy_job *job)
{
    struct answer *a = answer_add(s, PORT_MOVED, job->tag, 0);
    if (a == NULL)
        return false;
    const struct copy_end end = copy_now(job);
    a->event.moved = end.bytes;
    a->event.error = end.error;
    a->event.path = path_of(&end);
    a->event.at_ns = job->is_timed ? end.ended_ns : clock_now_ns();
    if (job->attached != NULL && end.ended_ns - end.began_ns > SLOW_NS)
        neighbour_of(s, leg->peer)->slow_ns = end.ended_ns + SLOW_FOR_NS;
    if (board != 0 && end.error == 0)
        a->event.generation = read_word(&neighbour_of(s, leg->peer)->segment, board);
    trace(s, &end, "copy");
    log_failure(s, &end, leg->peer, leg->write);
    s->inlined += end.bytes;
    return true;
}

/* Hands it to a worker. False: there is no room for it. */
static bool copy_there(struct shm *s, const struct path_leg *leg, uint64_t board, const struct copy_job *job)
{
    struct copying *c = copying_of(s, leg->tag);
    if (c == NULL)
        c = copying_add(s, leg);
    if (c == NULL)
        return false;
    if (!copy_submit(s->workers, job)) {
        if (c->jobs == 0)
            copying_remove(s, c);
        return false;
    }
    c->jobs++;
    c->board = board;
    s->queued += job->bytes;
    return true;
}

static int64_t move(struct shm *s, const struct path_leg *leg, uint64_t budget, bool is_attached)
{
    struct neighbour *peer = neighbour_of(s, leg->peer);
    const struct shm_memory *own = my_memory(s), *theirs = &peer->memory;
    const struct copy_side mine = {own->read, own->regions},
                           other = {leg->write ? theirs->write : theirs->read, theirs->regions};
    if (mine.bases == NULL || other.bases == NULL)
        return BATON_ENOSYS;
    if (s->queued >= s->queued_most)
        return BATON_EAGAIN;
    struct plan_cursor behind = *leg->cursor;
    struct copy_job job = {.transfer = leg->transfer,
                           .from = *leg->cursor,
                           .bytes = plan_skip(leg->transfer, &behind, budget),
                           .src = leg->write ? mine : other,
                           .dst = leg->write ? other : mine,
                           .attached = is_attached ? &peer->segment.process : NULL,
                           .proof = !is_attached && theirs->is_engines ? &peer->segment.process : NULL,
                           .write = leg->write,
                           .more = !plan_at_end(leg->transfer, &behind),
                           .is_timed = s->log->timeline != NULL || is_attached,
                           .tag = leg->tag};
    const uint64_t board = !job.more && holds_word(&peer->segment, leg->board) ? leg->board : 0;
    if (!(is_for_reactor(s, leg, &job) ? copy_here(s, leg, board, &job) : copy_there(s, leg, board, &job)))
        return BATON_EAGAIN;
    *leg->cursor = behind;
    return (int64_t)job.bytes;
}

static int64_t shm_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    return move(self, leg, budget, false);
}

static int64_t attach_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    return move(self, leg, budget, true);
}

static int shm_settle(void *self, uint32_t peer, uint64_t tag)
{
    (void)peer;
    /* copy_collect acquired the workers' last stores, which they fenced: messages sent from now on come after them. */
    atomic_thread_fence(memory_order_seq_cst);
    return answer_add(self, PORT_SETTLED, tag, 0) != NULL ? 0 : BATON_EAGAIN;
}

/* What was asked last is the last answer. */
static bool shm_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    struct shm *s = self;
    struct answer *a = s->answers != NULL ? s->answers->prev : NULL;
    (void)peer;
    if (a == NULL || a->event.tag != tag)
        return false;
    DL_DELETE(s->answers, a);
    answer_free(s->taken);
    s->taken = a;
    *event = a->event;
    return true;
}

static enum path_park shm_park(void *self, uint32_t peer, uint64_t tag)
{
    struct shm *s = self;
    (void)peer;
    answers_drop(s, tag);
    struct copying *c = copying_of(s, tag);
    if (c == NULL)
        return PATH_PARK_QUIET;
    c->parked = true;
    return PATH_PARK_LATER;
}

/* A process of this node that is gone stores nothing any more: all its stores came before its end. */
static bool shm_ended(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return true;
}

static int tell_ends(struct shm *s, struct port_event *events, int max)
{
    int n = 0;
    while (n < max && collect(s, &events[n]))
        n++;
    look_take(&s->look_ends, (uint64_t)n, n < max);
    return n;
}

static int tell_answers(struct shm *s, struct port_event *events, int max)
{
    int n = 0;
    while (n < max && s->answers != NULL) {
        struct answer *a = s->answers;
        DL_DELETE(s->answers, a);
        DL_APPEND(s->told, a);
        events[n++] = a->event;
    }
    look_take(&s->look_answers, (uint64_t)n, s->answers == NULL);
    return n;
}

/* They take turns at being first, so that neither can fill the room of every call. */
static int shm_progress(void *self, struct port_event *events, int max)
{
    struct shm *s = self;
    s->inlined = 0;
    answers_free(&s->told);
    s->answers_first = !s->answers_first;
    int n = s->answers_first ? tell_answers(s, events, max) : tell_ends(s, events, max);
    events += n;
    max -= n;
    return n + (s->answers_first ? tell_ends(s, events, max) : tell_answers(s, events, max));
}

static void shm_look(void *self)
{
    struct shm *s = self;
    const struct answer *a;
    uint64_t answers;
    DL_COUNT(s->answers, a, answers);
    look_begin(&s->look_answers, answers);
    look_begin(&s->look_ends, JOBS_MOST);
}

static bool shm_has_looked(const void *self)
{
    const struct shm *s = self;
    return look_has_ended(&s->look_answers) && look_has_ended(&s->look_ends);
}

/* Workers ring the bell; nobody does for an answer. */
static bool shm_busy(const void *self)
{
    const struct shm *s = self;
    return s->answers != NULL;
}

static int attach_progress(void *self, struct port_event *events, int max)
{
    (void)self, (void)events, (void)max;
    return 0; /* shm_progress tells */
}

static int shm_close(void *self)
{
    struct shm *s = self;
    if (s->workers != NULL)
        copy_pool_destroy(s->workers);
    struct copying *c, *next;
    HASH_ITER(hh, s->copying, c, next)
    {
        copying_remove(s, c);
    }
    answers_free(&s->answers);
    answers_free(&s->told);
    answer_free(s->taken);
    for (uint32_t i = 0; i <= s->vicinity->most; i++)
        process_forget(&s->neighbours[i].segment.process);
    free(s);
    return 0;
}

void shm_path(struct shm *s, struct path *out)
{
    *out = (struct path){.self = s,
                         .read = shm_read,
                         .board = shm_board,
                         .move = shm_move,
                         .settle = shm_settle,
                         .answer = shm_answer,
                         .park = shm_park,
                         .ended = shm_ended,
                         .progress = shm_progress,
                         .look = shm_look,
                         .has_looked = shm_has_looked,
                         .busy = shm_busy,
                         .close = shm_close,
                         .kind = BATON_PATH_SHM,
                         .name = "shm"};
}

void shm_attach_path(struct shm *s, struct path *out)
{
    shm_path(s, out);
    out->move = attach_move;
    out->progress = attach_progress;
    out->look = NULL;
    out->has_looked = NULL;
    out->close = NULL;
    out->kind = BATON_PATH_CMA;
    out->name = "cma";
}

/* ---- my own cache ------------------------------------------------------------------------------------------------ */

int shm_sum(struct shm *s, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
            uint64_t *out, uint64_t tag)
{
    char *const *bases = my_memory(s)->read;
    struct copy_job job = {.transfer = transfer,
                           .src.bases = source ? bases : NULL,
                           .dst.bases = source ? NULL : bases,
                           .tag = tag,
                           .sums = out,
                           .first = first,
                           .count = count,
                           .is_timed = s->log->timeline != NULL};
    return copy_submit(s->workers, &job) ? 0 : BATON_EAGAIN;
}

int shm_zero(struct shm *s, const struct plan_transfer *transfer, uint64_t tag)
{
    struct copy_job job = {.transfer = transfer,
                           .dst.bases = my_memory(s)->read,
                           .tag = tag,
                           .zero = true,
                           .is_timed = s->log->timeline != NULL};
    return copy_submit(s->workers, &job) ? 0 : BATON_EAGAIN;
}

void shm_wake(struct shm *s)
{
    copy_wake(s->workers);
}

bool shm_ask(struct shm *s)
{
    return copy_ask(s->workers);
}

bool shm_help(struct shm *s)
{
    return copy_help(s->workers);
}

void shm_worker_cpus(const struct shm *s, char *list, size_t size)
{
    copy_pool_cpus(s->workers, list, size);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

enum port_alive shm_alive(struct shm *s, uint32_t peer)
{
    switch (process_alive(&neighbour_of(s, peer)->segment.process)) {
    case PROCESS_ALIVE:
        return PORT_ALIVE;
    case PROCESS_DEAD:
        return PORT_DEAD;
    default:
        return PORT_UNKNOWN;
    }
}

static void forget(struct process process)
{
    process_forget(&process);
}

int shm_create(const struct shm_wish *wish, struct shm **out)
{
    const uint32_t num = wish->vicinity->most + 1;
    struct shm *s = calloc(1, sizeof *s + num * sizeof s->neighbours[0]);
    if (s == NULL) {
        for (uint32_t i = 0; i < num; i++)
            forget(wish->segments[i].process);
        return BATON_ENOMEM;
    }
    s->vicinity = wish->vicinity;
    s->log = wish->log;
    s->queued_most = wish->workers * wish->worker_bytes;
    s->inline_bytes = wish->inline_bytes;
    for (uint32_t i = 0; i < num; i++)
        s->neighbours[i] = (struct neighbour){.segment = wish->segments[i], .memory = wish->memory[i]};
    int rc = copy_pool_create((unsigned)wish->workers, wish->cpus, JOBS_MOST, wish->look, wish->arg, &s->workers);
    if (rc != 0) {
        shm_close(s);
        return rc;
    }
    *out = s;
    return 0;
}
