/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * workers: the threads that copy. Whoever makes turns hands over jobs through two queues, one of them for short jobs,
 * and takes completions from a third. Job slots come from a fixed array, so nothing is allocated on the way.
 *
 * Short jobs overtake long ones, so that a small transfer waits for at most the job that is being copied. After
 * SHORTS_IN_A_ROW of them the worker takes a long one, so that short jobs never stop long ones.
 *
 * A long copy is cut into slices while it is made: where a thread waits for it and helps (copy_help), the worker takes
 * half of those that are left at a time, and that thread one after the other. Else the worker takes all. Who does the
 * last slice ends the job. A slice is claimed by a compare-exchange of a word of the slot, which counts the slot's
 * rounds too: so a claim that succeeds is of the job that stands there, and that job stays until the slice is done.
 *
 * A worker with nothing to do spins for a moment, since transfers and their chunks follow each other closely. Then it
 * sleeps. To wake it takes a system call, so that is done once for all jobs of a turn.
 *
 * A worker wakes whoever makes turns only when there is something to do: after the last job of a leg, after an error,
 * and when few jobs wait, so that more come before it runs out of them. Where CPUs are few, a reactor that wakes takes
 * the CPU of a thread that copies.
 */
#include "shm/copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/mpmc.h"
#include "base/process.h"
#include "base/thread.h"

#define SPIN_NS (20 * CLOCK_NS_PER_US)
#define SLEEP_NS (UINT64_C(1000) * CLOCK_NS_PER_MS)
#define SHORTS_IN_A_ROW 8
#define SLICE_BYTES (UINT64_C(128) << 10) /* at least; 8 us, or by cross-memory attach 30 */
#define SLICES_MOST UINT64_C(0xffff)

enum length { SHORT, LONG, LENGTHS };

/*
 * A job and what became of it. `slices` has, from the top, 32 bits of the slot's round, 16 of how many slices there are
 * and 16 of how many are taken. `failure` is the first of a slice: the error's number above 32 bits of its cause.
 */
struct slot {
    struct copy_job job;
    struct copy_end end;
    uint64_t slice_bytes;
    _Atomic uint64_t slices, failure;
    _Atomic uint32_t undone; /* slices */
};

struct copy_pool {
    struct slot *slots;
    struct mpmc *idle;                 /* free slots; for whoever makes turns */
    struct mpmc *todo[LENGTHS], *done; /* to the workers, and back */
    struct bell work;                  /* rung when todo has got jobs, or at the end */
    bool is_owed;                      /* todo got jobs since the last ring; for whoever makes turns */
    _Atomic uint32_t waiting;          /* jobs in todo */
    uint32_t few;                      /* at most so many waiting jobs are few: one a worker */
    _Atomic bool stop;
    _Atomic bool is_asked;    /* a worker is to look for work */
    _Atomic bool is_awaited;  /* since the last job began a thread has offered its help */
    _Atomic uint32_t busy;    /* workers that have a job */
    _Atomic uint32_t numbers; /* of workers, given out so far */
    copy_done_fn *look;
    void *arg;
    unsigned num_threads;
    pthread_t *threads;
    struct slot *_Atomic *at_work; /* by worker: the job that it had last; NULL: it has had none */
};

/*
 * A file that is mapped here may be another program's: of the one that the process runs by now, which had its
 * descriptor, or of one that was started in its place. The fence keeps the copy before the question.
 */
static bool is_proved(const struct copy_job *job)
{
    if (job->proof == NULL)
        return true;
    atomic_thread_fence(memory_order_seq_cst);
    return process_program(job->proof) != PROCESS_DEAD;
}

static int run_job(const struct copy_job *job)
{
    const struct copy_side *src = &job->src, *dst = &job->dst;
    if (job->sums != NULL) {
        bool source = src->bases != NULL;
        copy_sums(job->transfer, source, source ? src->bases : dst->bases, job->first, job->count, job->sums);
        return 0;
    }
    if (job->zero) {
        copy_zeros(job->transfer, dst->bases);
        return 0;
    }
    if (job->attached != NULL)
        return attach_slice(job->attached, job->write, job->transfer, job->from, job->bytes, job->write ? src : dst,
                            job->write ? dst : src);
    if (job->write && !is_proved(job))
        return BATON_EPEER;
    const int rc = copy_slice(job->transfer, job->from, job->bytes, src, dst);
    return rc == 0 && !is_proved(job) ? BATON_EPEER : rc;
}

