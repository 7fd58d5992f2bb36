/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shapes: what it costs that two caches are cut differently. Every cut is measured in turn with a yardstick. Over
 * shared memory, that is the same bytes between two ranks whose caches are laid out alike; over rma, it is one MPI_Rget
 * for each run of the same plan. Both are timed from end to end, to one consumer, while all other ranks are at rest.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/channel.h"
#include "bench/conditions.h"
#include "bench/fail.h"
#include "bench/pace.h"
#include "bench/pool.h"
#include "bench/raw.h"
#include "bench/samples.h"
#include "bench/scene.h"
#include "front/inside.h"

static const char *const columns[] = {"op",     "cut",  "path",   "run_bytes",   "bytes",
                                      "us_p50", "GBps", "beside", "beside_GBps", "ratio"};

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

enum { CUT, YARDSTICK };

struct row {
    struct scenes scenes;
    struct scene scene[SCENES_MOST];
    struct raw raw; /* path rma */
    baton_path_t path;
    struct samples samples[2];
};

static baton_path_t path_between(const struct bench *b, const struct scene *s)
{
    int producer = b->consumer == 0, shm = 0;
    if (bench_is_consumer(b))
        shm = baton_inside_peer_pool(s->context.baton, (uint32_t)producer) != NULL;
    MPI_Bcast(&shm, 1, MPI_INT, b->consumer, b->roster.comm);
    return shm ? BATON_PATH_SHM : BATON_PATH_RMA;
}

static void open_row(struct bench *b, struct row *row, const struct cut *cut, baton_path_t path)
{
    uint64_t pool = pool_bytes(&b->options, POOL_LEAST), bytes = path == BATON_PATH_SHM ? SHM_BYTES : RMA_BYTES;
    struct cut plain = {"hnd-1-1",      1, 1, BATON_LAYOUT_HND, BATON_LAYOUT_HND, cut->heads / cut->consumers,
                        BATON_MODE_PULL};
    *row = (struct row){.path = path};
    scene_open(b, &row->scenes, &row->scene[CUT], cut, pool, bytes);
    const struct scene *s = &row->scene[CUT];
    if (path == BATON_PATH_SHM)
        scene_open(b, &row->scenes, &row->scene[YARDSTICK], &plain, pool, bytes);
    else
        raw_open(&row->raw, b->roster.comm, s->context.pool, s->context.pool ? s->geometry.bytes : 0);
}

static void close_row(struct row *row)
{
    if (row->path == BATON_PATH_RMA)
        raw_close(&row->raw);
    while (row->scenes.count > 0)
        scene_close(&row->scenes);
    samples_fini(&row->samples[CUT]);
    samples_fini(&row->samples[YARDSTICK]);
}

/* One of each. */
static void turn(struct row *row, bool counts)
{
    baton_path_t path = row->path, other = row->path;
    uint64_t ns[2];
    ns[CUT] = scene_move(&row->scenes, CUT, &path);
    ns[YARDSTICK] = row->path == BATON_PATH_SHM ? scene_move(&row->scenes, YARDSTICK, &other)
                                                : scene_raw(&row->scenes, CUT, &row->raw);
    if (path != row->path || other != row->path)
        fail("the blocks came by another path than expected");
    for (unsigned i = 0; i < 2 && counts; i++)
        if (ns[i] > 0 && samples_add(&row->samples[i], ns[i]) != 0)
            fail("out of memory for samples");
}

static void measure(struct bench *b, struct row *row)
{
    struct pace pace;
    for (unsigned i = 0; i < WARM_UPS; i++)
        turn(row, false);
    pace_begin(&pace, b, ITERS_LEAST, ITERS_MOST, "%s", row->scene[CUT].cut.name);
    while (pace_next(&pace))
        turn(row, true);
    for (unsigned i = 0; i < row->scenes.count; i++)
        scene_verify(&row->scenes, i);
}

