/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staged: notes; and two ranks in one process that stage bytes for each other over segments of plain memory and a queue
 * of notes, with a driver that ends copies late and in any order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "baton.h"
#include "staged/note.h"
#include "staged/staged.h"

enum { BLOCKS = 64, TOKENS = 8 * BLOCKS, AREA_OFFSET = 4096, SLOTS = 2, NOTES = 256, COPIES = 64, EVENTS = 64 };
#define AREA_BYTES (SLOTS * (STAGED_SLOT_BYTES + 4096))
#define SEGMENT_BYTES (AREA_OFFSET + AREA_BYTES)

struct letter {
    uint32_t from, to, bytes;
    uint8_t data[WIRE_MESSAGE_MAX];
};

/* An answer of the path below, which comes later. */
struct below {
    struct port_event event;
    uint8_t *data;
};

struct copying {
    uint64_t tag;
    bool to_device;
    uint32_t num;
    baton_piece_t pieces[NOTE_RUNS];
};

struct rank {
    uint32_t self;
    struct staged *staged;
    struct path path, under;
    uint8_t *segment, *cache;
    struct path_region region;
    struct path_regions mine;
    struct below answers[EVENTS];
    int num_answers;
    /* the driver */
    baton_driver_t driver;
    struct copying copies[COPIES];
    int num_copies;
    bool held; /* copies do not end */
    bool mute; /* reads of segments are not answered */
    bool lies; /* each copy ends twice */
    int error; /* what they end with */
    struct port_event events[EVENTS];
    int num_events;
};

static struct rank ranks[2];
static struct letter letters[NOTES];
static int num_letters, refusals;

/* What the path below does to the call after so many of its kind. */
enum failing { NOTHING, READ_REFUSED, READ_FAILS, BOARD_REFUSED, BOARD_FAILS, NOTE_REFUSED, FAILINGS };
static struct {
    enum failing what;
    int before; /* negative: it has happened */
} failure;

/* Whether this call is the one. */
static bool fails(enum failing what)
{
    return failure.what == what && failure.before >= 0 && failure.before-- == 0;
}

static uint64_t random_state;
static char said[256]; /* the last line of the log */

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level, (void)source;
    snprintf(said, sizeof said, "%s", line);
}

static const struct logger logger = {.level = LOG_WARN, .sink = hear};

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1;
    return (random_state >> 33) % below;
}

/* ---- what the path stands on ------------------------------------------------------------------------------------- */

static const struct path *segment_of(void *arg, uint32_t peer)
{
    (void)peer;
    return &((struct rank *)arg)->under;
}

static int send_note(void *arg, uint32_t peer, const void *message, uint32_t bytes)
{
    if (fails(NOTE_REFUSED))
        return BATON_EPEER;
    if (refusals > 0) {
        refusals--;
        return BATON_EAGAIN;
    }
    assert_in_range(num_letters, 0, NOTES - 1);
    struct letter *l = &letters[num_letters++];
    l->from = ((struct rank *)arg)->self;
    l->to = peer;
    l->bytes = bytes;
    memcpy(l->data, message, bytes);
    return 0;
}

static void sync_nothing(void *arg)
{
    (void)arg;
}

static struct port_event *answer(struct rank *r, enum port_event_kind kind, uint64_t tag)
{
    assert_in_range(r->num_answers, 0, EVENTS - 1);
    struct below *b = &r->answers[r->num_answers++];
    *b = (struct below){.event = {.kind = kind, .tag = tag}};
    return &b->event;
}

static int under_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct rank *r = self;
    if (offset > SEGMENT_BYTES || bytes > SEGMENT_BYTES - offset)
        return BATON_EMESSAGE;
    if (fails(READ_REFUSED))
        return BATON_EPEER;
    struct port_event *e = answer(r, PORT_READ, tag);
    uint8_t *data = malloc(bytes);
    memcpy(data, ranks[peer].segment + offset, bytes);
    r->answers[r->num_answers - 1].data = data;
    e->data = data;
    e->bytes = bytes;
    if (fails(READ_FAILS))
        *e = (struct port_event){.kind = PORT_READ, .tag = tag, .error = BATON_EPEER};
    return 0;
}

static int under_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    if (offset > SEGMENT_BYTES - 8)
        return BATON_EMESSAGE;
    if (fails(BOARD_REFUSED))
        return BATON_EPEER;
    struct port_event *e = answer(self, PORT_BOARD, tag);
    memcpy(&e->generation, ranks[peer].segment + offset, 8);
    e->error = fails(BOARD_FAILS) ? BATON_EPEER : 0;
    return 0;
}

static enum path_park under_park(void *self, uint32_t peer, uint64_t tag)
{
    (void)self, (void)peer, (void)tag;
    return PATH_PARK_QUIET;
}

static int driver_copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    struct rank *r = self;
    if (r->num_copies == COPIES || draw(4) == 0)
        return BATON_EAGAIN;
    struct copying *c = &r->copies[r->num_copies++];
    *c = (struct copying){.tag = tag, .to_device = to_device != 0, .num = num};
    memcpy(c->pieces, pieces, num * sizeof *pieces);
    return 0;
}

