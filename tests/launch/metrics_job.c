/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics_job: one prefill engine and decode engines of one rank each. Each decode engine pulls requests one after the
 * other, and the last one of each fails, since nobody offers it. Then each rank prints its statistics as lines
 * "RANK NAME VALUE", and waits.
 *
 *   metrics_job REQUESTS FOLDER [VICTIM]   waits until FOLDER/end is there; the VICTIM, a rank, kills itself before
 */
#include <baton.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 3, TOKENS = 40 };

static baton_open_params_t me = {.size = sizeof me};
static int rank;

static void check(int rc)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", baton_strerror(rc), baton_errmsg());
    baton_exit(1);
}

static void await_events(baton_t *b, unsigned num)
{
    baton_event_t e;
    while (num > 0) {
        int n = baton_poll(b, &e, 1);
        num -= n > 0;
        if (n == 0)
            usleep(100);
    }
}

static void offer_all(baton_t *b, unsigned requests)
{
    baton_table_t table = {(uint32_t[]){7, 3, 12}, BLOCKS, 0};
    int engines = baton_engines(b, NULL, NULL, 0);
    check(engines);
    for (int e = 0; e + 1 < engines; e++)
        for (unsigned i = 0; i < requests; i++) {
            baton_offer_params_t o = {
                .size = sizeof o, .num_tokens = TOKENS, .num_tables = 1, .tables = {table}, .ttl_ms = 60000};
            char key[64];
            snprintf(key, sizeof key, "decode%d-%u", e, i);
            o.key = key;
            check(baton_offer(b, &o, NULL));
        }
    await_events(b, (unsigned)(engines - 1) * requests);
}

static void want(baton_t *b, unsigned i, uint32_t timeout_ms)
{
    baton_table_t table = {(uint32_t[]){1, 2, 5}, BLOCKS, 0};
    char key[BATON_ENGINE_NAME_MAX + 16];
    snprintf(key, sizeof key, "%s-%u", me.engine, i);
    baton_want_params_t w = {.size = sizeof w,
                             .key = key,
                             .engine = "prefill0",
                             .num_tokens = TOKENS,
                             .num_tables = 1,
                             .tables = {table},
                             .timeout_ms = timeout_ms};
    check(baton_want(b, &w, NULL));
    await_events(b, 1);
}

static void print_stats(baton_t *b)
{
    baton_stats_t s = {.size = sizeof s};
    uint64_t bytes = 0;
    check(baton_stats(b, &s));
    for (unsigned i = 0; i < BATON_PATHS; i++)
        bytes += s.bytes[i];
    printf("%d wants_done %llu\n%d wants_expired %llu\n%d offers_done %llu\n%d received %llu\n%d timeouts %llu\n", rank,
           (unsigned long long)s.wants_done, rank, (unsigned long long)s.wants_expired, rank,
           (unsigned long long)s.offers_done, rank, (unsigned long long)bytes, rank,
           (unsigned long long)s.reasons[-BATON_ETIMEDOUT]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    baton_t *b;
    baton_cache_t *cache;
    baton_tensor_t tensor;
    char end[512];
    if (argc < 3)
        return 2;
    unsigned requests = (unsigned)atoi(argv[1]);
    check(baton_role_from_env(&me));
    check(baton_open(MPI_COMM_NULL, &me, &b));
    rank = me.role == BATON_ROLE_PREFILL ? 0 : 1 + atoi(me.engine + strlen("decode"));
    baton_geometry_t g = {.size = sizeof g,
                          .model = "metrics",
                          .dtype = "bf16",
                          .elem_bytes = 2,
                          .planes = 2,
                          .head_size = 128,
                          .layers_total = 1,
                          .layer_count = 1,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = 64}},
                          .num_splits = 1,
                          .splits = {{.heads_total = 8, .head_first = 0, .head_count = 8}}};
    check(baton_geometry_layout(&g, &tensor, BATON_LAYOUT_HND));
    check(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache));
    check(baton_start(b));
    if (me.role == BATON_ROLE_PREFILL)
        offer_all(b, requests);
    for (unsigned i = 0; me.role == BATON_ROLE_DECODE && i < requests; i++)
        want(b, i, 20000);
    if (me.role == BATON_ROLE_DECODE)
        want(b, requests, 50); /* nobody offers it */
    print_stats(b);
    usleep(300000); /* the page shows it all by then */
    if (argc > 3 && atoi(argv[3]) == rank)
        raise(SIGKILL);
    snprintf(end, sizeof end, "%s/end", argv[2]);
    for (int i = 0; i < 3000 && access(end, F_OK) != 0; i++)
        usleep(10000);
    if (argc > 3)
        baton_exit(0); /* a rank is lost */
    check(baton_close(b));
    return 0;
}
