/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rma: the mpi room by its fabric: reading and writing other ranks' segments. Runs on any number of ranks. Cases
 * that need peers on other nodes are skipped where there are none (BATON_FAKE_NODES=2 makes some).
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "front/runs.h"
#include "mpi/sieve.h"
#include "plan/plan.h"
#include "with_clock.h"
#include "with_fabric.h"

/* ---- rma --------------------------------------------------------------------------------------------------------- */

static void reads_a_piece(void)
{
    struct fabric *f = started();
    uint8_t *meta = f->ground.segment + GROUND_META_OFFSET;
    uint32_t peer = far_peer(f);
    uint64_t word = UINT64_C(0x0123456789abcdef) + me();
    if (f->world.nodes < 2) {
        CHECK_EQ(f->net.path.read(f, peer, GROUND_META_OFFSET, 8, 70), BATON_EINVAL);
        CHECK_EQ(f->net.path.board(f, peer, GROUND_META_OFFSET, 80), BATON_EINVAL);
        closed(f);
        return;
    }
    for (uint32_t i = 0; i < 1000; i++)
        meta[i] = byte_at(me(), i);
    memcpy(meta + 2048, &word, sizeof word);
    f->net.sync(f);
    meet(f);
    CHECK_EQ(f->net.path.read(f, peer, GROUND_META_OFFSET + 3, 997, 70), 0);
    struct port_event e = next_event(f);
    CHECK_EQ(e.kind, PORT_READ);
    CHECK_EQ(e.error, 0);
    CHECK_EQ(e.tag, 70);
    CHECK_EQ(e.bytes, 997);
    for (uint32_t b = 0; b < 997 && e.data; b++)
        CHECK_EQ(e.data[b], byte_at(peer, b + 3));
    CHECK_EQ(f->net.path.board(f, peer, GROUND_META_OFFSET + 2048, 80), 0);
    e = next_event(f);
    CHECK_EQ(e.kind, PORT_BOARD);
    CHECK_EQ(e.error, 0);
    CHECK_EQ(e.tag, 80);
    CHECK_EQ(e.generation, UINT64_C(0x0123456789abcdef) + peer);
    closed(f);
}

/* Every rank makes progress for 25 ms, and then until all have. Takes no event. */
static void progress_together(struct fabric *f)
{
    const uint64_t until = clock_now_ns() + 25 * CLOCK_NS_PER_MS;
    struct port_event e;
    MPI_Request all = MPI_REQUEST_NULL;
    for (int done = 0; !done;) {
        CHECK_EQ(f->net.path.progress(f, &e, 0), 0);
        if (clock_now_ns() < until)
            continue;
        if (all == MPI_REQUEST_NULL)
            MPI_Ibarrier(MPI_COMM_WORLD, &all);
        MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    }
}

/* Where messages and completions wait, whoever takes one event a time gets them in turn. */
static void messages_and_reads_take_turns(void)
{
    enum { EACH = 4 };
    const uint8_t letter[16] = {0};
    struct port_event e;
    int came = 0, messages = 0;
    struct fabric *f = started();
    const uint32_t peer = far_peer(f);
    if (f->world.nodes < 2) {
        closed(f);
        return SKIP("two nodes");
    }
    meet(f);
    for (unsigned i = 0; i < EACH; i++) {
        CHECK_EQ(f->net.send(f, me(), letter, sizeof letter), 0);
        CHECK_EQ(f->net.path.board(f, peer, GROUND_META_OFFSET, 80 + i), 0);
    }
    for (int round = 0; round < 20; round++)
        progress_together(f); /* then all are there, however slow a rank is, and none is taken */
    for (uint64_t until = clock_now_ns() + PATIENCE_NS; came < 2 * EACH && clock_now_ns() < until;) {
        const int n = f->net.path.progress(f, &e, 1);
        came += n;
        if (n == 1 && came <= EACH)
            messages += e.kind == PORT_MESSAGE;
    }
    CHECK_EQ(came, 2 * EACH);
    CHECK_EQ(messages, EACH / 2);
    closed(f);
}