static int driver_poll(void *self, uint64_t *tags, int *errors, int max)
{
    struct rank *r = self;
    int n = 0;
    while (n < max && !r->held && r->num_copies > 0 && draw(3) > 0) {
        struct copying *c = &r->copies[draw((uint64_t)r->num_copies)];
        for (uint32_t i = 0; i < c->num && r->error == 0; i++)
            memcpy(c->to_device ? c->pieces[i].device : c->pieces[i].host,
                   c->to_device ? c->pieces[i].host : c->pieces[i].device, c->pieces[i].bytes);
        tags[n] = c->tag;
        errors[n++] = r->error;
        *c = r->copies[--r->num_copies];
        if (r->lies && n < max) {
            tags[n] = tags[n - 1]; /* which has ended just now */
            errors[n++] = 0;
        }
    }
    return n;
}

/* ---- a world ----------------------------------------------------------------------------------------------------- */

struct leg {
    baton_geometry_t g;
    baton_tensor_t tensor;
    struct plan *plan;
    struct plan_transfer transfer;
    struct plan_cursor cursor;
    uint32_t src[BLOCKS], dst[BLOCKS];
    struct path_leg leg;
};

static void leg_init(struct leg *l, uint32_t peer, bool write)
{
    const struct plan_box all = {0, 1, 0, 1, 0};
    struct plan_why why;
    memset(l, 0, sizeof *l);
    l->g = (baton_geometry_t){.size = sizeof l->g,
                              .model = "m",
                              .dtype = "bf16",
                              .elem_bytes = 2,
                              .planes = 2,
                              .head_size = 128,
                              .num_groups = 1,
                              .groups = {{.block_tokens = 8, .num_blocks = BLOCKS}},
                              .num_splits = 1,
                              .splits = {{.heads_total = 1, .head_count = 1}},
                              .layers_total = 1,
                              .layer_count = 1};
    assert_int_equal(baton_geometry_layout(&l->g, &l->tensor, 0), 0);
    assert_int_equal(plan_compile(&l->g, &l->g, &all, 1, &l->plan, &why), 0);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        l->src[i] = i * 7 % BLOCKS;
        l->dst[i] = i * 13 % BLOCKS;
    }
    const struct plan_tables from = {.num = 1, .table = {{l->src, BLOCKS, 0}}},
                             to = {.num = 1, .table = {{l->dst, BLOCKS, 0}}};
    assert_int_equal(plan_transfer_init(&l->transfer, l->plan, 0, TOKENS, &from, &to, &why), 0);
    l->leg = (struct path_leg){peer, write, 7, &l->transfer, &l->cursor, &ranks[peer].mine, 0};
}

static uint64_t cache_bytes(void)
{
    struct leg l;
    leg_init(&l, 1, false);
    plan_destroy(l.plan);
    return l.g.bytes;
}

static void world_init(uint64_t seed, bool devices, uint64_t lent_ms)
{
    uint64_t bytes = cache_bytes();
    random_state = seed;
    num_letters = refusals = 0;
    failure.what = NOTHING;
    for (uint32_t i = 0; i < 2; i++) {
        struct rank *r = &ranks[i];
        *r = (struct rank){.self = i};
        r->segment = calloc(1, SEGMENT_BYTES);
        r->cache = malloc(bytes);
        for (uint64_t k = 0; k < bytes; k++)
            r->cache[k] = (uint8_t)(k * 31 + k / 509 + i * 101);
        r->region = (struct path_region){(uint64_t)(uintptr_t)r->cache, bytes, devices};
        r->mine = (struct path_regions){true, 1, &r->region};
        r->under = (struct path){.self = r, .read = under_read, .board = under_board, .park = under_park};
        r->driver = (baton_driver_t){sizeof r->driver, "test", r, driver_copy, driver_poll};
        const struct staged_wish wish = {.num_ranks = 2,
                                         .ground = {r, segment_of, send_note, sync_nothing},
                                         .area = r->segment + AREA_OFFSET,
                                         .area_offset = AREA_OFFSET,
                                         .area_bytes = AREA_BYTES,
                                         .mine = &r->mine,
                                         .is_writable = true,
                                         .driver = devices ? &r->driver : NULL,
                                         .lent_ms = lent_ms,
                                         .log = &logger};
        assert_int_equal(staged_create(&wish, &r->staged), 0);
        staged_path(r->staged, &r->path);
    }
}

static void world_fini(void)
{
    for (int i = 0; i < 2; i++) {
        ranks[i].held = false;
        assert_int_equal(ranks[i].path.close(ranks[i].staged), 0);
        for (int k = 0; k < ranks[i].num_answers; k++)
            free(ranks[i].answers[k].data);
        free(ranks[i].segment);
        free(ranks[i].cache);
    }
}

