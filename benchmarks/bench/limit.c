/* SPDX-License-Identifier: BSD-3-Clause */
/* limit: see the header. */
#include "bench/limit.h"

#include <stdlib.h>

#include "base/clock.h"
#include "bench/fail.h"
#include "shm/copy.h"
#include "front/inside.h"

#define PAGE_BYTES 4096

static bool is_push(const struct limit *l)
{
    return l->stage->bench->options.op == OP_PUSH;
}

/* Maps every page of the peer's pool into this process, so that no measurement pays for page faults. */
static void touch(const char *pool, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES)
        (void)*(const volatile char *)(pool + at);
}

static void open_shm(struct limit *l)
{
    const struct stage *s = l->stage;
    touch(l->peer_pool, s->num_blocks * s->block_bytes);
    l->runs = malloc(s->max_batch * sizeof *l->runs);
    if (!l->runs)
        fail("out of memory for %u runs", s->max_batch);
}

void limit_open(struct limit *l, struct stage *s)
{
    const struct bench *b = s->bench;
    int path = BATON_PATH_NONE;
    *l = (struct limit){.stage = s};
    if (bench_is_consumer(b)) {
        l->peer_pool = baton_inside_peer_pool(s->context.baton, (uint32_t)b->producer);
        path = l->peer_pool ? BATON_PATH_SHM : BATON_PATH_RMA;
    }
    MPI_Bcast(&path, 1, MPI_INT, b->consumer, b->roster.comm);
    l->path = (baton_path_t)path;
    if (l->path == BATON_PATH_RMA)
        raw_open(&l->raw, b->roster.comm, s->context.pool, s->context.pool ? s->num_blocks * s->block_bytes : 0);
    s->raw = l->path == BATON_PATH_RMA ? &l->raw : NULL;
    if (l->peer_pool)
        open_shm(l);
}

void limit_close(struct limit *l)
{
    if (l->path == BATON_PATH_RMA)
        raw_close(&l->raw);
    limit_reset(l);
    free(l->runs);
    *l = (struct limit){0};
}

void limit_reset(struct limit *l)
{
    samples_fini(&l->way[0]);
    samples_fini(&l->way[1]);
    l->turns = 0;
}

static uint64_t copy(struct limit *l, enum copy_kernel kernel, uint32_t batch)
{
    const struct stage *s = l->stage;
    const char *const sources[] = {l->peer_pool};
    char *const targets[] = {s->context.pool};
    for (uint32_t i = 0; i < batch; i++) {
        l->runs[i] = (struct plan_run){.src = s->source_ids[i] * s->block_bytes,
                                       .dst = s->target_ids[i] * s->block_bytes,
                                       .bytes = s->block_bytes};
    }
    uint64_t begin = clock_now_ns();
    copy_runs(kernel, l->runs, batch, sources, targets);
    return clock_now_ns() - begin;
}

void limit_measure(struct limit *l, uint32_t batch)
{
    unsigned way = l->path == BATON_PATH_SHM ? l->turns++ % 2 : 0;
    uint64_t ns;
    stage_draw(l->stage, batch);
    if (l->path == BATON_PATH_SHM) {
        ns = copy(l, way == 0 ? COPY_MEMCPY : COPY_STREAM, batch);
    } else {
        stage_enter_mpi(l->stage);
        ns = is_push(l) ? stage_raw_write(l->stage, batch) : stage_raw_read(l->stage, batch);
        stage_leave_mpi(l->stage);
    }
    if (ns > 0 && samples_add(&l->way[way], ns) != 0)
        fail("out of memory for samples");
}

double limit_best(struct limit *l, uint32_t batch, const char **way)
{
    double best = 0, bytes = (double)batch * (double)l->stage->block_bytes;
    *way = "none";
    for (unsigned i = 0; i < 2; i++) {
        uint64_t median = samples_quantile(&l->way[i], 0.5);
        if (median == 0 || bytes / (double)median <= best)
            continue;
        best = bytes / (double)median;
        *way = l->path == BATON_PATH_RMA ? (is_push(l) ? "MPI_Rput" : "MPI_Rget") : i == 0 ? "memcpy" : "stream";
    }
    return best;
}
