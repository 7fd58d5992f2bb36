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
    if (peer_pool && copies_init(&l->copies, peer_pool, s->geometry.bytes, s->context.pool, s->max_batch) != 0)
        fail("out of memory for %u runs", s->max_batch);
    if (peer_pool)
        stage_crew(&l->crew);
}

void limit_close(struct limit *l)
{
    if (l->path == BATON_PATH_RMA)
        raw_close(&l->raw);
    limit_reset(l);
    crew_stop(&l->crew);
    copies_fini(&l->copies);
    *l = (struct limit){0};
}

void limit_note(const struct limit *l)
{
    static const char reads[] =
        "best of three ways: an MPI_Rget a block, all MPI_Get and a flush, 63 MPI_Get and an MPI_Rget";
    static const char writes[] = "better of two ways: an MPI_Rput a block, all MPI_Put and a flush";
    struct report *r = &l->stage->bench->report;
    if (l->path == BATON_PATH_RMA)
        report_note(r, "limit: raw MPI, the %s; the target waits in MPI_Recv, Baton's threads hold still",
                    is_push(l) ? writes : reads);
    else if (l->crew.num > 1)
        report_note(r,
                    "limit: %u threads of the decode rank copy like blocks, a part each, from the mapped pool, best of "
                    "two kernels",
                    l->crew.num);
    else
        report_note(
            r, "limit: one thread of the decode rank copies like blocks from the mapped pool, best of two kernels");
}

void limit_reset(struct limit *l)
{
    for (unsigned way = 0; way < RAW_WAYS; way++)
        samples_fini(&l->samples[way]);
    l->turns = 0;
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
    return copies_measure(&l->copies, l->crew.num > 1 ? &l->crew : NULL, batch);
}

static int move(struct limit *l, uint32_t batch)
{
    const unsigned way = (unsigned)(l->turns++ % raw_ways(is_push(l)));
    stage_hold(l->stage, CHANNEL_IN_MPI);
    const uint64_t ns = is_push(l) ? stage_raw_write(l->stage, way, batch) : stage_raw_read(l->stage, way, batch);
    stage_go_on(l->stage);
    return ns > 0 ? samples_add(&l->samples[way], ns) : 0;
}

void limit_measure(struct limit *l, uint32_t batch)
{
    stage_draw(l->stage, batch);
    if ((l->path == BATON_PATH_SHM ? copy(l, batch) : move(l, batch)) != 0)
        fail("out of memory for samples");
}

size_t limit_count(const struct limit *l)
{
    size_t count = l->copies.way[0].count + l->copies.way[1].count;
    for (unsigned way = 0; way < RAW_WAYS; way++)
        count += l->samples[way].count;
    return count;
}

static uint64_t best_raw_ns(struct limit *l, const char **name)
{
    uint64_t best = 0;
    *name = "none";
    for (unsigned way = 0; way < raw_ways(is_push(l)); way++) {
        const uint64_t median = samples_quantile(&l->samples[way], 0.5);
        if (median == 0 || (best > 0 && median >= best))
            continue;
        best = median;
        *name = raw_way_name((enum raw_way)way, is_push(l));
    }
    return best;
}

uint64_t limit_best_ns(struct limit *l, const char **way)
{
    return l->path == BATON_PATH_RMA ? best_raw_ns(l, way) : copies_best_ns(&l->copies, way);
}

double limit_best(struct limit *l, uint32_t batch, const char **way)
{
    const uint64_t best = limit_best_ns(l, way);
    return best > 0 ? (double)batch * (double)l->stage->block_bytes / (double)best : 0;
}
