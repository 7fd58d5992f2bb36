/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * workers: the threads that copy. Whoever makes turns hands over jobs through two queues, one of them for short jobs,
 * and takes completions from a third. Job slots come from a fixed array, so nothing is allocated on the way.
 *
 * Short jobs overtake long ones, so that a small transfer waits for at most the job that is being copied. After
 * SHORTS_IN_A_ROW of them the worker takes a long one, so that short jobs never stop long ones.
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

enum length { SHORT, LONG, LENGTHS };

/* A job and what became of it. */
struct slot {
    struct copy_job job;
    struct copy_end end;
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
    _Atomic uint32_t busy;    /* workers that have a job */
    _Atomic uint32_t numbers; /* of workers, given out so far */
    copy_done_fn *look;
    void *arg;
    unsigned num_threads;
    pthread_t *threads;
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

static enum length length_of(const struct copy_job *job)
{
    bool copies = job->sums == NULL && !job->zero;
    return copies && job->bytes <= COPY_SHORT_BYTES ? SHORT : LONG;
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

/* Tells of the end of a job, where there is something to do then. */
static void tell(struct copy_pool *p, bool more, int error)
{
    const bool runs_out = atomic_load_explicit(&p->waiting, memory_order_relaxed) <= p->few;
    if (!more || error != 0 || runs_out)
        p->look(p->arg, runs_out);
}

static void *worker_main(void *arg)
{
    struct copy_pool *p = arg;
    struct slot *slot;
    unsigned shorts = 0;
    uint8_t number = (uint8_t)(atomic_fetch_add_explicit(&p->numbers, 1, memory_order_relaxed) + 1);
    while ((slot = next_job(p, &shorts)) != NULL) {
        bool more = slot->job.more;
        struct copy_end end = copy_now(&slot->job);
        atomic_fetch_sub_explicit(&p->busy, 1, memory_order_relaxed);
        end.worker = number;
        slot->end = end;
        /* copy_slice fenced its streaming stores, so the release of this push publishes all bytes of the job. The queue
         * has a place for every slot, so the push cannot fail. */
        mpmc_push(p->done, slot);
        tell(p, more, end.error); /* copies of both: the slot may hold another job by now */
    }
    return NULL;
}

static void pool_free(struct copy_pool *p)
{
    mpmc_destroy(p->idle);
    mpmc_destroy(p->todo[SHORT]);
    mpmc_destroy(p->todo[LONG]);
    mpmc_destroy(p->done);
    free(p->slots);
    free(p->threads);
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
    p->idle = mpmc_create(depth);
    p->todo[SHORT] = mpmc_create(depth);
    p->todo[LONG] = mpmc_create(depth);
    p->done = mpmc_create(depth);
    bell_init(&p->work);
    p->few = workers;
    if (p->slots == NULL || p->threads == NULL || p->idle == NULL || p->todo[SHORT] == NULL || p->todo[LONG] == NULL ||
        p->done == NULL) {
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

bool copy_submit(struct copy_pool *p, const struct copy_job *job)
{
    struct slot *slot = mpmc_pop(p->idle);
    if (slot == NULL)
        return false;
    *slot = (struct slot){.job = *job};
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