struct copy_end copy_now(const struct copy_job *job)
{
    uint64_t began = job->is_timed ? clock_now_ns() : 0;
    int error = run_job(job), cause = errno;
    return (struct copy_end){.tag = job->tag,
                             .bytes = job->bytes,
                             .error = error,
                             .is_attached = job->attached != NULL,
                             .cause = cause,
                             .began_ns = began,
                             .ended_ns = job->is_timed ? clock_now_ns() : 0};
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static bool is_copy(const struct copy_job *job)
{
    return job->sums == NULL && !job->zero;
}

/* A job begins. The release publishes it to whoever claims a slice. */
static void slot_begin(struct slot *s)
{
    const uint64_t bytes = s->job.bytes, round = (atomic_load_explicit(&s->slices, memory_order_relaxed) >> 32) + 1;
    const uint64_t least = bytes / SLICES_MOST + 64;
    s->slice_bytes = !is_copy(&s->job) ? bytes : least > SLICE_BYTES ? least : SLICE_BYTES;
    const uint64_t count = bytes > s->slice_bytes ? (bytes + s->slice_bytes - 1) / s->slice_bytes : 1;
    s->end.began_ns = s->job.is_timed ? clock_now_ns() : 0;
    atomic_store_explicit(&s->undone, (uint32_t)count, memory_order_relaxed);
    atomic_store_explicit(&s->failure, 0, memory_order_relaxed);
    atomic_store_explicit(&s->slices, round << 32 | count << 16, memory_order_release);
}

/* How many of the slices that are left somebody takes. */
enum part { ONE, HALF, ALL };

static uint32_t part_of(uint32_t left, enum part part)
{
    return part == ALL ? left : part == HALF ? (left + 1) / 2 : left > 0;
}

/* Takes the next slices. How many, from *first on; 0: all are taken. */
static uint32_t claim(struct slot *s, enum part part, uint32_t *first)
{
    uint64_t word = atomic_load_explicit(&s->slices, memory_order_relaxed);
    for (;;) {
        const uint32_t count = (uint32_t)(word >> 16 & SLICES_MOST), taken = (uint32_t)(word & SLICES_MOST);
        const uint32_t n = part_of(count - taken, part);
        if (n == 0)
            return 0;
        *first = taken;
        if (atomic_compare_exchange_weak_explicit(&s->slices, &word, word + n, memory_order_acquire,
                                                  memory_order_relaxed))
            return n;
    }
}

/* Does slices that were claimed. True: they were the last of the job, whose bytes are all in place here. */
static bool do_slices(struct slot *s, uint32_t first, uint32_t n)
{
    struct copy_job part = s->job;
    const uint64_t begin = first * s->slice_bytes, bytes = n * s->slice_bytes;
    if (begin > 0)
        plan_pass(part.transfer, &part.from, begin);
    part.bytes = bytes < s->job.bytes - begin ? bytes : s->job.bytes - begin;
    const int error = run_job(&part);
    uint64_t none = 0, failure = (uint64_t)(uint32_t)-error << 32 | (uint32_t)errno;
    if (error != 0)
        atomic_compare_exchange_strong_explicit(&s->failure, &none, failure, memory_order_relaxed,
                                                memory_order_relaxed);
    /* Acquire and release: who ends the job has the stores of all who did a part of it. */
    return atomic_fetch_sub_explicit(&s->undone, n, memory_order_acq_rel) == n;
}

/* The last slice was done, by that worker; 0: by another thread. */
static void slot_end(struct slot *s, uint8_t worker)
{
    const uint64_t failure = atomic_load_explicit(&s->failure, memory_order_relaxed);
    s->end.tag = s->job.tag;
    s->end.bytes = s->job.bytes;
    s->end.error = -(int)(failure >> 32);
    s->end.is_attached = s->job.attached != NULL;
    s->end.cause = (int)(uint32_t)failure;
    s->end.worker = worker;
    s->end.ended_ns = s->job.is_timed ? clock_now_ns() : 0;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static enum length length_of(const struct copy_job *job)
{
    return is_copy(job) && job->bytes <= COPY_SHORT_BYTES ? SHORT : LONG;
}

/* `shorts`: how many short jobs this worker took in a row. */
static struct slot *take_job(struct copy_pool *p, unsigned *shorts)
{
    enum length first = *shorts < SHORTS_IN_A_ROW ? SHORT : LONG;
    struct slot *slot = mpmc_pop(p->todo[first]);
    if (slot == NULL)
        slot = mpmc_pop(p->todo[first == SHORT ? LONG : SHORT]);
    if (slot == NULL)
        return NULL;
    atomic_fetch_add_explicit(&p->busy, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&p->waiting, 1, memory_order_release); /* who sees it sees the busy one */
    *shorts = length_of(&slot->job) == SHORT ? *shorts + 1 : 0;
    return slot;
}

/* Tells of the end of a job, where there is something to do then. */
static void tell(struct copy_pool *p, bool more, int error)
{
    const bool runs_out = atomic_load_explicit(&p->waiting, memory_order_relaxed) <= p->few;
    if (!more || error != 0 || runs_out)
        p->look(p->arg, runs_out);
}

/*
 * Whoever did the last slice. copy_slice fenced the streaming stores of each, so the release of this push publishes all
 * bytes of the job. The queue has a place for every slot, so the push cannot fail.
 */
static void end_job(struct copy_pool *p, struct slot *slot, uint8_t worker)
{
    slot_end(slot, worker);
    const bool more = slot->job.more;
    const int error = slot->end.error;
    mpmc_push(p->done, slot);
    tell(p, more, error); /* copies of both: the slot may hold another job by now */
}

static struct slot *next_job(struct copy_pool *p, unsigned *shorts)
{
    uint64_t since = clock_now_ns();
    for (;;) {
        uint32_t seen = bell_read(&p->work);
        if (atomic_load_explicit(&p->is_asked, memory_order_relaxed) &&
            atomic_exchange_explicit(&p->is_asked, false, memory_order_acquire))
            p->look(p->arg, true);
        struct slot *slot = take_job(p, shorts);
        if (slot != NULL)
            return slot;
        if (atomic_load_explicit(&p->stop, memory_order_acquire))
            return NULL; /* after the queues were seen empty: no job is left behind */
        if (clock_now_ns() - since > SPIN_NS)
            bell_sleep(&p->work, seen, SLEEP_NS);
    }
}

static void do_job(struct copy_pool *p, struct slot *slot, uint8_t worker)
{
    uint32_t first, n;
    bool is_last = false;
    const enum part part = atomic_exchange_explicit(&p->is_awaited, false, memory_order_relaxed) ? HALF : ALL;
    slot_begin(slot);
    atomic_store_explicit(&p->at_work[worker - 1], slot, memory_order_release);
    while (!is_last && (n = claim(slot, part, &first)) > 0)
        is_last = do_slices(slot, first, n);
    atomic_fetch_sub_explicit(&p->busy, 1, memory_order_relaxed);
    if (is_last)
        end_job(p, slot, worker);
}

static void *worker_main(void *arg)
{
    struct copy_pool *p = arg;
    struct slot *slot;
    unsigned shorts = 0;
    uint8_t number = (uint8_t)(atomic_fetch_add_explicit(&p->numbers, 1, memory_order_relaxed) + 1);
    while ((slot = next_job(p, &shorts)) != NULL)
        do_job(p, slot, number);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void pool_free(struct copy_pool *p)
{
    mpmc_destroy(p->idle);
    mpmc_destroy(p->todo[SHORT]);
    mpmc_destroy(p->todo[LONG]);
    mpmc_destroy(p->done);
    free(p->slots);
    free(p->threads);
    free((void *)p->at_work);
    free(p);
}

int copy_pool_create(unsigned workers, const char *cpus, size_t depth, copy_done_fn *look, void *arg,
                     struct copy_pool **out)
{
    struct copy_pool *p = calloc(1, sizeof *p);
    if (p == NULL)
        return BATON_ENOMEM;
    p->look = look;
    p->arg = arg;
    p->slots = calloc(depth, sizeof *p->slots);
    p->threads = calloc(workers, sizeof *p->threads);
    p->at_work = calloc(workers, sizeof *p->at_work);
    p->idle = mpmc_create(depth);
    p->todo[SHORT] = mpmc_create(depth);
    p->todo[LONG] = mpmc_create(depth);
    p->done = mpmc_create(depth);
    bell_init(&p->work);
    p->few = workers;
    if (p->slots == NULL || p->threads == NULL || p->at_work == NULL || p->idle == NULL || p->todo[SHORT] == NULL ||
        p->todo[LONG] == NULL || p->done == NULL) {
        pool_free(p);
        return BATON_ENOMEM;
    }
    for (size_t i = 0; i < depth; i++)
        mpmc_push(p->idle, &p->slots[i]);
    for (; p->num_threads < workers; p->num_threads++) {
        if (thread_start(&p->threads[p->num_threads], "baton-copy", cpus, worker_main, p) != 0) {
            copy_pool_destroy(p);
            return BATON_ESYSTEM;
        }
    }
    *out = p;
    return 0;
}

void copy_pool_destroy(struct copy_pool *p)
{
    atomic_store_explicit(&p->stop, true, memory_order_release);
    bell_ring(&p->work);
    for (unsigned i = 0; i < p->num_threads; i++)
        pthread_join(p->threads[i], NULL);
    pool_free(p);
}

void copy_pool_cpus(const struct copy_pool *p, char *list, size_t size)
{
    thread_cpus(p->threads[0], list, size);
}

bool copy_ask(struct copy_pool *p)
{
    if (atomic_load_explicit(&p->waiting, memory_order_acquire) > 0 ||
        atomic_load_explicit(&p->busy, memory_order_relaxed) == p->num_threads)
        return false;
    /* An exchange, so that the worker which sees the last of several sees what came before each of them. */
    atomic_exchange_explicit(&p->is_asked, true, memory_order_release);
    bell_ring(&p->work);
    return true;
}

bool copy_help(struct copy_pool *p)
{
    uint32_t first, n = 0;
    if (!atomic_load_explicit(&p->is_awaited, memory_order_relaxed))
        atomic_store_explicit(&p->is_awaited, true, memory_order_relaxed);
    if (atomic_load_explicit(&p->busy, memory_order_relaxed) == 0)
        return false;
    for (unsigned i = 0; i < p->num_threads && n == 0; i++) {
        struct slot *slot = atomic_load_explicit(&p->at_work[i], memory_order_acquire);
        if (slot != NULL && (n = claim(slot, ONE, &first)) > 0 && do_slices(slot, first, n))
            end_job(p, slot, 0);
    }
    return n > 0;
}

bool copy_submit(struct copy_pool *p, const struct copy_job *job)
{
    struct slot *slot = mpmc_pop(p->idle);
    if (slot == NULL)
        return false;
    slot->job = *job;
    atomic_fetch_add_explicit(&p->waiting, 1, memory_order_relaxed); /* before a worker can take it */
    if (!mpmc_push(p->todo[length_of(job)], slot)) { /* a worker interrupted in its pop still holds the cell */
        atomic_fetch_sub_explicit(&p->waiting, 1, memory_order_relaxed);
        mpmc_push(p->idle, slot);
        return false;
    }
    p->is_owed = true;
    return true;
}

void copy_wake(struct copy_pool *p)
{
    if (p->is_owed)
        bell_ring(&p->work);
    p->is_owed = false;
}

bool copy_collect(struct copy_pool *p, struct copy_end *end)
{
    struct slot *slot = mpmc_pop(p->done);
    if (slot == NULL)
        return false;
    *end = slot->end;
    mpmc_push(p->idle, slot);
    return true;
}
