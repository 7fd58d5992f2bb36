/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shapes: what it costs that two caches are cut differently. Every cut is measured in turn with a yardstick. Over
 * shared memory, that is the same bytes between two ranks whose caches are laid out alike; over rma, it is one MPI_Rget
 * for each run of the same plan. Both are timed from end to end, to one consumer, while all other ranks are at rest.
 */
#include <inttypes.h>

#include "bench/fail.h"
#include "bench/limit.h"
#include "bench/pace.h"
#include "bench/scene.h"
#include "front/inside.h"
#include "plan/plan.h"

static const struct cut cuts[] = {
    {"hnd-tp4-2", 4, 2, BATON_LAYOUT_HND, BATON_LAYOUT_HND, SCENE_HEADS, BATON_MODE_PULL},
    {"hnd-tp2-4", 2, 4, BATON_LAYOUT_HND, BATON_LAYOUT_HND, SCENE_HEADS, BATON_MODE_PULL},
    {"hnd-tp8-1", 8, 1, BATON_LAYOUT_HND, BATON_LAYOUT_HND, SCENE_HEADS, BATON_MODE_PULL},
    {"nhd-tp2-4", 2, 4, BATON_LAYOUT_NHD, BATON_LAYOUT_NHD, SCENE_HEADS, BATON_MODE_PULL},
    {"nhd-tp2-4-push", 2, 4, BATON_LAYOUT_NHD, BATON_LAYOUT_NHD, SCENE_HEADS, BATON_MODE_PUSH},
    {"hnd-nhd", 1, 1, BATON_LAYOUT_HND, BATON_LAYOUT_NHD, SCENE_HEADS, BATON_MODE_PULL},
    {"nhd-hnd", 1, 1, BATON_LAYOUT_NHD, BATON_LAYOUT_HND, SCENE_HEADS, BATON_MODE_PULL},
};

#define POOL_LEAST (UINT64_C(128) << 20)
#define SHM_BYTES (UINT64_C(16) << 20) /* of a transfer */
#define RMA_BYTES (UINT64_C(8) << 20)
#define WARM_UPS 3u
#define ITERS_LEAST 5u
#define ITERS_MOST 300u
#define PROBES 101u
#define PROBE_SMALL 64
#define PROBE_LARGE 16384

struct row {
    struct cut plain; /* the yardstick's */
    struct scene cut, yardstick;
    struct raw raw; /* path rma */
    baton_path_t path;
    struct transfers transfers, beside;
};

/* `pool` bytes for the consumer at least, transfers of `bytes` to it. */
static void open_scene(struct bench *b, struct scene *s, const struct cut *cut, uint64_t pool, uint64_t bytes)
{
    const uint64_t block = SCENE_BLOCK_BYTES(cut->heads / cut->consumers),
                   blocks = (pool > 2 * bytes ? pool : 2 * bytes) / block;
    scene_open(
        b, s, &(struct scene_form){.cut = cut, .num_blocks = (uint32_t)blocks, .max_batch = (uint32_t)(bytes / block)});
}

/* ---- raw MPI ----------------------------------------------------------------------------------------------------- */

/* The runs of all producers, one producer after the other. Each run is read by itself. */
struct raw_walk {
    const struct scene *scene;
    uint32_t producer; /* the next one */
    struct plan *plan;
    struct plan_transfer transfer;
    struct plan_cursor at;
};

static struct plan_box box_of(const baton_geometry_t *g)
{
    return (struct plan_box){0, 1, g->splits[0].head_first, g->splits[0].head_count, 0};
}

/* Goes on to the next producer that has bytes for the consumer. False: there is none. */
static bool next_producer(struct raw_walk *w)
{
    const struct scene *s = w->scene;
    const baton_geometry_t *mine = &s->cache.geometry;
    const uint32_t batch = s->form.max_batch;
    const struct plan_box all = box_of(mine);
    while (w->producer < s->producers) {
        struct blocks theirs;
        struct plan_why why;
        struct plan_box part;
        scene_describe(s, true, w->producer++, &theirs);
        const struct plan_box box = box_of(&theirs.geometry);
        const bool has = box_intersect(&box, &all, &part);
        plan_destroy(w->plan);
        w->plan = NULL;
        if (has && plan_compile(&theirs.geometry, mine, &part, 1, &w->plan, &why) != 0)
            fail("no plan: %s", why.text);
        blocks_fini(&theirs);
        if (!has)
            continue;
        const struct plan_tables from = {.num = 1, .table = {{s->from_ids, batch, 0}}};
        const struct plan_tables to = {.num = 1, .table = {{s->to_ids, batch, 0}}};
        if (plan_transfer_init(&w->transfer, w->plan, 0, batch * BLOCKS_TOKENS, &from, &to, &why) != 0)
            fail("no transfer: %s", why.text);
        w->at = (struct plan_cursor){0};
        return true;
    }
    return false;
}