static void refuses_to_read_outside(void)
{
    struct fabric *f = started();
    uint32_t peer = far_peer(f);
    uint64_t end = f->ground.pool_offset + POOL_BYTES;
    CHECK_EQ(f->net.path.read(f, peer, end, 1, 1), BATON_EMESSAGE);
    CHECK_EQ(f->net.path.read(f, peer, end - 8, 9, 1), BATON_EMESSAGE);
    CHECK_EQ(f->net.path.read(f, peer, UINT64_MAX - 3, 8, 1), BATON_EMESSAGE);
    CHECK_EQ(f->net.path.board(f, peer, end - 4, 1), BATON_EMESSAGE);
    CHECK_EQ(f->net.path.board(f, peer, UINT64_MAX, 1), BATON_EMESSAGE);
    CHECK_EQ(f->net.path.read(f, peer, 0, 0, 1), BATON_EINVAL);
    CHECK_EQ(f->net.path.read(f, f->ground.num_peers, 0, 8, 1), BATON_EINVAL);
    CHECK_EQ(f->net.path.busy(f), 0);
    closed(f);
}

/* As many reads at once as are allowed: those beyond are refused, and all that were taken are answered. */
static void bounds_reads_of_one_peer(void)
{
    struct fabric *f = started();
    uint32_t peer = far_peer(f);
    uint64_t accepted = 0, seen = 0;
    int rc = 0;
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    while (accepted < 100 && (rc = f->net.path.read(f, peer, 0, 64, accepted)) == 0)
        accepted++;
    CHECK_EQ(rc, BATON_EAGAIN);
    CHECK(accepted >= 1 && accepted <= settings.rma_peer_requests);
    for (uint64_t i = 0; i < accepted; i++) {
        struct port_event e = next_event(f);
        CHECK_EQ(e.kind, PORT_READ);
        CHECK(e.tag < accepted);
        seen |= UINT64_C(1) << e.tag;
    }
    CHECK_EQ(seen, (UINT64_C(1) << accepted) - 1);
    closed(f);
}

static void parks_what_is_under_way(void)
{
    struct fabric *f = started();
    uint32_t peer = far_peer(f);
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    CHECK_EQ(f->net.path.park(f, peer, 5), PATH_PARK_QUIET);
    CHECK_EQ(f->net.path.read(f, peer, 0, 4096, 5), 0);
    CHECK_EQ(f->net.path.read(f, peer, 0, 4096, 6), 0);
    CHECK_EQ(f->net.path.read(f, peer, 0, 4096, 5), 0);
    CHECK_EQ(f->net.path.park(f, peer, 5), PATH_PARK_LATER);
    CHECK_EQ(f->net.path.park(f, peer, 5), PATH_PARK_LATER);
    struct port_event first = next_event(f), second = next_event(f);
    struct port_event quiet = first.kind == PORT_QUIET ? first : second;
    struct port_event card = first.kind == PORT_QUIET ? second : first;
    CHECK_EQ(quiet.kind, PORT_QUIET);
    CHECK_EQ(quiet.tag, 5);
    CHECK_EQ(card.kind, PORT_READ);
    CHECK_EQ(card.tag, 6);
    CHECK_EQ(f->net.path.park(f, peer, 5), PATH_PARK_QUIET);
    CHECK_EQ(f->net.path.busy(f), 0);
    closed(f); /* checks that nothing else comes */
}

/* A peer answers nobody for a while: requests to it are parked, and complete when it is back. */
static void parks_a_silent_peer(void)
{
    struct settings before = settings;
    settings.park_ms = 20;
    struct fabric *f = started();
    settings = before;
    uint32_t silent = f->ground.num_peers - 1;
    int moved_aside = 0;
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    meet(f);
    bool reads = f->world.node_of[me()] != f->world.node_of[silent];
    if (reads)
        CHECK_EQ(f->net.path.read(f, silent, 0, 64, 9), 0);
    struct port_event e = {0};
    uint64_t end = clock_now_ns() + 300 * CLOCK_NS_PER_MS;
    if (me() == silent) /* outside of MPI */
        while (clock_now_ns() < end)
            ;
    else
        while (clock_now_ns() < end && e.kind == 0) {
            f->net.path.progress(f, &e, 1);
            moved_aside |= f->net.counts(f).parked >= 1 && f->net.path.busy(f) == 0;
        }
    if (reads && e.kind == 0)
        CHECK(moved_aside);
    if (reads && e.kind == 0)
        e = next_event(f);
    CHECK_EQ(e.kind, reads ? PORT_READ : 0);
    end = clock_now_ns() + PATIENCE_NS;
    while (f->net.counts(f).parked > 0 && clock_now_ns() < end) /* until the probe has completed too */
        CHECK_EQ(f->net.path.progress(f, &e, 1), 0);
    CHECK_EQ(f->net.counts(f).parked, 0);
    closed(f);
}