static void deliver(uint32_t to)
{
    for (int i = 0; i < num_letters;) {
        if (letters[i].to != to) {
            i++;
            continue;
        }
        struct letter l = letters[i];
        memmove(&letters[i], &letters[i + 1], (size_t)(--num_letters - i) * sizeof letters[0]);
        const struct port_event e = {.kind = PORT_MESSAGE, .peer = l.from, .data = l.data, .bytes = l.bytes};
        assert_true(staged_takes(ranks[to].staged, &e));
    }
}

static void turn(uint32_t self)
{
    struct rank *r = &ranks[self];
    deliver(self);
    int n = r->mute ? 0 : r->num_answers;
    for (int i = 0; i < n; i++) {
        struct below b = r->answers[i];
        assert_true(staged_takes(r->staged, &b.event));
        free(b.data);
    }
    memmove(r->answers, r->answers + n, (size_t)(r->num_answers - n) * sizeof r->answers[0]);
    r->num_answers -= n;
    r->num_events += r->path.progress(r->staged, r->events + r->num_events, EVENTS - r->num_events);
}

/* Turns until nothing is left to do. */
static void settle_down(void)
{
    for (int i = 0; i < 10000; i++) {
        turn(0);
        turn(1);
        if (num_letters == 0 && !ranks[0].path.busy(ranks[0].staged) && !ranks[1].path.busy(ranks[1].staged))
            return;
    }
    fail_msg("the exchanges do not end");
}

/* Moves all of a leg. Returns the error that its bytes ended with; bytes of all events go to *moved. */
static int move_all(struct rank *r, struct leg *l, uint64_t *moved)
{
    int error = 0;
    *moved = 0;
    for (int i = 0; i < 100000 && *moved < l->transfer.bytes; i++) {
        if (!plan_at_end(&l->transfer, &l->cursor)) {
            int64_t taken = r->path.move(r->staged, &l->leg, 1 + draw(40000));
            assert_true(taken > 0 || taken == BATON_EAGAIN);
        }
        turn((uint32_t)draw(2));
        for (int k = 0; k < r->num_events; k++) {
            assert_int_equal(r->events[k].kind, PORT_MOVED);
            assert_int_equal(r->events[k].tag, 7);
            *moved += r->events[k].moved;
            error = r->events[k].error != 0 ? r->events[k].error : error;
        }
        r->num_events = 0;
    }
    return error;
}

static void assert_arrived(const struct leg *l, const uint8_t *from, const uint8_t *to)
{
    uint64_t block = l->g.bytes / BLOCKS / 2; /* of one plane */
    for (int plane = 0; plane < 2; plane++)
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_memory_equal(to + plane * l->g.bytes / 2 + l->dst[i] * block,
                                from + plane * l->g.bytes / 2 + l->src[i] * block, block);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_notes(void **state)
{
    (void)state;
    struct note n = {.type = NOTE_PUT, .id = 5, .slot = 6, .word = 7, .generation = 8, .num_runs = NOTE_RUNS}, got;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    for (uint32_t i = 0; i < NOTE_RUNS; i++)
        n.run[i] = (struct note_run){i, i + 1, UINT64_MAX - i};
    uint32_t length = note_encode(&n, bytes);
    assert_in_range(length, NOTE_HEADER + NOTE_RUNS * NOTE_RUN, WIRE_MESSAGE_MAX);
    assert_true(note_is(bytes, length));
    assert_int_equal(note_decode(bytes, length, &got), 0);
    assert_int_equal(got.type, NOTE_PUT);
    assert_true(got.id == 5 && got.slot == 6 && got.word == 7 && got.generation == 8 && got.error == 0);
    assert_memory_equal(got.run, n.run, sizeof n.run);
    for (uint32_t cut = 0; cut < length; cut++) {
        uint8_t *copy = malloc(cut > 0 ? cut : 1);
        memcpy(copy, bytes, cut);
        assert_int_equal(note_decode(copy, cut, &got), BATON_EMESSAGE);
        free(copy);
    }
    const struct {
        uint32_t at;
        uint8_t value;
    } bad[] = {{0, 0}, {2, 9}, {3, 0}, {3, 6}, {3, NOTE_FREE}, {4, 0}, {4, NOTE_RUNS + 1}, {40, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        note_encode(&n, bytes);
        bytes[bad[i].at] = bad[i].value;
        assert_int_equal(note_decode(bytes, length, &got), BATON_EMESSAGE);
    }
}

static void test_every_byte_both_ways(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct leg l;
        uint64_t moved;
        bool write = seed % 2 == 0;
        world_init(seed, seed % 4 < 2, 1000);
        leg_init(&l, 1, write);
        refusals = (int)draw(20);
        assert_int_equal(move_all(&ranks[0], &l, &moved), 0);
        assert_true(moved == l.transfer.bytes);
        assert_arrived(&l, ranks[write ? 0 : 1].cache, ranks[write ? 1 : 0].cache);
        settle_down();
        assert_int_equal(ranks[0].path.settle(ranks[0].staged, 1, 7), 0);
        turn(0);
        assert_int_equal(ranks[0].num_events, 1);
        assert_int_equal(ranks[0].events[0].kind, PORT_SETTLED);
        assert_int_equal(ranks[0].path.settle(ranks[0].staged, 1, 8), 0);
        assert_int_equal(ranks[0].path.settle(ranks[0].staged, 1, 9), 0);
        assert_int_equal(ranks[0].path.park(ranks[0].staged, 1, 8), PATH_PARK_QUIET); /* an answer that is not told */
        ranks[0].num_events = 0;
        turn(0);
        assert_int_equal(ranks[0].num_events, 1);
        assert_int_equal(ranks[0].events[0].tag, 9);
        plan_destroy(l.plan);
        world_fini();
    }
}

/* Given up at any moment: no byte comes into the cache after the path said that all is quiet, and no event but that. */
static void test_giving_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct leg l;
        bool write = seed % 2 == 0;
        struct rank *into = &ranks[write ? 1 : 0];
        world_init(seed, true, 1000);
        leg_init(&l, 1, write);
        for (uint64_t i = draw(12); i > 0; i--) {
            ranks[0].mute = draw(2) == 0; /* what was read comes only after it was given up */
            ranks[0].path.move(ranks[0].staged, &l.leg, 30000);
            turn((uint32_t)draw(2));
        }
        ranks[0].mute = false;
        ranks[0].num_events = 0;
        enum path_park park = ranks[0].path.park(ranks[0].staged, 1, 7);
        assert_true(park == PATH_PARK_QUIET || park == PATH_PARK_LATER);
        for (int i = 0; park == PATH_PARK_LATER && ranks[0].num_events == 0 && i < 10000; i++)
            turn((uint32_t)draw(2));
        if (park == PATH_PARK_LATER) {
            assert_int_equal(ranks[0].num_events, 1);
            assert_int_equal(ranks[0].events[0].kind, PORT_QUIET);
            assert_int_equal(ranks[0].events[0].tag, 7);
        }
        memset(into->cache, 0xee, l.g.bytes);
        settle_down();
        for (uint64_t k = 0; k < l.g.bytes; k++)
            assert_int_equal(into->cache[k], 0xee);
        assert_int_equal(ranks[0].num_events, park == PATH_PARK_LATER ? 1 : 0);
        plan_destroy(l.plan);
        world_fini();
    }
}