static bool next_run(void *arg, struct raw_piece *out)
{
    struct raw_walk *w = arg;
    struct plan_run run;
    while (!w->plan || plan_next(&w->transfer, &w->at, &run, 1, UINT64_MAX) == 0)
        if (!next_producer(w))
            return false;
    *out = (struct raw_piece){.peer = scene_producer(w->scene, w->producer - 1),
                              .mine = w->scene->context.pool + run.dst,
                              .theirs = (MPI_Aint)run.src,
                              .bytes = (int)run.bytes};
    return true;
}

/* Moves by raw MPI what a transfer would move, one MPI_Rget a run. Nanoseconds; 0: it stalled. */
static uint64_t move_raw(struct row *row)
{
    struct scene *s = &row->cut;
    struct raw_walk w = {.scene = s};
    scene_draw(s, s->form.max_batch);
    scene_hold(s);
    const uint64_t ns = s->consumes ? raw_move(&row->raw, RAW_EACH, false, next_run, &w) : 0;
    scene_go_on(s, CHANNEL_IN_MPI);
    plan_destroy(w.plan);
    return ns;
}

/* Bytes of the longest run. */
static uint64_t run_bytes(const struct scene *s)
{
    struct raw_walk w = {.scene = s};
    struct plan_run run = {0};
    if (next_producer(&w))
        plan_next(&w.transfer, &w.at, &run, 1, UINT64_MAX);
    plan_destroy(w.plan);
    return run.bytes;
}

static void probe(struct row *row, int bytes, uint64_t *random, struct samples *out)
{
    const struct scene *s = &row->cut;
    struct blocks theirs;
    scene_describe(s, true, 0, &theirs);
    const double ns =
        raw_get_ns(&row->raw, scene_producer(s, 0), s->context.pool, theirs.geometry.bytes, bytes, random);
    samples_add(out, (uint64_t)(ns * 1000));
    blocks_fini(&theirs);
}

/* What the cost rule of mpi/sieve.h is about: how many bytes cost as much as a get itself. By the fastest tenth, which
   shows what the path costs, without what else the machine does. */