static volatile sig_atomic_t is_called;

static void hear(int number)
{
    (void)number;
    is_called = 1;
}

/* Rank 0 reads from `silent`, which is outside of MPI until it is called, and longer. Whether the read was parked. */
static int read_from_silent(struct fabric *f, uint32_t silent, int caller)
{
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    struct port_event e = {0};
    int is_parked = 0;
    while (!is_called && clock_now_ns() < deadline)
        f->net.path.progress(f, &e, 1);
    CHECK(is_called);
    CHECK_EQ(f->net.path.read(f, silent, 0, 64, 9), 0);
    while (e.kind == 0 && !is_parked && clock_now_ns() < deadline)
        if (f->net.path.progress(f, &e, 1) == 0)
            is_parked = f->net.counts(f).parked > 0;
    CHECK(is_parked || e.kind == PORT_READ); /* which needed no help */
    CHECK_EQ(kill(caller, SIGUSR1), 0);
    return is_parked;
}

static void stay_silent(int reader)
{
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    CHECK_EQ(kill(reader, SIGUSR1), 0);
    while (!is_called && clock_now_ns() < deadline)
        sleep_ms(1);
    CHECK(is_called);
    sleep_ms(300);
}

/* Whether ids of processes mean the same to all ranks: nodes are pretended. */
static bool is_one_host(void)
{
    struct stat ids = {0};
    char own[128] = "", first[128];
    int is_same;
    gethostname(own, 100);
    if (stat("/proc/self/ns/pid", &ids) == 0)
        snprintf(own + strlen(own), sizeof own - strlen(own), " %ju", (uintmax_t)ids.st_ino);
    memcpy(first, own, sizeof own);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    is_same = strcmp(first, own) == 0;
    MPI_Allreduce(MPI_IN_PLACE, &is_same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return is_same;
}

/* A rank closes while its read of a peer that answers nobody is parked: it waits, and nothing is lost. */
static void closes_while_a_read_is_parked(void)
{
    struct settings before = settings;
    settings.park_ms = 20;
    struct fabric *f = started();
    settings = before;
    const uint32_t silent = f->ground.num_peers - 1; /* not on the node of rank 0 */
    int ids[2] = {getpid(), getpid()}, is_parked = 0;
    if (!is_one_host() || f->world.nodes < 2) {
        closed(f);
        SKIP("several nodes on one host");
        return;
    }
    is_called = 0;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = hear, .sa_flags = SA_RESTART}, NULL);
    MPI_Bcast(&ids[0], 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&ids[1], 1, MPI_INT, (int)silent, MPI_COMM_WORLD);
    meet(f);
    if (me() == 0)
        is_parked = read_from_silent(f, silent, ids[1]);
    else if (me() == silent)
        stay_silent(ids[0]);
    CHECK_EQ(f->calls.close(f, 0), 0);
    MPI_Bcast(&is_parked, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!is_parked)
        SKIP("reads need no help of their peer");
}

/* ---- moving a leg ------------------------------------------------------------------------------------------------ */

#define LAYERS 3u
#define BLOCKS 20u
#define BLOCK_TOKENS 16u

struct cache {
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
};

static void lay_out(struct cache *c, unsigned layout, uint32_t head_first, uint32_t head_count)
{
    c->geometry = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                                     .model = "m",
                                     .dtype = "bf16",
                                     .elem_bytes = 2,
                                     .planes = 2,
                                     .head_size = 32,
                                     .num_groups = 1,
                                     .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = BLOCKS}},
                                     .num_splits = 1,
                                     .splits = {{.heads_total = 4, .head_first = head_first, .head_count = head_count}},
                                     .layers_total = LAYERS,
                                     .layer_count = LAYERS};
    CHECK_EQ(baton_geometry_layout(&c->geometry, c->tensors, layout), 0);
    CHECK(c->geometry.bytes <= POOL_BYTES / 2);
}

