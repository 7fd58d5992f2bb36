/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late_wants: a key is offered again after its offer was cancelled, and a want that was meant for the former offer
 * comes late. The first half of the ranks is the producer's engine, the last rank is the consumer; others look on.
 */
#include "with_engine.h"

#define TOKENS (2 * BLOCK_TOKENS)
#define HEADS 6

enum named { BY_ATTEMPT, BY_NEXT_ATTEMPT, BY_CONSUMER };

static struct engine e;
static int producers;

static bool produces(void)
{
    return harness.rank < producers;
}

static bool consumes(void)
{
    return harness.rank == harness.size - 1;
}

static void up(void)
{
    const uint32_t tp = produces() ? (uint32_t)producers : 1, tp_rank = produces() ? (uint32_t)harness.rank : 0;
    baton_open_params_t me = {.size = sizeof me, .role = BATON_ROLE_BOTH, .tp = tp, .tp_rank = tp_rank, .pp = 1};
    baton_geometry_t g = small_geometry(BLOCK_TOKENS, BLOCKS);
    g.head_size = 8;
    g.splits[0] = (baton_split_t){.heads_total = HEADS, .head_first = HEADS / tp * tp_rank, .head_count = HEADS / tp};
    baton_tensor_t tensor;
    if (produces())
        strcpy(e.name, "p");
    else
        snprintf(e.name, sizeof e.name, "d%d", harness.size - 1 - harness.rank);
    strcpy(me.engine, e.name);
    engine_need(baton_open(MPI_COMM_WORLD, &me, &e.b));
    engine_need(baton_geometry_layout(&g, &tensor, 0));
    engine_need(baton_cache_create(e.b, &g, BATON_MEMORY_HOST, &e.cache));
    engine_need(baton_start(e.b));
}

static void offer(const char *key, enum named by, uint32_t attempt, baton_id_t *id)
{
    static const char *const consumer[] = {"d0"};
    const uint32_t blocks[] = {0, 1};
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = key,
                                    .num_tables = 1,
                                    .tables = {{.blocks = blocks, .num_blocks = 2}},
                                    .num_tokens = TOKENS,
                                    .ttl_ms = 15000,
                                    .num_consumers = by == BY_CONSUMER,
                                    .consumers = by == BY_CONSUMER ? consumer : NULL,
                                    .attempt = attempt};
    CHECK_EQ(baton_offer(e.b, &o, id), 0);
}

static void want(const char *key, baton_mode_t mode, uint32_t attempt)
{
    const uint32_t blocks[] = {3, 2};
    const baton_want_params_t w = {.size = sizeof w,
                                   .key = key,
                                   .engine = "p",
                                   .num_tables = 1,
                                   .tables = {{.blocks = blocks, .num_blocks = 2}},
                                   .num_tokens = TOKENS,
                                   .timeout_ms = 5000,
                                   .mode = mode,
                                   .attempt = attempt};
    CHECK_EQ(baton_want(e.b, &w, NULL), 0);
}

static void ends_as(baton_event_type_t type, int error)
{
    const baton_event_t event = engine_event(&e, type);
    if (!CHECK_EQ(event.error, error))
        fprintf(stderr, "# rank %d: %s\n", harness.rank, event.detail);
}

/* The late want fails, and what it says to each rank of the producer leaves the next offer as it is. */
static void a_late_want(enum named by, baton_mode_t mode)
{
    char key[32];
    const uint32_t attempt = by != BY_CONSUMER, next = attempt + (by == BY_NEXT_ATTEMPT);
    baton_id_t id;
    snprintf(key, sizeof key, "key %d %d", (int)by, (int)mode);
    if (produces()) {
        offer(key, by, attempt, &id);
        CHECK_EQ(baton_cancel(e.b, id), 0);
        ends_as(BATON_EVENT_OFFER, BATON_ECANCELED);
        if (by == BY_NEXT_ATTEMPT) /* only then does the want tell the two apart */
            offer(key, by, next, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (consumes()) {
        want(key, mode, attempt);
        ends_as(BATON_EVENT_WANT, BATON_EGONE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (produces() && by != BY_NEXT_ATTEMPT)
        offer(key, by, next, NULL);
    MPI_Barrier(MPI_COMM_WORLD); /* else it would meet the end of the former offer, too */
    if (consumes()) {
        want(key, mode, next);
        ends_as(BATON_EVENT_WANT, 0);
    }
    if (produces())
        ends_as(BATON_EVENT_OFFER, 0);
}

static void a_late_want_spares_the_next_offer(void)
{
    if (harness.size == 1)
        return SKIP("the consumer has no rank");
    for (enum named by = BY_ATTEMPT; by <= BY_CONSUMER; by++)
        for (baton_mode_t mode = BATON_MODE_PULL; mode <= BATON_MODE_PUSH; mode++)
            a_late_want(by, mode);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    producers = harness.size / 2;
    up();
    RUN(a_late_want_spares_the_next_offer);
    engine_need(baton_close(e.b));
    return harness_end();
}
