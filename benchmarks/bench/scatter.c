/* SPDX-License-Identifier: BSD-3-Clause */
/* scatter: see the header. A walk is a Fisher-Yates shuffle, walked round and round. */
#include "bench/scatter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "bench/fail.h"
#include "replay/random.h"
#include "shm/copy.h"

#define PAGE_BYTES 4096
#define PIECES_MOST 1024u /* IOV_MAX */

/* ---- walks ------------------------------------------------------------------------------------------------------- */

void walk_init(struct walk *w, uint32_t num_blocks, uint64_t *seed)
{
    uint64_t random = random_next(seed);
    /* A shared mapping, since this table of the benchmark must not count as private memory of the library. */
    w->order =
        mmap(NULL, (size_t)num_blocks * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->order == MAP_FAILED)
        fail("out of memory for the order of %u blocks", num_blocks);
    w->num_blocks = num_blocks;
    for (uint32_t i = 0; i < num_blocks; i++) {
        uint32_t j = (uint32_t)(random_next(&random) % ((uint64_t)i + 1));
        w->order[i] = w->order[j];
        w->order[j] = i;
    }
}

void walk_fini(struct walk *w)
{
    if (w->order)
        munmap(w->order, (size_t)w->num_blocks * sizeof(uint32_t));
    *w = (struct walk){0};
}

void walk_draw(const struct walk *w, uint64_t start, uint32_t count, uint32_t *out)
{
    uint32_t at = (uint32_t)(start % w->num_blocks);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = w->order[at];
        at = at + 1 == w->num_blocks ? 0 : at + 1;
    }
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

void copies_init(struct copies *c, const char *source, int process, uint64_t bytes, char *target, uint32_t most)
{
    for (uint64_t at = 0; process == 0 && at < bytes; at += PAGE_BYTES)
        (void)*(const volatile char *)(source + at);
    *c = (struct copies){.source = source, .target = target, .process = process};
    c->runs = room(most, sizeof *c->runs);
    c->mine = room(most, sizeof *c->mine);
    c->theirs = room(most, sizeof *c->theirs);
}

unsigned copies_ways(const struct copies *c)
{
    return c->process != 0 ? 1 : 2;
}

const char *copies_way_name(const struct copies *c, unsigned way)
{
    return c->process != 0 ? "readv" : way == 0 ? "memcpy" : "stream";
}

/* ---- a part ------------------------------------------------------------------------------------------------------ */

static void read_part(const struct copies *c, uint32_t at, uint32_t end)
{
    while (at < end) {
        const uint32_t n = end - at < PIECES_MOST ? end - at : PIECES_MOST;
        if (process_vm_readv(c->process, &c->mine[at], n, &c->theirs[at], n, 0) != (ssize_t)(n * c->runs[at].bytes))
            fail("process_vm_readv of process %d fails: %s", c->process, strerror(errno));
        at += n;
    }
}

static void do_part(const struct copies *c, unsigned part, unsigned parts)
{
    const char *const sources[] = {c->source};
    char *const targets[] = {c->target};
    const uint32_t from = (uint32_t)((uint64_t)c->count * part / parts),
                   to = (uint32_t)((uint64_t)c->count * (part + 1) / parts);
    if (c->process != 0)
        read_part(c, from, to);
    else if (to > from)
        copy_runs(c->way == 0 ? COPY_MEMCPY : COPY_STREAM, c->runs + from, to - from, sources, targets);
}

/* ---- the crew ---------------------------------------------------------------------------------------------------- */

/* False: there is no more work. */
static bool await_round(struct crew *t, uint64_t *seen)
{
    pthread_mutex_lock(&t->lock);
    while (t->round == *seen && !t->ends)
        pthread_cond_wait(&t->changed, &t->lock);
    *seen = t->round;
    bool goes_on = !t->ends;
    pthread_mutex_unlock(&t->lock);
    return goes_on;
}

static void *helper_main(void *arg)
{
    struct copies *c = arg;
    struct crew *t = &c->crew;
    unsigned thread = 1 + atomic_fetch_add(&t->next, 1);
    uint64_t seen = 0;
    while (await_round(t, &seen)) {
        atomic_fetch_add(&t->awake, 1);
        while (!atomic_load(&t->go))
            ;
        do_part(c, thread, t->num);
        atomic_fetch_add(&t->done, 1);
    }
    return NULL;
}

void copies_share(struct copies *c)
{
    struct crew *t = &c->crew;
    struct settings settings;
    fail_on(settings_read(&settings, environ), "the settings");
    const unsigned num = (unsigned)settings.copy_workers;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->threads = room(num, sizeof *t->threads);
    for (t->num = 1; t->num < num; t->num++)
        if (pthread_create(&t->threads[t->num], NULL, helper_main, c) != 0)
            fail("cannot start %u threads", num);
}

static void signal_crew(struct crew *t, bool ends)
{
    pthread_mutex_lock(&t->lock);
    t->ends = ends;
    t->round++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void stop_crew(struct crew *t)
{
    if (t->threads == NULL)
        return;
    signal_crew(t, true);
    for (unsigned i = 1; i < t->num; i++)
        pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->threads);
}

static uint64_t run_crew(struct copies *c)
{
    struct crew *t = &c->crew;
    atomic_store(&t->go, false);
    atomic_store(&t->awake, 0);
    atomic_store(&t->done, 0);
    signal_crew(t, false);
    while (atomic_load(&t->awake) + 1 < t->num)
        ;
    const uint64_t begin = clock_now_ns();
    atomic_store(&t->go, true);
    do_part(c, 0, t->num);
    while (atomic_load(&t->done) + 1 < t->num)
        ;
    return clock_now_ns() - begin;
}

uint64_t copies_run(struct copies *c, unsigned way, uint32_t count)
{
    c->way = way;
    c->count = count;
    for (uint32_t i = 0; c->process != 0 && i < count; i++) {
        c->mine[i] = (struct iovec){c->target + c->runs[i].dst, c->runs[i].bytes};
        c->theirs[i] = (struct iovec){(char *)(uintptr_t)c->source + c->runs[i].src, c->runs[i].bytes};
    }
    if (c->crew.num > 1 && count > 1)
        return run_crew(c);
    const uint64_t begin = clock_now_ns();
    do_part(c, 0, 1);
    return clock_now_ns() - begin;
}

void copies_fini(struct copies *c)
{
    stop_crew(&c->crew);
    free(c->runs);
    free(c->mine);
    free(c->theirs);
}