static uint64_t entry(const struct cache *c, uint32_t layer, uint32_t block, uint32_t plane, uint32_t head,
                      uint32_t token)
{
    const baton_tensor_t *t = &c->tensors[layer];
    return t->offset + (uint64_t)(block * t->stride.block + plane * t->stride.plane +
                                  (head - c->geometry.splits[0].head_first) * t->stride.head + token * t->stride.token);
}

/* Puts into `pool` what the move must put there: the peer's entries, where they are wanted. Goes entry by entry. */
static void expect(const struct cache *src, const struct cache *dst, uint32_t peer, const uint32_t *from,
                   const uint32_t *to, uint32_t tokens, uint8_t *pool)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t t = 0; t < tokens; t++)
            for (uint32_t p = 0; p < 2; p++)
                for (uint32_t h = dst->geometry.splits[0].head_first;
                     h < dst->geometry.splits[0].head_first + dst->geometry.splits[0].head_count; h++)
                    for (uint32_t b = 0; b < 64; b++) {
                        uint32_t i = t / BLOCK_TOKENS, k = t % BLOCK_TOKENS;
                        pool[entry(dst, l, to[i], p, h, k) + b] = byte_at(peer, entry(src, l, from[i], p, h, k) + b);
                    }
}

static uint32_t told; /* generations that came with the last bytes */

static uint64_t generation_of(uint32_t rank)
{
    return UINT64_C(0x0123456789abcdef) + rank;
}

/*
 * Moves everything, chunk by chunk, and answers others meanwhile. Returns the number of gets or puts. The generation
 * may come with the last bytes, if the leg has a place for it, and never with others.
 */
static uint64_t move_all(struct fabric *f, struct path_leg *leg, uint64_t total)
{
    uint64_t taken = 0, moved = 0, runs = 0, deadline = clock_now_ns() + PATIENCE_NS;
    struct port_event events[EVENTS];
    while (moved < total && clock_now_ns() < deadline) {
        if (!plan_at_end(leg->transfer, leg->cursor)) {
            int64_t n = runs_move(&f->net, leg, 10000);
            CHECK((n > 0 && n <= 10000) || n == BATON_EAGAIN);
            taken += n > 0 ? (uint64_t)n : 0;
        }
        int came = f->net.path.progress(f, events, EVENTS);
        for (int i = 0; i < came; i++) {
            CHECK_EQ(events[i].kind, PORT_MOVED);
            CHECK_EQ(events[i].error, 0);
            CHECK_EQ(events[i].tag, leg->tag);
            CHECK(events[i].runs > 0);
            runs += events[i].runs;
            moved += events[i].moved;
            if (events[i].generation != 0) {
                CHECK_EQ(events[i].generation, generation_of(leg->peer));
                CHECK(leg->board != 0 && moved == total);
                told++;
            }
        }
    }
    CHECK_EQ(taken, total);
    CHECK_EQ(moved, total);
    while (f->net.path.busy(f) > 0 && clock_now_ns() < deadline) /* a peer that was late on a busy machine was probed */
        CHECK_EQ(f->net.path.progress(f, events, EVENTS), 0);
    CHECK_EQ(f->net.path.busy(f), 0);
    return runs;
}

/* Waits until what was put is in place at the peer. Each rank answers others meanwhile. */
static void settle(struct fabric *f, uint32_t peer, uint64_t tag)
{
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    int error = BATON_EAGAIN;
    struct port_event e = {0};
    while ((error == BATON_EAGAIN || e.kind == 0) && clock_now_ns() < deadline) {
        if (error == BATON_EAGAIN)
            error = f->net.path.settle(f, peer, tag);
        f->net.path.progress(f, &e, 1);
    }
    CHECK_EQ(error, 0);
    CHECK_EQ(e.kind, PORT_SETTLED);
    CHECK_EQ(e.error, 0);
    CHECK_EQ(e.tag, tag);
}

static const uint32_t from_blocks[] = {3, 4, 5, 17, 0, 9}, to_blocks[] = {11, 12, 13, 2, 3, 19};

/* What one rank moves: everything that its far peer has of some heads. */
struct leg {
    struct cache src, dst;
    struct plan *plan;
    struct plan_transfer *transfer;
    struct plan_cursor cursor;
    struct path_region region;
    struct path_regions theirs;
    struct path_leg leg;
    uint8_t *expected; /* what my pool must hold afterwards */
};

