/* SPDX-License-Identifier: BSD-3-Clause */
/* limit: see the header. */
#include "bench/limit.h"

#include <unistd.h>

#include "base/clock.h"
#include "front/inside.h"

static bool is_push(const struct limit *l)
{
    return l->scene->bench->options.op == OP_PUSH;
}

/* Where the producer's blocks lie, in this process or in its own. */
static void find_source(struct limit *l, const char **source, int *process)
{
    const struct scene *s = l->scene;
    const struct bench *b = s->bench;
    struct {
        uint64_t base;
        int process, path;
    } told = {(uint64_t)(uintptr_t)s->context.pool, getpid(), BATON_PATH_CMA};
    channel_share(b->roster.comm, b->producer, &told, sizeof told);
    *source = (const char *)(uintptr_t)told.base;
    *process = told.process;
    if (s->own.kind != OWN_PRIVATE && s->consumes) {
        *source = baton_inside_peer_pool(s->context.baton, (uint32_t)b->producer);
        *process = 0;
        told.path = *source ? BATON_PATH_SHM : BATON_PATH_RMA;
    }
    channel_share(b->roster.comm, b->consumer, &told, sizeof told);
    l->path = (baton_path_t)told.path;
}

void limit_open(struct limit *l, struct scene *s)
{
    const char *source;
    int process;
    *l = (struct limit){.scene = s};
    find_source(l, &source, &process);
    if (l->path == BATON_PATH_RMA) {
        raw_open(&l->raw, s->bench->roster.comm, s->context.pool, s->context.pool ? s->cache.geometry.bytes : 0);
        l->ways.num = raw_ways(is_push(l));
    } else if (s->consumes) {
        copies_init(&l->copies, source, process, s->cache.geometry.bytes, s->context.pool, s->form.max_batch);
        copies_share(&l->copies);
        l->ways.num = copies_ways(&l->copies);
    }
}

void limit_close(struct limit *l)
{
    if (l->path == BATON_PATH_RMA)
        raw_close(&l->raw);
    ways_reset(&l->ways);
    copies_fini(&l->copies);
}

void limit_note(const struct limit *l)
{
    static const char reads[] =
        "best of three ways: an MPI_Rget a block, all MPI_Get and a flush, 63 MPI_Get and an MPI_Rget";
    static const char writes[] = "better of two ways: an MPI_Rput a block, all MPI_Put and a flush";
    struct report *r = &l->scene->bench->report;
    if (l->path == BATON_PATH_RMA)
        report_note(r, "limit: raw MPI, the %s; the target waits in MPI_Recv, Baton's threads hold still",
                    is_push(l) ? writes : reads);
    else if (l->copies.crew.num > 1)
        report_note(r,
                    "limit: %u threads of the decode rank copy like blocks, a part each, from the mapped pool, best of "
                    "two kernels",
                    l->copies.crew.num);
    else
        report_note(
            r, "limit: one thread of the decode rank copies like blocks from the mapped pool, best of two kernels");
}

/* ---- measurements ------------------------------------------------------------------------------------------------ */

/* Which of the drawn blocks raw MPI moves next. */
struct raw_walk {
    const struct scene *scene;
    uint32_t next, batch;
};

static bool next_block(void *arg, struct raw_piece *out)
{
    struct raw_walk *w = arg;
    const struct scene *s = w->scene;
    if (w->next == w->batch)
        return false;
    const uint64_t bytes = s->form.block_bytes, source = s->from_ids[w->next] * bytes,
                   target = s->to_ids[w->next] * bytes;
    w->next++;
    *out = (struct raw_piece){.peer = s->produces ? s->bench->consumer : s->bench->producer,
                              .mine = s->context.pool + (s->produces ? source : target),
                              .theirs = (MPI_Aint)(s->produces ? target : source),
                              .bytes = (int)bytes};
    return true;
}

static uint64_t move_raw(struct limit *l, enum raw_way way, uint32_t batch)
{
    struct raw_walk w = {.scene = l->scene, .batch = batch};
    return raw_move(&l->raw, way, l->scene->produces, next_block, &w);
}

/* The consumer reads, or the producer writes, the blocks that were drawn last. The consumer has the time: 0 where MPI
   lost a completion. */
static uint64_t measure_raw(struct limit *l, unsigned way, uint32_t batch)
{
    const struct scene *s = l->scene;
    uint64_t ns = 0;
    scene_hold(l->scene);
    if (is_push(l)) {
        scene_signal(s, CHANNEL_IN_MPI);
        ns = s->produces ? move_raw(l, way, batch) : 0;
        scene_answer(s, &ns, sizeof ns, CHANNEL_IN_MPI);
    } else if (s->consumes) {
        ns = move_raw(l, way, batch);
    }
    scene_go_on(l->scene, CHANNEL_IN_MPI);
    return ns;
}

static uint64_t measure_copies(struct limit *l, unsigned way, uint32_t batch)
{
    const struct scene *s = l->scene;
    const uint64_t bytes = s->form.block_bytes;
    for (uint32_t i = 0; i < batch; i++)
        l->copies.runs[i] =
            (struct plan_run){.src = s->from_ids[i] * bytes, .dst = s->to_ids[i] * bytes, .bytes = bytes};
    return copies_run(&l->copies, way, batch);
}

void limit_measure(struct limit *l, uint32_t batch)
{
    uint64_t ns = 0;
    scene_draw(l->scene, batch);
    const unsigned way = l->ways.num > 0 ? ways_next(&l->ways) : 0;
    if (l->path == BATON_PATH_RMA)
        ns = measure_raw(l, way, batch);
    else if (l->scene->consumes)
        ns = measure_copies(l, way, batch);
    if (l->scene->consumes && ns > 0)
        samples_add(&l->ways.of[way], ns);
}

uint64_t limit_ask_and_read(struct limit *l, uint32_t batch)
{
    const struct scene *s = l->scene;
    char answer[64] = {0};
    if (l->path != BATON_PATH_RMA)
        return 0;
    scene_draw(l->scene, batch);
    scene_hold(l->scene);
    const uint64_t begin = clock_now_ns();
    scene_signal(s, CHANNEL_IN_MPI);
    scene_answer(s, answer, sizeof answer, CHANNEL_IN_MPI);
    if (s->consumes)
        move_raw(l, RAW_FLUSH, batch);
    const uint64_t ns = clock_now_ns() - begin;
    scene_go_on(l->scene, CHANNEL_IN_MPI);
    return s->consumes ? ns : 0;
}

uint64_t limit_best_ns(struct limit *l, const char **way)
{
    unsigned best = 0;
    const uint64_t ns = ways_best_ns(&l->ways, &best);
    *way = ns == 0                     ? "none"
           : l->path == BATON_PATH_RMA ? raw_way_name((enum raw_way)best, is_push(l))
                                       : copies_way_name(&l->copies, best);
    return ns;
}
