/* SPDX-License-Identifier: BSD-3-Clause */
/* limit: see the header. */
#include "bench/limit.h"

#include "bench/fail.h"
#include "front/inside.h"

static bool is_push(const struct limit *l)
{
    return l->stage->bench->options.op == OP_PUSH;
}

void limit_open(struct limit *l, struct stage *s)
{
    const struct bench *b = s->bench;
    const char *peer_pool = NULL;
    int path = BATON_PATH_NONE;
    *l = (struct limit){.stage = s};
    if (bench_is_consumer(b)) {
        peer_pool = baton_inside_peer_pool(s->context.baton, (uint32_t)b->producer);
        path = peer_pool ? BATON_PATH_SHM : BATON_PATH_RMA;
    }
    MPI_Bcast(&path, 1, MPI_INT, b->consumer, b->roster.comm);
    l->path = (baton_path_t)path;
    if (l->path == BATON_PATH_RMA)
        raw_open(&l->raw, b->roster.comm, s->context.pool, s->context.pool ? s->num_blocks * s->block_bytes : 0);
    s->raw = l->path == BATON_PATH_RMA ? &l->raw : NULL;
    if (peer_pool &&
        copies_init(&l->copies, peer_pool, s->num_blocks * s->block_bytes, s->context.pool, s->max_batch) != 0)
        fail("out of memory for %u runs", s->max_batch);
}

void limit_close(struct limit *l)
{
    if (l->path == BATON_PATH_RMA)
        raw_close(&l->raw);
    samples_fini(&l->samples);
    copies_fini(&l->copies);
    *l = (struct limit){0};
}

void limit_reset(struct limit *l)
{
    samples_fini(&l->samples);
    copies_reset(&l->copies);
}

static int copy(struct limit *l, uint32_t batch)
{
    const struct stage *s = l->stage;
    for (uint32_t i = 0; i < batch; i++) {
        l->copies.runs[i] = (struct plan_run){.src = s->source_ids[i] * s->block_bytes,
                                              .dst = s->target_ids[i] * s->block_bytes,
                                              .bytes = s->block_bytes};
    }
    return copies_measure(&l->copies, batch);
}

static int move(struct limit *l, uint32_t batch)
{
    stage_enter_mpi(l->stage);
    const uint64_t ns = is_push(l) ? stage_raw_write(l->stage, batch) : stage_raw_read(l->stage, batch);
    stage_leave_mpi(l->stage);
    return ns > 0 ? samples_add(&l->samples, ns) : 0;
}

void limit_measure(struct limit *l, uint32_t batch)
{
    stage_draw(l->stage, batch);
    if ((l->path == BATON_PATH_SHM ? copy(l, batch) : move(l, batch)) != 0)
        fail("out of memory for samples");
}

size_t limit_count(const struct limit *l)
{
    return l->samples.count + l->copies.way[0].count + l->copies.way[1].count;
}

double limit_best(struct limit *l, uint32_t batch, const char **way)
{
    const double bytes = (double)batch * (double)l->stage->block_bytes;
    uint64_t best = l->path == BATON_PATH_RMA ? samples_quantile(&l->samples, 0.5) : copies_best_ns(&l->copies, way);
    if (l->path == BATON_PATH_RMA)
        *way = best == 0 ? "none" : is_push(l) ? "MPI_Rput" : "MPI_Rget";
    return best > 0 ? bytes / (double)best : 0;
}