/*
 * Every pool is read and written here: what is read lies in its first half, what is written in the other. A far peer's
 * far peer is this rank, so what is expected is the same in either direction.
 */
static void leg_init(struct leg *m, struct fabric *f, bool write, unsigned src_layout, unsigned dst_layout,
                     uint32_t head_first, uint32_t head_count)
{
    const uint32_t tokens = 5 * BLOCK_TOKENS + 7;
    struct plan_box box = {0, LAYERS, head_first, head_count, 0};
    struct plan_why why;
    *m = (struct leg){.transfer = calloc(1, sizeof *m->transfer), .expected = malloc(POOL_BYTES)};
    lay_out(&m->src, src_layout, 0, 4);
    lay_out(&m->dst, dst_layout, head_first, head_count);
    fill_pool(f);
    f->net.sync(f);
    meet(f);
    memcpy(m->expected, pool_of(f), POOL_BYTES);
    for (uint32_t l = 0; l < LAYERS; l++)
        m->dst.tensors[l].offset += POOL_BYTES / 2;
    m->dst.geometry.bytes = POOL_BYTES;
    expect(&m->src, &m->dst, far_peer(f), from_blocks, to_blocks, tokens, m->expected);
    CHECK_EQ(plan_compile(&m->src.geometry, &m->dst.geometry, &box, 1, &m->plan, &why), 0);
    const struct plan_tables from = {.num = 1, .table = {{from_blocks, 6, 0}}},
                             to = {.num = 1, .table = {{to_blocks, 6, 0}}};
    CHECK_EQ(plan_transfer_init(m->transfer, m->plan, 0, tokens, &from, &to, &why), 0);
    m->region = (struct path_region){f->ground.pool_offset, POOL_BYTES, false};
    m->theirs = (struct path_regions){.num = 1, .region = &m->region};
    m->leg = (struct path_leg){far_peer(f), write, 42, m->transfer, &m->cursor, &m->theirs, 0};
}

static void leg_free_plan(struct leg *m)
{
    free(m->transfer);
    plan_destroy(m->plan);
    m->transfer = NULL;
    m->plan = NULL;
}

static void leg_fini(struct leg *m)
{
    leg_free_plan(m);
    free(m->expected);
}

static void move_between(struct fabric *f, bool write, unsigned src_layout, unsigned dst_layout, uint32_t head_first,
                         uint32_t head_count)
{
    struct leg m;
    const uint64_t mine = generation_of(me());
    memcpy(f->ground.segment + GROUND_META_OFFSET, &mine, sizeof mine);
    leg_init(&m, f, write, src_layout, dst_layout, head_first, head_count);
    m.leg.board = write ? 0 : GROUND_META_OFFSET;
    move_all(f, &m.leg, m.transfer->bytes);
    if (write) {
        settle(f, m.leg.peer, 42);
        meet(f); /* by messages after it: what the peer wrote here is in place */
        f->net.sync(f);
    } else {
        CHECK_EQ(f->net.path.board(f, m.leg.peer, GROUND_META_OFFSET, 43), 0);
        CHECK_EQ(next_event(f).kind, PORT_BOARD);
    }
    CHECK(memcmp(pool_of(f), m.expected, POOL_BYTES) == 0);
    leg_fini(&m);
    meet(f);
}

static void move_all_ways(bool write)
{
    struct fabric *f = started();
    const uint32_t before = told;
    if (f->world.nodes < 2)
        SKIP("one node");
    else {
        move_between(f, write, BATON_LAYOUT_NHD, BATON_LAYOUT_NHD, 0, 4);
        move_between(f, write, BATON_LAYOUT_HND, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK, 0, 4);
        move_between(f, write, BATON_LAYOUT_NHD, BATON_LAYOUT_HND, 0, 4);
        move_between(f, write, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_FUSED, BATON_LAYOUT_NHD, 1, 2);
        move_between(f, write, BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR, BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR,
                     0, 4);
        CHECK(write || told > before); /* of each, where there was room to read it at once */
    }
    closed(f);
}

static void reads_every_byte(void)
{
    move_all_ways(false);
}

static void writes_every_byte(void)
{
    move_all_ways(true);
}

