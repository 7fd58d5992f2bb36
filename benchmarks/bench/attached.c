/* SPDX-License-Identifier: BSD-3-Clause */
/* attached: see the header. Thread i reads the i-th part of the pieces; the caller is thread 0. */
#include "bench/attached.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "bench/fail.h"

#define PIECES_MOST 1024u /* IOV_MAX */

static void read_part(struct attached *a, unsigned thread)
{
    uint32_t at = (uint32_t)((uint64_t)a->batch * thread / a->num_threads);
    const uint32_t end = (uint32_t)((uint64_t)a->batch * (thread + 1) / a->num_threads);
    while (at < end) {
        uint32_t n = end - at < PIECES_MOST ? end - at : PIECES_MOST;
        ssize_t want = (ssize_t)(n * a->stage->block_bytes);
        if (process_vm_readv(a->process, &a->mine_piece[at], n, &a->their_piece[at], n, 0) != want)
            atomic_fetch_add(&a->failed, 1);
        at += n;
    }
}

/* False: there are no more measurements. */
static bool await_round(struct attached *a, uint64_t *seen)
{
    pthread_mutex_lock(&a->lock);
    while (a->round == *seen && !a->ends)
        pthread_cond_wait(&a->changed, &a->lock);
    *seen = a->round;
    bool goes_on = !a->ends;
    pthread_mutex_unlock(&a->lock);
    return goes_on;
}

static void *helper_main(void *arg)
{
    struct attached *a = arg;
    unsigned thread = 1 + atomic_fetch_add(&a->next, 1);
    uint64_t seen = 0;
    while (await_round(a, &seen)) {
        atomic_fetch_add(&a->awake, 1);
        while (!atomic_load(&a->go))
            ;
        read_part(a, thread);
        atomic_fetch_add(&a->done, 1);
    }
    return NULL;
}

static void start_helpers(struct attached *a)
{
    struct settings settings;
    fail_on(settings_read(&settings, getenv), "the settings");
    a->num_threads = (unsigned)settings.copy_workers;
    a->threads = calloc(a->num_threads, sizeof *a->threads);
    a->mine_piece = calloc(a->stage->max_batch, sizeof *a->mine_piece);
    a->their_piece = calloc(a->stage->max_batch, sizeof *a->their_piece);
    if (!a->threads || !a->mine_piece || !a->their_piece)
        fail("out of memory for %u pieces", a->stage->max_batch);
    for (unsigned i = 1; i < a->num_threads; i++)
        if (pthread_create(&a->threads[i], NULL, helper_main, a) != 0)
            fail("cannot start %u threads", a->num_threads);
}

void attached_open(struct attached *a, struct stage *s)
{
    const struct bench *b = s->bench;
    struct {
        uint64_t base;
        int process;
    } told = {(uint64_t)(uintptr_t)s->context.pool, getpid()};
    memset(a, 0, sizeof *a);
    a->stage = s;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    MPI_Bcast(&told, sizeof told, MPI_BYTE, b->producer, b->roster.comm);
    a->process = told.process;
    a->theirs = (char *)(uintptr_t)told.base;
    if (bench_is_consumer(b))
        start_helpers(a);
}

void attached_close(struct attached *a)
{
    pthread_mutex_lock(&a->lock);
    a->ends = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    for (unsigned i = 1; i < a->num_threads; i++)
        pthread_join(a->threads[i], NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a->threads);
    free(a->mine_piece);
    free(a->their_piece);
}

static void wake_helpers(struct attached *a)
{
    atomic_store(&a->go, false);
    atomic_store(&a->awake, 0);
    atomic_store(&a->done, 0);
    pthread_mutex_lock(&a->lock);
    a->round++;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    while (atomic_load(&a->awake) + 1 < a->num_threads)
        ;
}

uint64_t attached_read(struct attached *a, uint32_t batch)
{
    struct stage *s = a->stage;
    stage_draw(s, batch);
    a->batch = batch;
    for (uint32_t i = 0; i < batch; i++) {
        a->mine_piece[i] = (struct iovec){s->context.pool + s->target_ids[i] * s->block_bytes, s->block_bytes};
        a->their_piece[i] = (struct iovec){a->theirs + s->source_ids[i] * s->block_bytes, s->block_bytes};
    }
    wake_helpers(a);
    uint64_t begin = clock_now_ns();
    atomic_store(&a->go, true);
    read_part(a, 0);
    while (atomic_load(&a->done) + 1 < a->num_threads)
        ;
    uint64_t ns = clock_now_ns() - begin;
    if (atomic_load(&a->failed) > 0)
        fail("process_vm_readv of process %d fails: %s", a->process, strerror(errno));
    return ns;
}
