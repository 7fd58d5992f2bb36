/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * joins: a million members come and go, 16 at most at a time. With many of their engines one core has business, which
 * they leave behind. In the end it needs not a byte more than after the first few.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/core.h"
#include "observe/log.h"
#include "wire/card.h"
#include "wire/message.h"

#define MS UINT64_C(1000000)
#define MOST 16
#define SIZE 8 /* ranks of each engine that comes */
#define JOINS 1000000
#define WITH_BUSINESS 8      /* one engine in so many */
#define SETTLED (800 * SIZE) /* joins by which all memory that stays is there */

static struct directory *directory;
static struct core *core;
static struct settings settings;
static struct logger logger;
static baton_path_t path[MOST];
static baton_geometry_t geometry;
static baton_tensor_t tensors[2];
static uint8_t arena[4096];
static uint64_t now = MS;
static uint64_t sent, asked, ended;

/* ---- the port ---------------------------------------------------------------------------------------------------- */

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct wire_message m;
    (void)self;
    assert_int_equal(wire_decode(message, bytes, &m), 0);
    assert_true(m.to == directory->rows[peer].number);
    sent++;
    return 0;
}

static int port_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    (void)self, (void)peer, (void)offset, (void)bytes, (void)tag;
    asked++;
    return 0;
}

static enum port_alive port_alive(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return PORT_ALIVE;
}

static bool port_ended(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return true;
}

static void port_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    (void)self, (void)slot, (void)generation, (void)far;
}

static const struct port port = {
    .path = {.read = port_read, .ended = port_ended}, .send = port_send, .alive = port_alive, .raise = port_raise};