/* Where a put's request implies nothing at the peer: puts are settled by flushes. */
static void writes_where_requests_are_local(void)
{
    struct settings before = settings;
    settings.rma_put = 2;
    move_all_ways(true);
    settings = before;
}

static void moves_with_one_run_a_request(void)
{
    struct settings before = settings;
    settings.rma_gets_per_request = 1;
    move_all_ways(false);
    move_all_ways(true);
    settings = before;
}

/* Without a sieve, and with one for all. */
static void moves_with_few_sieves(void)
{
    struct settings before = settings;
    for (int write = 0; write < 2; write++) {
        settings.rma_sieve_bytes = 0;
        move_all_ways(write);
        settings.rma_sieve_bytes = sizeof(struct sieve);
        move_all_ways(write);
    }
    settings = before;
}

/* Through sieves there are fewer requests than runs. */
static void reads_short_runs_together(void)
{
    struct fabric *f = started();
    struct leg m;
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    leg_init(&m, f, false, BATON_LAYOUT_HND, BATON_LAYOUT_NHD, 0, 4);
    uint64_t gets = move_all(f, &m.leg, m.transfer->bytes);
    CHECK(gets * 16 < m.transfer->bytes / 64); /* runs of 64 bytes */
    CHECK(memcmp(pool_of(f), m.expected, POOL_BYTES) == 0);
    leg_fini(&m);
    closed(f);
}

/* The heads that one of two ranks takes of NHD blocks: apart here, and without a gap between them there. */
static void writes_short_runs_together(void)
{
    struct fabric *f = started();
    struct leg m;
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    leg_init(&m, f, true, BATON_LAYOUT_NHD, BATON_LAYOUT_NHD, 0, 2);
    uint64_t puts = move_all(f, &m.leg, m.transfer->bytes);
    CHECK(puts * 8 < m.transfer->bytes / 128); /* runs of 128 bytes */
    settle(f, m.leg.peer, 42);
    meet(f);
    f->net.sync(f);
    CHECK(memcmp(pool_of(f), m.expected, POOL_BYTES) == 0);
    leg_fini(&m);
    closed(f);
}

/* Nothing of a leg that was given up comes into a block, whether or not its bytes are still under way. */
static void gives_up_in_the_middle(void)
{
    struct fabric *f = started();
    struct leg m;
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    for (int turns = 0; turns < 40; turns++) {
        leg_init(&m, f, false, BATON_LAYOUT_HND, BATON_LAYOUT_NHD, 0, 4);
        m.leg.tag = 100 + (uint64_t)turns;
        struct port_event e;
        CHECK(runs_move(&f->net, &m.leg, 8192) > 0);
        for (int i = 0; i < turns / 4; i++)
            f->net.path.progress(f, &e, 1);
        CHECK(runs_move(&f->net, &m.leg, 8192) > 0);
        enum path_park park = f->net.path.park(f, m.leg.peer, m.leg.tag);
        CHECK_EQ(park, PATH_PARK_LATER);
        memcpy(m.expected, pool_of(f), POOL_BYTES);
        leg_free_plan(&m); /* the path does not need it any more */
        e = next_event(f);
        CHECK_EQ(e.kind, PORT_QUIET);
        CHECK_EQ(e.tag, m.leg.tag);
        CHECK_EQ(meet(f), 0);
        CHECK(memcmp(pool_of(f), m.expected, POOL_BYTES) == 0);
        CHECK_EQ(f->net.path.park(f, m.leg.peer, m.leg.tag), PATH_PARK_QUIET);
        leg_fini(&m);
    }
    closed(f);
}