/* Nothing of a dead rank lands any more, also not what it had sent before. */
static void test_a_dead_rank(void **state)
{
    (void)state;
    struct leg l;
    world_init(3, true, 1000);
    leg_init(&l, 1, true);
    for (int i = 0; i < SLOTS; i++)
        while (ranks[0].path.move(ranks[0].staged, &l.leg, 8000) == BATON_EAGAIN)
            turn(0);
    while (num_letters == 0)
        turn(0);
    assert_true(ranks[1].path.ended(ranks[1].staged, 0));
    memset(ranks[1].cache, 0xee, l.g.bytes);
    for (int i = 0; i < 200; i++)
        turn(1);
    assert_int_equal(ranks[1].cache[l.dst[0] * (l.g.bytes / BLOCKS / 2)], 0xee);
    assert_false(ranks[1].path.busy(ranks[1].staged));
    plan_destroy(l.plan);
    world_fini();

    world_init(4, true, 1000); /* while the driver copies what came of it, it is not known to have ended */
    leg_init(&l, 1, true);
    ranks[1].held = true;
    while (ranks[0].path.move(ranks[0].staged, &l.leg, 8000) == BATON_EAGAIN)
        turn(0);
    while (ranks[1].num_copies == 0) {
        turn(0);
        turn(1);
    }
    assert_false(ranks[1].path.ended(ranks[1].staged, 0));
    ranks[1].held = false;
    for (int i = 0; i < 200; i++)
        turn(1);
    assert_true(ranks[1].path.ended(ranks[1].staged, 0));
    plan_destroy(l.plan);
    world_fini();
}

/* A source takes back a slot that its destination keeps; what that reads after this is refused. */
static void test_a_slot_taken_back(void **state)
{
    (void)state;
    struct leg l, other;
    world_init(5, false, 0);
    leg_init(&l, 1, false);
    leg_init(&other, 1, false);
    other.leg.tag = 8;
    assert_true(ranks[0].path.move(ranks[0].staged, &l.leg, 4096) > 0);
    turn(0); /* asks */
    turn(1); /* gathers and lends */
    deliver(0);
    ranks[0].num_events += ranks[0].path.progress(ranks[0].staged, ranks[0].events, EVENTS); /* reads the slot */
    assert_int_equal(ranks[0].num_answers, 1);
    for (int i = 0; i < SLOTS + 1; i++) { /* the next ones need the slot, since nobody gives one back */
        const struct note ask = {.type = NOTE_ASK, .id = 1000 + (uint64_t)i, .num_runs = 1, .run = {{0, 64, 0}}};
        uint8_t bytes[WIRE_MESSAGE_MAX];
        const struct port_event e = {.kind = PORT_MESSAGE, .peer = 0, .data = bytes, .bytes = note_encode(&ask, bytes)};
        assert_true(staged_takes(ranks[1].staged, &e));
        turn(1);
    }
    num_letters = 0;
    settle_down();
    assert_int_equal(ranks[0].num_events, 1);
    assert_int_equal(ranks[0].events[0].kind, PORT_MOVED);
    assert_int_equal(ranks[0].events[0].error, BATON_ESTALE);
    plan_destroy(l.plan);
    plan_destroy(other.plan);
    world_fini();
}

