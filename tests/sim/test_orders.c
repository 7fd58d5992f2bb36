/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * orders: who serves whom is the same at all members, in whatever order they heard of each other, and whoever else is
 * there. Each member of a producer's and a consumer's engine has a core with a directory of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core_inside.h"
#include "core/link.h"
#include "observe/log.h"

#define MEMBERS_MAX 64
#define CARD_OFFSET 262144
#define MS UINT64_C(1000000)

enum { PRODUCER, CONSUMER, OTHERS, ENGINES = OTHERS + 3 };

/** Two engines that exchange, and how they lie: so many of a node's ranks follow each other. */
struct pair {
    uint32_t tp[2], pp[2], heads, a_node;
};

struct member {
    uint32_t engine, index;
    uint64_t number;
    baton_geometry_t geometry;
    baton_tensor_t tensors[4];
    uint8_t row[WIRE_ROW_BYTES], arena[4096];
    struct directory *directory;
    struct core *core;
};

static struct member members[MEMBERS_MAX];
static uint32_t num_members;
static struct settings settings;
static struct logger logger;
static baton_path_t path[MEMBERS_MAX];

/* ---- a port that does nothing ------------------------------------------------------------------------------------ */

static int none_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    (void)self, (void)peer, (void)message, (void)bytes;
    return 0;
}

static int none_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    (void)self, (void)peer, (void)offset, (void)bytes, (void)tag;
    return 0;
}

static enum port_alive none_alive(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return PORT_ALIVE;
}

static bool none_ended(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return true;
}

static const struct port port = {
    .path = {.read = none_read, .ended = none_ended}, .send = none_send, .alive = none_alive};

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint32_t draw(uint64_t *seed, uint32_t below)
{
    uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % below);
}

/* ---- the world --------------------------------------------------------------------------------------------------- */

static void add_member(const char *engine, uint32_t of, uint32_t tp, uint32_t pp, uint32_t heads, uint32_t index,
                       uint32_t node)
{
    struct member *m = &members[num_members];
    const uint32_t tp_rank = index % tp, stage = index / tp, layers = 4 / pp;
    const uint32_t each = heads > tp ? heads / tp : 1, first = tp_rank * heads / tp;
    *m = (struct member){.engine = of, .index = index, .number = 1000 + num_members};
    m->geometry = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                                     .model = "model",
                                     .dtype = "u8",
                                     .elem_bytes = 1,
                                     .planes = 2,
                                     .head_size = 4,
                                     .num_groups = 1,
                                     .groups = {{.block_tokens = 4, .num_blocks = 4}},
                                     .num_splits = 1,
                                     .splits = {{.heads_total = heads, .head_first = first, .head_count = each}},
                                     .layers_total = 4,
                                     .layer_first = stage * layers,
                                     .layer_count = layers};
    assert_int_equal(baton_geometry_layout(&m->geometry, m->tensors, 0), 0);
    struct wire_row row = {.role = BATON_ROLE_BOTH,
                           .tp = (uint16_t)tp,
                           .pp = (uint16_t)pp,
                           .tp_rank = (uint16_t)tp_rank,
                           .pp_rank = (uint16_t)stage,
                           .node = node,
                           .package = PLAN_UNKNOWN,
                           .numa = PLAN_UNKNOWN,
                           .num_boxes = 1,
                           .box = {{stage * layers, layers, first, each, 0}},
                           .number = m->number,
                           .life = 7 + of,
                           .card_offset = CARD_OFFSET,
                           .card_bytes = 64,
                           .rules = PLAN_RULES};
    snprintf(row.engine, sizeof row.engine, "%s", engine);
    wire_row_encode(&row, m->row);
    num_members++;
}

static void make_world(const struct pair *pair)
{
    static const char *const names[] = {"prefill0", "decode0", "prefill1", "decode1", "x"};
    num_members = 0;
    for (uint32_t e = 0; e < ENGINES; e++) {
        const uint32_t tp = pair->tp[e % 2], pp = pair->pp[e % 2];
        for (uint32_t i = 0; i < tp * pp; i++)
            add_member(names[e], e, tp, pp, pair->heads, i, num_members / pair->a_node);
    }
    assert_true(num_members <= MEMBERS_MAX);
}

static uint32_t joined(struct directory *d, const struct member *m)
{
    struct plan_why why;
    uint32_t rank;
    assert_int_equal(directory_join(d, m->row, &rank, &why), 0);
    return rank;
}

/* An engine that had been there before, so that what comes next has other indexes. */
static void come_and_go(struct directory *d, uint32_t engine)
{
    uint32_t ranks[MEMBERS_MAX], n = 0, at = DIRECTORY_NONE;
    for (uint32_t i = 0; i < num_members; i++)
        if (members[i].engine == engine) {
            ranks[n] = joined(d, &members[i]);
            at = d->engine_of[ranks[n++]];
        }
    while (n > 0)
        directory_leave(d, ranks[--n]);
    directory_forget(d, at);
}