static void step(const struct port_event *e)
{
    struct outcome *outcome;
    now += MS / 100;
    core_step(core, now, now, e, e != NULL);
    while ((outcome = core_take(core)) != NULL) {
        ended++;
        outcome_free(outcome);
    }
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static uint32_t join(const char *engine, uint64_t number, uint64_t life, uint16_t tp, uint16_t index)
{
    const uint32_t heads = SIZE / tp;
    struct wire_row row = {.role = BATON_ROLE_BOTH,
                           .tp = tp,
                           .pp = 1,
                           .tp_rank = index,
                           .node = index,
                           .num_boxes = 1,
                           .box = {{0, 1, index * heads, heads, 0}},
                           .number = number,
                           .life = life,
                           .card_offset = 4096,
                           .card_bytes = 64,
                           .rules = PLAN_RULES};
    uint8_t bytes[WIRE_ROW_BYTES];
    struct plan_why why;
    uint32_t rank;
    snprintf(row.engine, sizeof row.engine, "%s", engine);
    wire_row_encode(&row, bytes);
    assert_int_equal(directory_join(directory, bytes, &rank, &why), 0);
    return rank;
}

static struct call *call_of(enum call_kind kind, uint64_t id, const char *key)
{
    struct call *call = calloc(1, sizeof *call + sizeof call->blocks[0]);
    call->kind = kind;
    call->id = id;
    call->submitted_ns = now;
    snprintf(call->key, sizeof call->key, "%s", key);
    call_set_tables(call, &(struct plan_tables){.num = 1, .table = {{(uint32_t[]){0}, 1, 0}}}, NULL, NULL);
    return call;
}

/* That rank says that it needs nothing of an offer to come: the word waits for that. */
static void hear_release(uint32_t rank, uint32_t number)
{
    struct wire_message m = {.type = WIRE_RELEASE,
                             .version = directory->rows[rank].version,
                             .from = directory->rows[rank].number,
                             .to = directory->rows[0].number,
                             .number = number,
                             .want_id = number,
                             .end = {.name.key = "never offered", .time_left_ms = 60000}};
    uint8_t data[WIRE_MESSAGE_MAX];
    const uint32_t bytes = wire_encode(&m, data);
    step(&(struct port_event){.kind = PORT_MESSAGE, .peer = rank, .data = data, .bytes = bytes});
}

/* The engine is wanted of, offered to, and owed words. */
static void have_business(const uint32_t ranks[SIZE], uint64_t life)
{
    struct call *want = call_of(CALL_WANT, 2 * life, "never served"), *offer = call_of(CALL_OFFER, 2 * life + 1, "r");
    want->want = (struct call_want){.engine = directory_find(directory, "decode"),
                                    .life = life,
                                    .num_tokens = 1,
                                    .timeout_ms = 60000,
                                    .mode = life % 16 == 0 ? BATON_MODE_PULL : BATON_MODE_PUSH};
    core_submit(core, now, want);
    offer->offer = (struct call_offer){.num_tokens = 1, .ttl_ms = 60000, .num_seats = 1, .seats = {"decode"}};
    core_submit(core, now, offer);
    hear_release(ranks[life % SIZE], 1);
}

/* An engine comes, and goes before anything that it has to do with this one is over. */
static void live(uint64_t life)
{
    uint32_t ranks[SIZE], engine;
    for (uint16_t i = 0; i < SIZE; i++) {
        ranks[i] = join("decode", 1 + life * SIZE + i, life, SIZE, i);
        step(&(struct port_event){.kind = PORT_JOINED, .peer = ranks[i]});
    }
    if (life % WITH_BUSINESS == 0)
        have_business(ranks, life);
    for (uint32_t i = 0; i < SIZE; i++) {
        directory_leave(directory, ranks[i]);
        step(&(struct port_event){
            .kind = PORT_LEFT, .peer = ranks[i], .error = i % 2 == 0 ? BATON_EPEER : 0, .is_quiet = life % 3 == 0});
    }
    if (life % WITH_BUSINESS == 0)
        core_submit(core, now, call_of(CALL_CANCEL, 2 * life + 1, ""));
    step(NULL);
    assert_true(core_take_forgotten(core, &engine));
    directory_forget(directory, engine);
    assert_false(core_take_forgotten(core, &engine));
}

static void a_million_members_need_the_memory_of_a_few(void **state)
{
    (void)state;
    size_t in_use = 0;
    assert_int_equal(settings_read(&settings, NULL), 0);
    assert_int_equal(directory_create(MOST, &directory), 0);
    for (uint32_t i = 0; i < MOST; i++)
        path[i] = BATON_PATH_RMA;
    geometry = (baton_geometry_t){.size = sizeof geometry,
                                  .model = "model",
                                  .dtype = "u8",
                                  .elem_bytes = 1,
                                  .planes = 2,
                                  .head_size = 4,
                                  .num_groups = 1,
                                  .groups = {{.block_tokens = 4, .num_blocks = 4}},
                                  .num_splits = 1,
                                  .splits = {{.heads_total = SIZE, .head_count = SIZE}},
                                  .layers_total = 1,
                                  .layer_count = 1};
    assert_int_equal(baton_geometry_layout(&geometry, tensors, 0), 0);
    const struct core_config config = {.settings = &settings,
                                       .directory = directory,
                                       .self = join("prefill", UINT64_MAX, 1, 1, 0),
                                       .geometry = &geometry,
                                       .path = path,
                                       .path_out = path,
                                       .arena = arena,
                                       .arena_bytes = sizeof arena,
                                       .port = &port,
                                       .log = &logger};
    assert_int_equal(core_create(&config, &core), 0);
    for (uint64_t life = 1; life <= JOINS / SIZE; life++) {
        live(life);
        if (life * SIZE == SETTLED)
            in_use = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks <= in_use);
    assert_true(directory->num_ranks <= MOST && directory->num_engines <= 2);
    assert_true(sent > 0 && asked >= JOINS / SIZE / WITH_BUSINESS && ended == 2 * (JOINS / SIZE / WITH_BUSINESS));
    core_destroy(core);
    directory_destroy(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_million_members_need_the_memory_of_a_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