/* How many landings are free: chores take them, which a held driver does not end. */
static int free_landings(struct rank *r, const struct leg *l, uint64_t tag)
{
    int n = 0;
    r->held = true;
    while (staged_zero(r->staged, &l->transfer, tag) == 0)
        n++;
    return n;
}

/* A silent peer's landings are free again once its pulls are given up, and what it answers late comes nowhere. */
static void test_a_silent_source_of_pulls(void **state)
{
    (void)state;
    struct leg l;
    world_init(10, true, 0);
    leg_init(&l, 1, false);
    ranks[0].mute = true;
    for (int i = 0; i < 1000; i++) {
        ranks[0].path.move(ranks[0].staged, &l.leg, 1000);
        turn((uint32_t)draw(2));
    }
    assert_int_equal(ranks[0].num_answers, 8); /* as many as one peer may hold */
    assert_int_equal(ranks[0].path.park(ranks[0].staged, 1, 7), PATH_PARK_QUIET);
    assert_int_equal(free_landings(&ranks[0], &l, 70), 16);
    ranks[0].mute = false; /* by now, the landings are those of zeros */
    ranks[0].held = false;
    settle_down();
    for (uint64_t k = 0; k < l.g.bytes; k++)
        assert_int_equal(ranks[0].cache[k], 0);
    assert_int_equal(ranks[0].num_events, 16); /* of the zeros alone */
    for (int i = 0; i < ranks[0].num_events; i++)
        assert_int_equal(ranks[0].events[i].kind, PORT_WORKED);
    plan_destroy(l.plan);
    world_fini();
}