/* Learns of the members in a random order, of some engines not at all. Then its core begins. */
static void learn(struct member *m, uint64_t *seed)
{
    uint32_t order[MEMBERS_MAX], self = DIRECTORY_NONE;
    bool knows[ENGINES] = {true, true};
    assert_int_equal(directory_create(num_members, &m->directory), 0);
    for (uint32_t e = OTHERS; e < ENGINES; e++) {
        if (draw(seed, 2) == 0)
            come_and_go(m->directory, e);
        knows[e] = draw(seed, 2) == 0;
    }
    for (uint32_t i = 0; i < num_members; i++) {
        const uint32_t at = draw(seed, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < num_members; i++) {
        if (!knows[members[order[i]].engine])
            continue;
        const uint32_t rank = joined(m->directory, &members[order[i]]);
        if (&members[order[i]] == m)
            self = rank;
    }
    const struct core_config config = {.settings = &settings,
                                       .directory = m->directory,
                                       .self = self,
                                       .geometry = &m->geometry,
                                       .path = path,
                                       .path_out = path,
                                       .arena = m->arena,
                                       .arena_bytes = sizeof m->arena,
                                       .port = &port,
                                       .log = &logger};
    assert_int_equal(core_create(&config, &m->core), 0);
}

static uint32_t engine_of(const struct member *m, uint32_t which)
{
    return directory_find(m->directory, which == PRODUCER ? "prefill0" : "decode0");
}

static struct member *member_of(uint32_t engine, uint32_t index)
{
    for (uint32_t i = 0; i < num_members; i++)
        if (members[i].engine == engine && members[i].index == index)
            return &members[i];
    return NULL;
}

/* Finds out all that its core will find out. */
static void find_out(struct member *m)
{
    for (uint64_t now = MS; now < 100 * MS; now += MS)
        core_step(m->core, now, now, NULL, 0);
}

/* ---- what each thinks of it -------------------------------------------------------------------------------------- */

/** By consumer's and producer's index: what the first reads from the second. */
struct box_list {
    uint32_t num;
    struct plan_box box[16];
};

static struct box_list *list_of(struct box_list *lists, uint32_t consumer, uint32_t producer)
{
    return &lists[consumer * MEMBERS_MAX + producer];
}

static void note(struct box_list *l, const struct plan_box *boxes, uint32_t num)
{
    l->num = num;
    assert_true(num <= 16);
    memcpy(l->box, boxes, num * sizeof *boxes);
}

/* As the consumer's rank sees it. The bits that its WANTs name are noted by producer. */
static void ask_consumer(struct member *m, struct box_list *lists,
                         uint8_t bits[MEMBERS_MAX][BATON_ENGINE_RANKS_MAX / 8])
{
    struct plan_why why = {{0}};
    int error = 0;
    struct link *link = link_of(m->core, engine_of(m, PRODUCER), &error, &why);
    assert_non_null(link);
    find_out(m);
    for (uint32_t i = 0; i < link_num_contacts(link); i++) {
        const struct contact *c = link_contact(link, i);
        const uint32_t producer = m->directory->index_of[c->peer];
        note(list_of(lists, m->index, producer), c->boxes, c->num_boxes);
        memcpy(bits[producer], contact_readers(c), BATON_ENGINE_RANKS_MAX / 8);
    }
}

/* As the producer's rank sees it: the same, and the same bits. */
static void check_producer(struct member *m, struct box_list *lists, uint32_t consumers,
                           uint8_t bits[MEMBERS_MAX][MEMBERS_MAX][BATON_ENGINE_RANKS_MAX / 8])
{
    const uint32_t engine = engine_of(m, CONSUMER);
    readers_begin(m->core, engine);
    find_out(m);
    const struct readers *readers = readers_of(m->core, engine);
    assert_non_null(readers);
    for (uint32_t c = 0; c < consumers; c++) {
        const struct box_list *l = list_of(lists, c, m->index);
        uint32_t num;
        const struct plan_box *boxes = readers_boxes(readers, c, &num);
        assert_int_equal(num, l->num);
        assert_memory_equal(boxes, l->box, num * sizeof *boxes);
        for (uint32_t i = 0; l->num > 0 && i < consumers; i++)
            assert_int_equal(readers_have(readers, i), bits[c][m->index][i / 8] >> (i % 8) & 1);
    }
}

#define ORDERS 20

static struct box_list first[MEMBERS_MAX * MEMBERS_MAX], now[MEMBERS_MAX * MEMBERS_MAX];

static void check_pair(const struct pair *pair)
{
    static uint8_t bits[MEMBERS_MAX][MEMBERS_MAX][BATON_ENGINE_RANKS_MAX / 8];
    const uint32_t producers = pair->tp[0] * pair->pp[0], consumers = pair->tp[1] * pair->pp[1];
    uint64_t seed = 1 + producers + 100 * consumers;
    make_world(pair);
    for (uint32_t order = 0; order < ORDERS; order++) {
        memset(now, 0, sizeof now);
        for (uint32_t i = 0; i < producers + consumers; i++)
            learn(&members[i], &seed);
        for (uint32_t c = 0; c < consumers; c++)
            ask_consumer(member_of(CONSUMER, c), now, bits[c]);
        for (uint32_t p = 0; p < producers; p++)
            check_producer(member_of(PRODUCER, p), now, consumers, bits);
        if (order == 0)
            memcpy(first, now, sizeof now);
        assert_memory_equal(first, now, sizeof now);
        for (uint32_t i = 0; i < producers + consumers; i++) {
            core_destroy(members[i].core);
            directory_destroy(members[i].directory);
        }
    }
}

/* One side cuts heads or layers otherwise than the other, or holds them several times, near and far. */
static void all_plan_alike(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {{1, 1}, {1, 1}, 4, 1}, {{2, 1}, {1, 1}, 4, 1}, {{1, 2}, {1, 1}, 4, 3}, {{4, 2}, {1, 1}, 2, 2},
        {{4, 1}, {2, 1}, 1, 2}, {{2, 4}, {2, 1}, 4, 4}, {{4, 4}, {1, 2}, 2, 3}, {{8, 2}, {1, 2}, 2, 64},
    };
    assert_int_equal(settings_read(&settings, NULL), 0);
    for (uint32_t i = 0; i < MEMBERS_MAX; i++)
        path[i] = BATON_PATH_RMA;
    for (uint32_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        check_pair(&pairs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_plan_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