/* The same with a peer that answers nobody, so that requests to it are parked; then it is back, and is read from. */
static void gives_up_on_a_silent_peer(void)
{
    struct settings before = settings;
    settings.park_ms = 20;
    struct fabric *f = started();
    settings = before;
    struct leg m;
    struct port_event e = {0};
    uint32_t silent = f->ground.num_peers - 1;
    if (f->world.nodes < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    leg_init(&m, f, false, BATON_LAYOUT_NHD, BATON_LAYOUT_HND, 0, 4);
    meet(f);
    bool reads = m.leg.peer == silent;
    int64_t taken = 0, moved = 0;
    if (reads)
        CHECK((taken = runs_move(&f->net, &m.leg, 8192)) > 0);
    uint64_t end = clock_now_ns() + 200 * CLOCK_NS_PER_MS;
    while (clock_now_ns() < end) /* the silent one is outside of MPI */
        if (me() != silent && f->net.path.progress(f, &e, 1) == 1 && reads) {
            CHECK_EQ(e.kind, PORT_MOVED);
            moved += (int64_t)e.moved;
        }
    if (reads) {
        enum path_park park = f->net.path.park(f, silent, m.leg.tag);
        memcpy(m.expected, pool_of(f), POOL_BYTES);
        CHECK_EQ(park,
                 moved < taken ? PATH_PARK_LATER : PATH_PARK_QUIET); /* QUIET: it could be read without its help */
        if (park == PATH_PARK_LATER)
            CHECK_EQ(next_event(f).kind, PORT_QUIET);
    }
    meet(f);
    if (reads)
        CHECK(memcmp(pool_of(f), m.expected, POOL_BYTES) == 0);
    leg_fini(&m);
    end = clock_now_ns() + PATIENCE_NS;
    while (f->net.counts(f).parked > 0 && clock_now_ns() < end) /* until the probe has completed too */
        CHECK_EQ(f->net.path.progress(f, &e, 1), 0);
    meet(f);
    move_between(f, false, BATON_LAYOUT_NHD, BATON_LAYOUT_HND, 0, 4);
    closed(f);
}

static void refuses_to_move_outside(void)
{
    struct fabric *f = started();
    static const uint32_t blocks[] = {19};
    struct plan_box all = {0, LAYERS, 0, 4, 0};
    struct cache c;
    struct plan *plan = NULL;
    struct plan_why why;
    struct plan_cursor cursor = {0};
    struct plan_transfer *transfer = calloc(1, sizeof *transfer);
    lay_out(&c, BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR, 0, 4);
    CHECK_EQ(plan_compile(&c.geometry, &c.geometry, &all, 1, &plan, &why), 0);
    const struct plan_tables tables = {.num = 1, .table = {{blocks, 1, 0}}};
    CHECK_EQ(plan_transfer_init(transfer, plan, 0, BLOCK_TOKENS, &tables, &tables, &why), 0);
    uint64_t end = f->ground.pool_offset + POOL_BYTES;
    struct path_region region = {end - 100, c.geometry.bytes, false};
    const struct path_regions theirs = {.num = 1, .region = &region};
    struct path_leg leg = {far_peer(f), false, 1, transfer, &cursor, &theirs, 0};
    int outside = f->world.nodes < 2 ? BATON_EINVAL : BATON_EMESSAGE;
    CHECK_EQ(runs_move(&f->net, &leg, 1 << 20), outside);
    region.at = UINT64_MAX - 5;
    CHECK_EQ(runs_move(&f->net, &leg, 1 << 20), outside);
    region.at = f->ground.pool_offset;
    region.bytes = c.geometry.bytes - 1; /* the last block's last run ends at the geometry's end */
    cursor.unit_done = transfer->bytes - 8;
    CHECK_EQ(runs_move(&f->net, &leg, 1 << 20), outside);
    cursor = (struct plan_cursor){0};
    CHECK(cursor.piece == 0 && cursor.token == 0 && cursor.unit_done == 0);
    CHECK_EQ(f->net.path.busy(f), 0);
    free(transfer);
    plan_destroy(plan);
    closed(f);
}

int main(int argc, char **argv)
{
    fabric_tests_begin(&argc, &argv);
    RUN(reads_a_piece);
    RUN(messages_and_reads_take_turns);
    RUN(refuses_to_read_outside);
    RUN(bounds_reads_of_one_peer);
    RUN(parks_what_is_under_way);
    RUN(parks_a_silent_peer);
    RUN(closes_while_a_read_is_parked);
    RUN(reads_every_byte);
    RUN(writes_every_byte);
    RUN(writes_where_requests_are_local);
    RUN(moves_with_one_run_a_request);
    RUN(moves_with_few_sieves);
    RUN(reads_short_runs_together);
    RUN(writes_short_runs_together);
    RUN(gives_up_in_the_middle);
    RUN(gives_up_on_a_silent_peer);
    RUN(refuses_to_move_outside);
    return harness_end();
}