/* A source that put and is silent holds half of the landings at most, and not for ever. */
static void test_a_silent_source_of_pushes(void **state)
{
    (void)state;
    struct leg l;
    world_init(11, true, 20);
    leg_init(&l, 1, false);
    ranks[1].mute = true;
    for (uint64_t i = 0; i < 16; i++) {
        const struct note put = {.type = NOTE_PUT, .id = i, .word = AREA_OFFSET, .num_runs = 1, .run = {{0, 64, 0}}};
        uint8_t bytes[WIRE_MESSAGE_MAX];
        const struct port_event e = {.kind = PORT_MESSAGE, .peer = 0, .data = bytes, .bytes = note_encode(&put, bytes)};
        assert_true(staged_takes(ranks[1].staged, &e));
    }
    turn(1);
    assert_int_equal(ranks[1].num_answers, 8);
    assert_int_equal(free_landings(&ranks[1], &l, 70), 8);
    ranks[1].held = false;
    for (int i = 0; i < 200 && num_letters < 16; i++) {
        turn(1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(num_letters, 16);
    for (int i = 0; i < num_letters; i++) {
        struct note reply;
        assert_int_equal(note_decode(letters[i].data, letters[i].bytes, &reply), 0);
        assert_int_equal(reply.type, NOTE_LANDED);
        assert_int_equal(reply.error, BATON_EPEER);
    }
    assert_int_equal(free_landings(&ranks[1], &l, 71), 16);
    plan_destroy(l.plan);
    world_fini();
}

/* Slots of pushes that a silent peer never answers serve others, and such a peer keeps nobody awake. */
static void test_a_silent_destination(void **state)
{
    (void)state;
    struct leg l;
    world_init(8, false, 0);
    leg_init(&l, 1, true);
    for (int i = 0; i < 2 * SLOTS; i++) {
        assert_true(ranks[0].path.move(ranks[0].staged, &l.leg, 4096) > 0);
        ranks[0].path.progress(ranks[0].staged, ranks[0].events, EVENTS);
    }
    assert_int_equal(num_letters, 2 * SLOTS);
    assert_true(ranks[0].path.busy(ranks[0].staged));
    assert_int_equal(ranks[0].path.park(ranks[0].staged, 1, 7), PATH_PARK_LATER);
    assert_false(ranks[0].path.busy(ranks[0].staged));
    num_letters = 0;
    assert_true(ranks[0].path.ended(ranks[0].staged, 1));
    plan_destroy(l.plan);
    world_fini();
}

/* Slots filled for a peer that takes no messages serve others too, and what it reads then is refused. */
static void test_a_peer_that_takes_no_messages(void **state)
{
    (void)state;
    struct leg l;
    world_init(13, false, 0);
    leg_init(&l, 0, true);
    refusals = INT32_MAX;
    for (uint64_t i = 0; i < SLOTS; i++) {
        const struct note ask = {.type = NOTE_ASK, .id = i, .num_runs = 1, .run = {{0, 64, 0}}};
        uint8_t bytes[WIRE_MESSAGE_MAX];
        const struct port_event e = {.kind = PORT_MESSAGE, .data = bytes, .bytes = note_encode(&ask, bytes)};
        assert_true(staged_takes(ranks[1].staged, &e));
        turn(1);
    }
    for (int i = 0; i < SLOTS; i++)
        assert_true(ranks[1].path.move(ranks[1].staged, &l.leg, 4096) > 0);
    refusals = 0;
    turn(1);
    assert_int_equal(num_letters, 2 * SLOTS);
    struct note here[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        uint64_t word;
        assert_int_equal(note_decode(letters[i].data, letters[i].bytes, &here[i]), 0);
        assert_int_equal(here[i].type, NOTE_HERE);
        memcpy(&word, ranks[1].segment + here[i].word, sizeof word);
        assert_true(word > here[i].generation);
    }
    plan_destroy(l.plan);
    world_fini();
}

/* A peer that takes no messages any more: nobody is kept awake, and what it is owed goes to it if it does again. */
static void test_nobody_waits_awake_for_room(void **state)
{
    (void)state;
    struct leg l;
    for (int write = 0; write < 2; write++) {
        world_init(17, false, 1000);
        leg_init(&l, 0, write != 0);
        refusals = INT32_MAX; /* HERE or LANDED, which rank 0 is owed, and ASK or PUT of rank 1 */
        const struct note_run run = {0, 64, 0};
        const struct note n = {.type = write ? NOTE_PUT : NOTE_ASK, .id = 1, .num_runs = 1, .run = {run}};
        uint8_t bytes[WIRE_MESSAGE_MAX];
        const struct port_event e = {.kind = PORT_MESSAGE, .data = bytes, .bytes = note_encode(&n, bytes)};
        assert_true(staged_takes(ranks[1].staged, &e));
        assert_true(ranks[1].path.move(ranks[1].staged, &l.leg, 4096) > 0);
        assert_true(ranks[1].path.busy(ranks[1].staged));
        for (int i = 0; i < 10; i++)
            turn(1);
        assert_int_equal(num_letters, 0);
        assert_false(ranks[1].path.busy(ranks[1].staged));
        refusals = 0;
        turn(1); /* the peer has made room, and rung */
        assert_int_equal(num_letters, 2);
        assert_true(ranks[1].path.busy(ranks[1].staged)); /* for what it asked for itself */
        assert_true(ranks[1].path.ended(ranks[1].staged, 0));
        plan_destroy(l.plan);
        world_fini();
    }
}

/* It dies while the driver copies for it: the copy is the last that there is of it. */
static void test_a_peer_that_dies_while_it_is_served(void **state)
{
    (void)state;
    world_init(18, true, 1000);
    const struct note ask = {.type = NOTE_ASK, .id = 1, .num_runs = 1, .run = {{0, 64, 0}}};
    uint8_t bytes[WIRE_MESSAGE_MAX];
    const struct port_event e = {.kind = PORT_MESSAGE, .data = bytes, .bytes = note_encode(&ask, bytes)};
    ranks[1].held = true;
    assert_true(staged_takes(ranks[1].staged, &e));
    while (ranks[1].num_copies == 0)
        turn(1);
    assert_true(ranks[1].path.ended(ranks[1].staged, 0));
    refusals = INT32_MAX;
    ranks[1].held = false;
    for (int i = 0; i < 200; i++)
        turn(1);
    assert_int_equal(ranks[1].num_copies, 0);
    assert_false(ranks[1].path.busy(ranks[1].staged));
    refusals = 0;
    turn(1);
    assert_int_equal(num_letters, 0); /* it is gone, and so is what was for it */
    world_fini();
}

static void test_errors_are_told(void **state)
{
    (void)state;
    static const int errors[] = {BATON_ESYSTEM, BATON_EBUSY, BATON_EAGAIN, 17}; /* a driver's own mean nothing else */
    for (int failing = 0; failing < 2; failing++)
        for (int write = 0; write < 8; write++) {
            struct leg l;
            uint64_t moved;
            world_init(6, true, 1000);
            leg_init(&l, 1, write % 2 == 1);
            char line[64];
            ranks[failing].error = errors[write / 2];
            assert_int_equal(move_all(&ranks[0], &l, &moved), BATON_ESYSTEM);
            snprintf(line, sizeof line, "could not copy: its error %d", errors[write / 2]);
            assert_non_null(strstr(said, line));
            settle_down();
            plan_destroy(l.plan);
            world_fini();
        }
}

/* Whatever fails below ends its leg with that error, and all slots serve the next one. */
static void test_the_path_below_fails(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * FAILINGS; i++) {
        const bool write = i % 2 == 1, devices = i / 2 % 2 == 1;
        const enum failing what = (enum failing)(i / 4);
        uint64_t moved;
        world_init((uint64_t)i, devices, 1000);
        for (int before = 0; before < (what == NOTE_REFUSED ? 1 : 3); before++) { /* of notes, the first */
            struct leg l;
            leg_init(&l, 1, write);
            failure.what = what;
            failure.before = before;
            const int rc = move_all(&ranks[0], &l, &moved);
            const bool has_failed = what != NOTHING && failure.before < 0;
            settle_down();
            assert_int_equal(rc, has_failed ? BATON_EPEER : 0);
            assert_true(what == NOTHING || has_failed);
            if (rc == 0)
                assert_arrived(&l, ranks[write ? 0 : 1].cache, ranks[write ? 1 : 0].cache);
            plan_destroy(l.plan);
            failure.what = NOTHING;
            leg_init(&l, 1, write);
            assert_int_equal(move_all(&ranks[0], &l, &moved), 0);
            settle_down();
            assert_arrived(&l, ranks[write ? 0 : 1].cache, ranks[write ? 1 : 0].cache);
            plan_destroy(l.plan);
        }
        world_fini();
    }
}

/* A driver that names a copy twice is told of, and nothing else changes. */
static void test_a_copy_that_ends_twice(void **state)
{
    (void)state;
    for (int write = 0; write < 2; write++) {
        struct leg l;
        uint64_t moved;
        world_init(7, true, 1000);
        leg_init(&l, 1, write == 1);
        ranks[0].lies = ranks[1].lies = true;
        assert_int_equal(move_all(&ranks[0], &l, &moved), 0);
        assert_non_null(strstr(said, "ended a copy that it does not have"));
        settle_down();
        plan_destroy(l.plan);
        world_fini();
    }
}

/* More than a peer may begin is refused at once. */
static void test_more_than_a_peer_may_begin(void **state)
{
    (void)state;
    for (int type = NOTE_ASK; type <= NOTE_PUT; type += NOTE_PUT - NOTE_ASK) {
        world_init(12, true, 1000);
        ranks[1].held = ranks[1].mute = true; /* none of them ends */
        for (uint64_t i = 0; i < 20; i++) {
            const struct note n = {.type = (enum note_type)type, .id = i, .num_runs = 1, .run = {{0, 64, 0}}};
            uint8_t bytes[WIRE_MESSAGE_MAX];
            const struct port_event e = {.kind = PORT_MESSAGE, .data = bytes, .bytes = note_encode(&n, bytes)};
            assert_true(staged_takes(ranks[1].staged, &e));
        }
        assert_int_equal(num_letters, 4);
        for (uint64_t i = 0; i < 4; i++) {
            struct note reply;
            assert_int_equal(note_decode(letters[i].data, letters[i].bytes, &reply), 0);
            assert_int_equal(reply.type, type == NOTE_ASK ? NOTE_HERE : NOTE_LANDED);
            assert_int_equal(reply.error, BATON_EBUSY);
            assert_true(reply.id == 16 + i && letters[i].to == 0);
        }
        num_letters = 0;
        world_fini();
    }
}

/* What a peer asks for is checked: bad runs are refused, and what finds no room for its answer is bounded. */
static void test_hostile_notes(void **state)
{
    (void)state;
    world_init(7, false, 1000);
    uint64_t bytes = ranks[1].region.bytes;
    const struct note_run bad[] = {{1, 64, 0}, {0, 0, 0}, {0, 64, bytes - 63}, {0, 64, UINT64_MAX}, {0, UINT32_MAX, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int type = NOTE_ASK; type <= NOTE_PUT; type += NOTE_PUT - NOTE_ASK) {
            struct note n = {.type = (enum note_type)type, .id = 9, .num_runs = 1, .run = {bad[i]}}, reply;
            uint8_t out[WIRE_MESSAGE_MAX];
            const struct port_event e = {.kind = PORT_MESSAGE, .data = out, .bytes = note_encode(&n, out)};
            assert_true(staged_takes(ranks[1].staged, &e));
            turn(1);
            assert_int_equal(num_letters, 1);
            assert_int_equal(note_decode(letters[0].data, letters[0].bytes, &reply), 0);
            assert_int_equal(reply.error, BATON_EMESSAGE);
            assert_true(reply.id == 9);
            num_letters = 0;
        }
    for (int i = 0; i < 2; i++) { /* cut short, or of a rank that there is not */
        struct note n = {.type = NOTE_ASK, .id = 9, .num_runs = 1, .run = {{0, 64, 0}}};
        uint8_t out[WIRE_MESSAGE_MAX];
        struct port_event e = {.kind = PORT_MESSAGE, .data = out, .bytes = note_encode(&n, out)};
        e.bytes -= i == 0;
        e.peer = i == 1 ? 2 : 0;
        said[0] = '\0';
        assert_true(staged_takes(ranks[1].staged, &e));
        assert_non_null(strstr(said, "sent a malformed note"));
        turn(1);
        assert_int_equal(num_letters, 0);
        assert_false(ranks[1].path.busy(ranks[1].staged));
    }
    refusals = INT32_MAX; /* no answer goes out, so that all stay */
    for (int i = 0; i < 1000; i++) {
        struct note n = {.type = NOTE_ASK, .id = 9, .num_runs = 1, .run = {{0, 64, 0}}};
        uint8_t out[WIRE_MESSAGE_MAX];
        const struct port_event e = {.kind = PORT_MESSAGE, .data = out, .bytes = note_encode(&n, out)};
        assert_true(staged_takes(ranks[1].staged, &e));
        turn(1);
    }
    refusals = 0;
    for (int i = 0; i < 100; i++)
        turn(1);
    assert_in_range(num_letters, 1, 16);
    world_fini();
}

static void test_hashes_and_zeros(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct leg l;
        uint64_t by_driver[TOKENS], by_hand[TOKENS];
        world_init(seed, true, 1000);
        leg_init(&l, 1, false);
        uint32_t parts = plan_num_parts(&l.transfer);
        assert_in_range(parts, 2, TOKENS);
        memset(by_driver, 0, sizeof by_driver);
        while (staged_sum(ranks[0].staged, &l.transfer, true, 1, parts - 1, by_driver, 70) == BATON_EAGAIN)
            turn(0);
        while (ranks[0].num_events == 0)
            turn(0);
        assert_int_equal(ranks[0].events[0].kind, PORT_WORKED);
        world_fini();
        world_init(seed, false, 1000);
        assert_int_equal(staged_sum(ranks[0].staged, &l.transfer, true, 1, parts - 1, by_hand, 71), 0);
        turn(0);
        assert_int_equal(ranks[0].num_events, 1);
        assert_memory_equal(by_driver, by_hand, (parts - 1) * sizeof by_hand[0]);
        assert_true(by_hand[0] != by_hand[1] && by_hand[0] != 0);
        assert_int_equal(staged_zero(ranks[0].staged, &l.transfer, 72), 0);
        turn(0);
        for (uint64_t k = 0; k < l.g.bytes; k++)
            assert_int_equal(ranks[0].cache[k], 0);
        plan_destroy(l.plan);
        world_fini();
    }
}

/* The driver fails while it copies for hashes or zeros: that is told, and nothing is told twice. */
static void test_hashes_and_zeros_that_fail(void **state)
{
    (void)state;
    for (int zeroes = 0; zeroes < 2; zeroes++) {
        struct leg l;
        uint64_t sums[TOKENS];
        world_init(9, true, 1000);
        leg_init(&l, 1, false);
        ranks[0].error = 17;
        if (zeroes)
            assert_int_equal(staged_zero(ranks[0].staged, &l.transfer, 70), 0);
        else
            assert_int_equal(staged_sum(ranks[0].staged, &l.transfer, true, 0, plan_num_parts(&l.transfer), sums, 70),
                             0);
        settle_down();
        assert_int_equal(ranks[0].num_events, 1);
        assert_int_equal(ranks[0].events[0].kind, PORT_WORKED);
        assert_true(ranks[0].events[0].tag == 70);
        assert_int_equal(ranks[0].events[0].error, BATON_ESYSTEM);
        plan_destroy(l.plan);
        world_fini();
    }
}

/* Where the driver does not end its copies, their memory stays; once it does, all is freed. */
static void test_closing_with_a_driver_that_does_not_rest(void **state)
{
    (void)state;
    struct leg l;
    world_init(14, true, 1000);
    leg_init(&l, 1, false);
    ranks[0].held = true;
    assert_int_equal(staged_zero(ranks[0].staged, &l.transfer, 70), 0);
    while (ranks[0].num_copies == 0)
        turn(0);
    assert_int_equal(ranks[0].path.close(ranks[0].staged), BATON_EPEER);
    assert_non_null(strstr(baton_errmsg(), "driver"));
    assert_int_equal(ranks[0].num_copies, 1);
    plan_destroy(l.plan);
    world_fini(); /* closes again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_every_byte_both_ways),
        cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_a_dead_rank),
        cmocka_unit_test(test_a_slot_taken_back),
        cmocka_unit_test(test_a_silent_source_of_pulls),
        cmocka_unit_test(test_a_silent_source_of_pushes),
        cmocka_unit_test(test_a_silent_destination),
        cmocka_unit_test(test_a_peer_that_takes_no_messages),
        cmocka_unit_test(test_nobody_waits_awake_for_room),
        cmocka_unit_test(test_a_peer_that_dies_while_it_is_served),
        cmocka_unit_test(test_errors_are_told),
        cmocka_unit_test(test_the_path_below_fails),
        cmocka_unit_test(test_a_copy_that_ends_twice),
        cmocka_unit_test(test_more_than_a_peer_may_begin),
        cmocka_unit_test(test_hostile_notes),
        cmocka_unit_test(test_hashes_and_zeros),
        cmocka_unit_test(test_hashes_and_zeros_that_fail),
        cmocka_unit_test(test_closing_with_a_driver_that_does_not_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
