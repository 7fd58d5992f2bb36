/* SPDX-License-Identifier: BSD-3-Clause */
/* limit: see the header. The consumer's main thread issues and tests; the errors of MPI end the job. */
#include "bench/limit.h"

#include <unistd.h>

#include "base/clock.h"
#include "bench/fail.h"
#include "front/inside.h"
#include "replay/random.h"

#define STALL_NS (UINT64_C(5000) * CLOCK_NS_PER_MS)

/* ---- raw MPI ----------------------------------------------------------------------------------------------------- */

void raw_open(struct raw *r, MPI_Comm comm, char *pool, uint64_t bytes)
{
    *r = (struct raw){0};
    MPI_Comm_dup(comm, &r->comm);
    if (MPI_Win_create(pool, (MPI_Aint)bytes, 1, MPI_INFO_NULL, r->comm, &r->win) != MPI_SUCCESS)
        fail("MPI_Win_create failed: raw MPI cannot be measured here");
    MPI_Win_lock_all(MPI_MODE_NOCHECK, r->win);
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        r->request[i] = MPI_REQUEST_NULL;
}

void raw_close(struct raw *r)
{
    MPI_Win_unlock_all(r->win);
    MPI_Win_free(&r->win);
    MPI_Comm_free(&r->comm);
}

unsigned raw_ways(bool put)
{
    return put ? RAW_GROUPS : RAW_WAYS;
}

const char *raw_way_name(enum raw_way way, bool put)
{
    static const char *const names[][2] = {{"MPI_Rget", "MPI_Rput"},
                                           {"MPI_Get and a flush", "MPI_Put and a flush"},
                                           {"63 MPI_Get and an MPI_Rget", "none"}};
    return names[way][put];
}

static void issue(struct raw *r, bool put, const struct raw_piece *p, int slot)
{
    if (slot < 0 && put)
        MPI_Put(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win);
    else if (slot < 0)
        MPI_Get(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win);
    else if (put)
        MPI_Rput(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win, &r->request[slot]);
    else
        MPI_Rget(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win, &r->request[slot]);
}

/* Open MPI 4.1 can lose a completion when another thread progresses at the wrong moment. The bytes are there after a
   flush, but the request never completes. So the request is dropped, and the sample too. */
static uint64_t give_up(struct raw *r)
{
    MPI_Win_flush_all(r->win);
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        r->request[i] = MPI_REQUEST_NULL;
    r->stalls++;
    return 0;
}

/*
 * Keeps RAW_OUTSTANDING requests under way. A piece has a request of its own, or shares that of the last piece of its
 * group. 0: it stalled.
 */
static uint64_t move_by_requests(struct raw *r, unsigned group, bool put, raw_next_fn next, void *arg)
{
    int unused[RAW_OUTSTANDING], done[RAW_OUTSTANDING], num_unused = RAW_OUTSTANDING, num_done;
    struct raw_piece piece, after;
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        unused[i] = i;
    uint64_t begin = clock_now_ns(), moved = begin;
    bool more = next(arg, &piece);
    for (unsigned in_group = 1; more || num_unused < RAW_OUTSTANDING;) {
        while (num_unused > 0 && more) {
            more = next(arg, &after);
            bool is_last = !more || in_group == group;
            issue(r, put, &piece, is_last ? unused[--num_unused] : -1);
            in_group = is_last ? 1 : in_group + 1;
            piece = after;
        }
        MPI_Testsome(RAW_OUTSTANDING, r->request, &num_done, done, MPI_STATUSES_IGNORE);
        if (num_done > 0) {
            moved = clock_now_ns();
            for (int i = 0; i < num_done; i++)
                unused[num_unused++] = done[i];
        } else if (num_done != MPI_UNDEFINED && clock_now_ns() - moved > STALL_NS) {
            return give_up(r);
        }
    }
    MPI_Win_sync(r->win);
    return clock_now_ns() - begin;
}

static uint64_t move_by_flush(struct raw *r, bool put, raw_next_fn next, void *arg)
{
    struct raw_piece piece;
    uint64_t begin = clock_now_ns();
    while (next(arg, &piece))
        issue(r, put, &piece, -1);
    MPI_Win_flush_all(r->win);
    MPI_Win_sync(r->win);
    return clock_now_ns() - begin;
}

uint64_t raw_move(struct raw *r, enum raw_way way, bool put, raw_next_fn next, void *arg)
{
    if (way == RAW_FLUSH)
        return move_by_flush(r, put, next, arg);
    uint64_t ns = move_by_requests(r, way == RAW_GROUPS ? RAW_OUTSTANDING : 1, put, next, arg);
    MPI_Win_flush_all(r->win); /* keeps MPI's count of unflushed operations low; not timed */
    return ns;
}

double raw_get_ns(struct raw *r, int peer, char *to, uint64_t span, int bytes, uint64_t *random)
{
    uint64_t begin = clock_now_ns();
    for (uint64_t i = 0; i < RAW_OUTSTANDING; i++) {
        MPI_Aint from = (MPI_Aint)(random_next(random) % (span - (uint64_t)bytes));
        MPI_Get(to + i * (uint64_t)bytes, bytes, MPI_BYTE, peer, from, bytes, MPI_BYTE, r->win);
    }
    MPI_Win_flush(peer, r->win);
    return (double)(clock_now_ns() - begin) / RAW_OUTSTANDING;
}

void raw_name(const struct raw *r, char name[MPI_MAX_OBJECT_NAME])
{
    int length = 0;
    MPI_Win_get_name(r->win, name, &length);
    name[length] = '\0';
}

/* ---- the limit of a path ----------------------------------------------------------------------------------------- */

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