static void print(struct bench *b, struct row *row)
{
    const struct scene *s = &row->scene[CUT];
    bool shm = row->path == BATON_PATH_SHM;
    uint64_t median[2];
    double bytes = (double)scene_bytes(s);
    struct report_row out = {0};
    for (unsigned i = 0; i < 2; i++)
        median[i] = samples_quantile(&row->samples[i], 0.5);
    if (median[YARDSTICK] == 0)
        fail("raw MPI lost a completion in every turn: nothing to compare with");
    report_cell(&out, "%s", options_op_name(&b->options));
    report_cell(&out, "%s", s->cut.name);
    report_cell(&out, "%s", shm ? "shm" : "rma");
    report_cell(&out, "%" PRIu64, scene_run_bytes(s));
    report_cell(&out, "%" PRIu64, scene_bytes(s));
    report_cell(&out, "%.1f", (double)median[CUT] / 1e3);
    report_cell(&out, "%.3f", bytes / (double)median[CUT]);
    report_cell(&out, "%s", shm ? row->scene[YARDSTICK].cut.name : "MPI_Rget");
    report_cell(&out, "%.3f", bytes / (double)median[YARDSTICK]);
    report_cell(&out, "%.3f", (double)median[YARDSTICK] / (double)median[CUT]);
    report_add(&b->report, &out);
    report_note(&b->report, "  %s: %zu and %zu samples", s->cut.name, row->samples[CUT].count,
                row->samples[YARDSTICK].count);
}

/* What the cost rule of mpi/sieve.h is about. */
static void note_get_cost(struct bench *b, struct row *row)
{
    double small, large, bytes = scene_get_bytes(&row->scenes, CUT, &row->raw, &small, &large);
    report_note(&b->report,
                "a get costs as much as %.0f bytes: of 64 bytes %.2f us, of 16 KiB %.2f us (64 together, one flush; "
                "the fastest tenth)",
                bytes, small / 1e3, large / 1e3);
}

static void run_cut(struct bench *b, const struct cut *cut, baton_path_t path, bool first)
{
    struct row row;
    open_row(b, &row, cut, path);
    if (first)
        conditions_note_baton(b, row.scene[CUT].context.baton);
    if (bench_is_consumer(b)) {
        if (first && path == BATON_PATH_RMA)
            note_get_cost(b, &row);
        measure(b, &row);
        print(b, &row);
    }
    scenes_serve(&row.scenes);
    close_row(&row);
}

/* Opens a context for that alone, since what is opened for a cut depends on the path. */
static baton_path_t find_path(struct bench *b)
{
    struct cut plain = {"hnd-1-1", 1, 1, BATON_LAYOUT_HND, BATON_LAYOUT_HND, 1, BATON_MODE_PULL};
    struct scenes scenes = {0};
    struct scene scene;
    scene_open(b, &scenes, &scene, &plain, 0, UINT64_C(1) << 20);
    baton_path_t path = path_between(b, &scene);
    scene_close(&scenes);
    return path;
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
    report_open(&b->report, &b->options, bench_is_consumer(b), columns, sizeof columns / sizeof *columns);
    conditions_note(b);
    baton_path_t path = find_path(b);
    report_note(
        &b->report,
        "8 KV heads of 128 channels, 16 tokens a block, K and V, bf16; scattered blocks; consumer's cache %" PRIu64
        " MiB; from baton_want to its event; beside: %s",
        pool_bytes(&b->options, POOL_LEAST) >> 20,
        path == BATON_PATH_SHM ? "the same bytes between one rank each, HND on both sides"
                               : "one MPI_Rget a run of the same plan, 64 outstanding, the target in MPI_Recv");
    for (unsigned i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        if (!is_wanted(&cuts[i], path))
            continue;
        if (scene_ranks(&cuts[i]) > (uint32_t)b->roster.size) {
            report_note(&b->report, "%s left out: it needs %" PRIu32 " ranks", cuts[i].name, scene_ranks(&cuts[i]));
            continue;
        }
        run_cut(b, &cuts[i], path, first);
        first = false;
    }
}