static void note_get_cost(struct bench *b, struct row *row)
{
    struct samples small = {0}, large = {0};
    uint64_t random = b->options.seed;
    scene_hold(&row->cut);
    for (unsigned i = 0; i < PROBES && row->cut.consumes; i++) {
        probe(row, PROBE_SMALL, &random, &small);
        probe(row, PROBE_LARGE, &random, &large);
    }
    scene_go_on(&row->cut, CHANNEL_IN_MPI);
    const double small_ns = samples_us(&small, 0.1), large_ns = samples_us(&large, 0.1);
    const double byte_ns = (large_ns - small_ns) / (PROBE_LARGE - PROBE_SMALL);
    report_note(&b->report,
                "a get costs as much as %.0f bytes: of 64 bytes %.2f us, of 16 KiB %.2f us (64 together, one flush; "
                "the fastest tenth)",
                byte_ns > 0 ? small_ns / byte_ns - PROBE_SMALL : 0, small_ns / 1e3, large_ns / 1e3);
    samples_fini(&small);
    samples_fini(&large);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void open_row(struct bench *b, struct row *row, const struct cut *cut, baton_path_t path)
{
    const uint64_t pool = blocks_pool_bytes(&b->options, POOL_LEAST),
                   bytes = path == BATON_PATH_SHM ? SHM_BYTES : RMA_BYTES;
    const struct scene *s = &row->cut;
    *row = (struct row){
        .path = path,
        .plain = {"hnd-1-1", 1, 1, BATON_LAYOUT_HND, BATON_LAYOUT_HND, cut->heads / cut->consumers, BATON_MODE_PULL}};
    open_scene(b, &row->cut, cut, pool, bytes);
    if (path == BATON_PATH_SHM)
        open_scene(b, &row->yardstick, &row->plain, pool, bytes);
    else
        raw_open(&row->raw, b->roster.comm, s->context.pool, s->context.pool ? s->cache.geometry.bytes : 0);
}

static void close_row(struct row *row)
{
    if (row->path == BATON_PATH_RMA)
        raw_close(&row->raw);
    else
        scene_close(&row->yardstick);
    scene_close(&row->cut);
    transfers_fini(&row->transfers);
    transfers_fini(&row->beside);
}

/* One of each. */
static void turn(struct row *row, bool counts)
{
    scene_take(&row->cut, row->cut.form.max_batch, row->path, counts ? &row->transfers : NULL);
    if (row->path == BATON_PATH_SHM) {
        scene_take(&row->yardstick, row->yardstick.form.max_batch, row->path, counts ? &row->beside : NULL);
        return;
    }
    const uint64_t ns = move_raw(row);
    if (counts && ns > 0)
        samples_add(&row->beside.total, ns);
}

static void measure(struct bench *b, struct row *row)
{
    struct pace pace;
    for (unsigned i = 0; i < WARM_UPS; i++)
        turn(row, false);
    pace_begin(&pace, b, ITERS_LEAST, ITERS_MOST, "%s", row->cut.form.cut->name);
    while (pace_next(&pace))
        turn(row, true);
    scene_verify(&row->cut, row->cut.form.max_batch, false);
    if (row->path == BATON_PATH_SHM)
        scene_verify(&row->yardstick, row->yardstick.form.max_batch, false);
}

static void print(struct bench *b, struct row *row)
{
    const struct scene *s = &row->cut;
    const bool shm = row->path == BATON_PATH_SHM;
    const char *name = s->form.cut->name;
    const uint64_t bytes = scene_bytes(s, s->form.max_batch);
    const double ns = (double)samples_quantile(&row->transfers.total, 0.5),
                 beside_ns = (double)samples_quantile(&row->beside.total, 0.5);
    if (beside_ns == 0)
        fail("raw MPI lost a completion in every turn: nothing to compare with");
    report_row(&b->report,
               "cut=%s|path=%s|run_bytes=%" PRIu64 "|bytes=%" PRIu64
               "|us_p50=%.1f|GBps=%.3f|beside=%s|beside_GBps=%.3f|ratio=%.3f",
               name, bench_path_name(row->path), run_bytes(s), bytes, ns / 1e3, (double)bytes / ns,
               shm ? row->plain.name : "MPI_Rget", (double)bytes / beside_ns, beside_ns / ns);
    report_note(&b->report, "  %s: %zu and %zu samples", name, row->transfers.total.count, row->beside.total.count);
}

static void run_cut(struct bench *b, const struct cut *cut, baton_path_t path, bool first)
{
    struct row row;
    open_row(b, &row, cut, path);
    if (first)
        context_note(b, &row.cut.context);
    if (first && path == BATON_PATH_RMA)
        note_get_cost(b, &row);
    measure(b, &row);
    if (bench_is_consumer(b))
        print(b, &row);
    close_row(&row);
}

/* Opens a context for that alone, since what is opened for a cut depends on the path. */
static baton_path_t find_path(struct bench *b)
{
    const struct cut plain = {"hnd-1-1", 1, 1, BATON_LAYOUT_HND, BATON_LAYOUT_HND, 1, BATON_MODE_PULL};
    struct scene s;
    open_scene(b, &s, &plain, 0, UINT64_C(1) << 20);
    bool shm = s.consumes && baton_inside_peer_pool(s.context.baton, (uint32_t)scene_producer(&s, 0)) != NULL;
    channel_share(b->roster.comm, b->consumer, &shm, sizeof shm);
    scene_close(&s);
    return shm ? BATON_PATH_SHM : BATON_PATH_RMA;
}

/* Over rma, pull measures long runs already, and a push differs only where runs are short: the producer packs them. */
static bool is_wanted(const struct cut *cut, baton_path_t path)
{
    if (path == BATON_PATH_SHM)
        return cut->mode == BATON_MODE_PULL; /* another process makes the same copies */
    return cut->source != BATON_LAYOUT_HND || cut->target != BATON_LAYOUT_HND;
}

void shapes_run(struct bench *b)
{
    bool first = true;
    baton_path_t path = find_path(b);
    report_note(
        &b->report,
        "8 KV heads of 128 channels, 16 tokens a block, K and V, bf16; scattered blocks; consumer's cache %" PRIu64
        " MiB; from baton_want to its event; beside: %s",
        blocks_pool_bytes(&b->options, POOL_LEAST) >> 20,
        path == BATON_PATH_SHM ? "the same bytes between one rank each, HND on both sides"
                               : "one MPI_Rget a run of the same plan, 64 outstanding, the target in MPI_Recv");
    for (unsigned i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const uint32_t ranks = cuts[i].producers + cuts[i].consumers;
        if (!is_wanted(&cuts[i], path))
            continue;
        if (ranks > (uint32_t)b->roster.size) {
            report_note(&b->report, "%s left out: it needs %" PRIu32 " ranks", cuts[i].name, ranks);
            continue;
        }
        run_cut(b, &cuts[i], path, first);
        first = false;
    }
}
