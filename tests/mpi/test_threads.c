/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_threads: an MPI that gives less than MPI_THREAD_MULTIPLE (plain MPI_Init), what is counted and logged there, and
 * roles read from the environment.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "baton.h"
#include "harness.h"
#include "with_page.h"
#include "with_tune.h"

static baton_open_params_t me(baton_progress_mode_t mode)
{
    baton_open_params_t p = {.size = sizeof p,
                             .engine = "e",
                             .role = BATON_ROLE_BOTH,
                             .tp = (uint32_t)harness.size,
                             .pp = 1,
                             .tp_rank = (uint32_t)harness.rank,
                             .progress = mode};
    return p;
}

static void refuses_a_thread_without_support(void)
{
    baton_open_params_t p = me(BATON_PROGRESS_THREAD);
    baton_t *b;
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), BATON_ETHREAD);
    CHECK_HAS(baton_errmsg(), "MPI_THREAD_");
}

static void refuses_a_thread_asked_for_by_one_rank(void)
{
    baton_open_params_t p = me(harness.rank == 0 ? BATON_PROGRESS_THREAD : BATON_PROGRESS_AUTO);
    baton_t *b;
    CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), BATON_ETHREAD); /* on every rank the same */
}

/* A context with one block on each rank, in the progress mode asked for. NULL: it could not be opened. */
static baton_t *up(baton_progress_mode_t mode, unsigned char **base)
{
    baton_open_params_t p = me(mode);
    baton_t *b;
    if (!CHECK_EQ(baton_open(MPI_COMM_WORLD, &p, &b), 0))
        return NULL;
    baton_geometry_t g = {.size = sizeof g,
                          .model = "m",
                          .dtype = "u8",
                          .elem_bytes = 1,
                          .planes = 1,
                          .head_size = 64,
                          .num_groups = 1,
                          .groups = {{.block_tokens = 16, .num_blocks = 4}},
                          .num_splits = 1,
                          .splits = {{.heads_total = (uint32_t)harness.size, .head_first = p.tp_rank, .head_count = 1}},
                          .layers_total = 1,
                          .layer_count = 1};
    baton_tensor_t tensor;
    baton_cache_t *cache;
    CHECK_EQ(baton_geometry_layout(&g, &tensor, 0), 0);
    CHECK_EQ(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), 0);
    CHECK_EQ(baton_start(b), 0);
    *base = baton_cache_base(cache);
    memset(*base + 1024, 1 + harness.rank, 1024);
    return b;
}

static void offer_and_want(baton_t *b)
{
    const uint32_t from = 1, to = 2;
    CHECK_EQ(baton_offer(b,
                         &(baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                                 .key = "k",
                                                 .num_tables = 1,
                                                 .tables = {{.blocks = &from, .num_blocks = 1}},
                                                 .num_tokens = 16},
                         NULL),
             0);
    CHECK_EQ(baton_want(b,
                        &(baton_want_params_t){.size = sizeof(baton_want_params_t),
                                               .key = "k",
                                               .engine = "e",
                                               .num_tables = 1,
                                               .tables = {{.blocks = &to, .num_blocks = 1}},
                                               .num_tokens = 16},
                        NULL),
             0);
}

static void check_and_close(baton_t *b, const unsigned char *base)
{
    CHECK_EQ(base[2048], 1 + harness.rank);
    CHECK_EQ(base[2048 + 1023], 1 + harness.rank);
    CHECK_EQ(base[2048 + 1024], 0);
    CHECK_EQ(baton_close(b), 0);
}

static void works_by_progress(void)
{
    unsigned char *base;
    baton_t *b = up(BATON_PROGRESS_CALLER, &base);
    baton_event_t e = {0};
    if (b == NULL)
        return;
    offer_and_want(b);
    for (int ended = 0, turns = 0; ended < 2 && turns < 100000000; turns++) {
        CHECK(baton_progress(b) >= 0);
        if (baton_poll(b, &e, 1) == 1) {
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            ended++;
        }
    }
    check_and_close(b, base);
}

/* The README's loop, which sleeps on the descriptor. Here it must never sleep for 10 s. */
static baton_event_t next_event(baton_t *b)
{
    struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN};
    baton_event_t e = {0};
    while (baton_poll(b, &e, 1) == 0)
        if (!CHECK_EQ(poll(&fd, 1, 10000), 1))
            break;
    return e;
}

static void works_by_the_readmes_loop(void)
{
    unsigned char *base;
    baton_t *b = up(BATON_PROGRESS_AUTO, &base);
    if (b == NULL)
        return;
    offer_and_want(b);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(next_event(b).status, BATON_STATUS_DONE);
    check_and_close(b, base);
}

/* Nothing is under way: the descriptor is quiet between turns, but wakes often enough to answer others. */
static void an_idle_loop_sleeps(void)
{
    unsigned char *base;
    baton_t *b = up(BATON_PROGRESS_AUTO, &base);
    baton_event_t e;
    int wakes = 0;
    if (b == NULL)
        return;
    struct pollfd fd = {.fd = baton_event_fd(b), .events = POLLIN};
    double until = MPI_Wtime() + 0.5;
    while (MPI_Wtime() < until) {
        CHECK_EQ(baton_poll(b, &e, 1), 0);
        wakes += poll(&fd, 1, 200) == 1;
    }
    CHECK(wakes >= 20);   /* 250 at 2 ms; a busy machine has fewer */
    CHECK(wakes <= 5000); /* a spinning loop has 100,000 */
    CHECK_EQ(baton_close(b), 0);
}

struct poller {
    baton_t *b;
    atomic_bool stop;
    int events;
};

static void *take_events(void *arg)
{
    struct poller *p = arg;
    baton_event_t e;
    while (!atomic_load(&p->stop)) {
        p->events += baton_poll(p->b, &e, 1) > 0;
        usleep(1000);
    }
    return NULL;
}

/* MPI allows one thread only: nothing moves while another thread polls. */
static void another_thread_moves_nothing(void)
{
    unsigned char *base;
    baton_t *b = up(BATON_PROGRESS_AUTO, &base);
    struct poller p = {.b = b};
    pthread_t thread;
    if (b == NULL)
        return;
    offer_and_want(b);
    if (CHECK_EQ(pthread_create(&thread, NULL, take_events, &p), 0)) {
        usleep(200000);
        atomic_store(&p.stop, true);
        pthread_join(thread, NULL);
    }
    CHECK_EQ(p.events, 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(next_event(b).status, BATON_STATUS_DONE);
    check_and_close(b, base);
}

/* ---- what is counted --------------------------------------------------------------------------------------------- */

/* What a rank has come to stays in its page, though the page is renewed each 0.1 s at most. */
static void the_last_counts_stay(void)
{
    unsigned char *base;
    page_begin();
    baton_t *b = up(BATON_PROGRESS_CALLER, &base);
    page_end();
    if (b == NULL)
        return;
    offer_and_want(b);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(next_event(b).status, BATON_STATUS_DONE);
    check_and_close(b, base);
    const struct metrics_body *last = &page_read()->body;
    CHECK_EQ(last->is_closed, 1);
    CHECK_EQ(last->stats[METRICS_wants_done], 1);
    CHECK_EQ(last->stats[METRICS_offers_done], 1);
    page_remove();
}

/* Two transfers: by the second one, statistics were taken once, and are due again in a minute. */
static void an_event_is_counted_before_it_is_seen(void)
{
    unsigned char *base;
    baton_stats_t s = BATON_INIT(baton_stats_t);
    tune("stats_ms", "60000");
    setenv("BATON_METRICS", "", 1); /* a page would be renewed, and they with it */
    baton_t *b = up(BATON_PROGRESS_CALLER, &base);
    tune("stats_ms", NULL);
    unsetenv("BATON_METRICS");
    if (b == NULL)
        return;
    for (unsigned transfer = 1; transfer <= 2; transfer++) {
        offer_and_want(b);
        for (int i = 0; i < 2; i++) {
            baton_event_t e = next_event(b);
            CHECK_EQ(e.status, BATON_STATUS_DONE);
            CHECK_EQ(baton_stats(b, &s), 0);
            CHECK_EQ(e.type == BATON_EVENT_WANT ? s.wants_done : s.offers_done, transfer);
        }
    }
    check_and_close(b, base);
}

/* ---- what is logged ---------------------------------------------------------------------------------------------- */

struct heard {
    int fallbacks, misspelt, others, rank;
};

static void hear(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    struct heard *h = user;
    h->rank = source->world_rank;
    h->fallbacks += level == BATON_LOG_WARNING && strstr(line, "MPI_THREAD_MULTIPLE") != NULL;
    h->misspelt += level == BATON_LOG_WARNING && strstr(line, "BATON_REQEST") && strstr(line, "BATON_REQUESTS");
    h->others += strstr(line, "MPI_THREAD_MULTIPLE") == NULL && strstr(line, "BATON_REQEST") == NULL;
}

/*
 * At the default level the fallback is logged once in the world, a misspelt setting once an engine, by the engine's
 * logger.
 */
static void says_what_it_fell_back_to(void)
{
    unsigned char *base;
    struct heard h = {.rank = -1}, quiet = {.rank = -1};
    setenv("BATON_REQEST", "5", 1);
    baton_log_set(hear, &h);
    baton_t *b = up(BATON_PROGRESS_AUTO, &base);
    baton_log_set(NULL, NULL);
    unsetenv("BATON_REQEST");
    CHECK_EQ(h.fallbacks, harness.rank == 0);
    CHECK_EQ(h.misspelt, harness.rank == 0);
    CHECK_EQ(h.rank, harness.rank == 0 ? 0 : -1);
    CHECK_EQ(h.others, 0);
    if (b != NULL)
        CHECK_EQ(baton_close(b), 0);
    baton_log_set(hear, &quiet); /* an engine that asks for the mode is not warned */
    b = up(BATON_PROGRESS_CALLER, &base);
    baton_log_set(NULL, NULL);
    CHECK_EQ(quiet.fallbacks + quiet.misspelt + quiet.others, 0);
    if (b != NULL)
        CHECK_EQ(baton_close(b), 0);
}

static atomic_int exists; /* lines that say that a key is offered already */

static void hear_exists(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line)
{
    (void)user, (void)level, (void)source;
    exists += strstr(line, "reason=BATON_EEXIST") != NULL;
}

/* A line a second is written of each cause. What was left out is told a second later, or when the context is closed. */
static void what_the_log_left_out_is_told(void)
{
    unsigned char *base;
    const uint32_t block = 1;
    const baton_offer_params_t o = {.size = sizeof o,
                                    .key = "k",
                                    .num_tables = 1,
                                    .tables = {{.blocks = &block, .num_blocks = 1}},
                                    .num_tokens = 16};
    exists = 0;
    baton_log_set(hear_exists, NULL);
    baton_t *b = up(BATON_PROGRESS_CALLER, &base);
    baton_log_set(NULL, NULL);
    if (b == NULL)
        return;
    CHECK_EQ(baton_offer(b, &o, NULL), 0);
    for (int again = 1; again <= 3; again++) {
        CHECK_EQ(baton_offer(b, &o, NULL), 0);
        CHECK_EQ(next_event(b).error, BATON_EEXIST);
        for (double until = MPI_Wtime() + 20; again == 2 && exists < 2 && MPI_Wtime() < until;)
            usleep(10000); /* nothing more happens here */
        CHECK(again != 2 || exists == 2);
    }
    CHECK_EQ(baton_close(b), 0);
    CHECK_EQ(exists, 3);
}

static void role_is_refused(baton_open_params_t *p, const char *variable, const char *value, const char *words)
{
    const baton_open_params_t before = *p;
    setenv(variable, value, 1);
    CHECK_EQ(baton_role_from_env(p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), words);
    CHECK(memcmp(p, &before, sizeof before) == 0);
}

#define LONGEST "123456789012345678901234567890123456789012345678901234567890123" /* 63 bytes */
#define LONGER LONGEST "4"

/* Each variable at its edge, and just beyond it. */
static void looks_at_what_a_role_is_made_of(void)
{
    baton_open_params_t p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    setenv("BATON_ROLE", "both", 1);
    setenv("BATON_TP", "1024", 1);
    setenv("BATON_TP_RANK", "1023", 1);
    setenv("BATON_PP", "1", 1);
    setenv("BATON_ENGINE", LONGEST, 1); /* the longest */
    CHECK_EQ(baton_role_from_env(&p), 0);
    CHECK_EQ(strcmp(p.engine, LONGEST), 0);
    CHECK_EQ(p.tp, 1024);
    CHECK_EQ(p.tp_rank, 1023);
    role_is_refused(&p, "BATON_ENGINE", LONGER, "is not a name of 1 to 63 bytes");
    role_is_refused(&p, "BATON_ENGINE", "", "is not a name of 1 to 63 bytes");
    setenv("BATON_ENGINE", "e", 1);
    role_is_refused(&p, "BATON_TP", "0", "BATON_TP=0 is not a number from 1 to 1024");
    role_is_refused(&p, "BATON_TP", "1025", "BATON_TP=1025 is not a number from 1 to 1024");
    role_is_refused(&p, "BATON_TP", "1K", "BATON_TP=1K is not a number from 1 to 1024");
    role_is_refused(&p, "BATON_TP", "", "BATON_TP= is not a number from 1 to 1024");
    setenv("BATON_TP", "1024", 1);
    role_is_refused(&p, "BATON_TP_RANK", "1024", "BATON_TP_RANK 1024 of 1024");
    setenv("BATON_TP_RANK", "0", 1);
    setenv("BATON_PP", "2", 1);
    role_is_refused(&p, "BATON_PP_RANK", "2", "BATON_PP_RANK 2 of 2");
    setenv("BATON_PP_RANK", "1", 1);
    CHECK_EQ(baton_role_from_env(&p), 0);
    CHECK_EQ(p.pp_rank, 1);
    for (size_t i = 0; i < sizeof p.engine; i++) /* nothing is left of a longer name */
        CHECK_EQ(p.engine[i], i == 0 ? 'e' : '\0');
    unsetenv("BATON_PP");
    unsetenv("BATON_PP_RANK");
    unsetenv("BATON_TP");
    unsetenv("BATON_TP_RANK");
}

static void reads_its_role(void)
{
    baton_open_params_t p = {.size = sizeof p, .progress = BATON_PROGRESS_CALLER, .verdicts = BATON_VERDICTS_ALL};
    unsetenv("BATON_ENGINE");
    unsetenv("BATON_ROLE");
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_ENGINE is not set");
    setenv("BATON_ENGINE", "decode3", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_ROLE is not set");
    setenv("BATON_ROLE", "both-ways", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_ROLE=both-ways is none");
    setenv("BATON_ROLE", "decode", 1);
    CHECK_EQ(baton_role_from_env(&p), 0);
    CHECK_EQ(p.tp, 1);
    setenv("BATON_TP", "4", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_TP=4, and BATON_TP_RANK is not set");
    setenv("BATON_TP_RANK", "2", 1);
    setenv("BATON_PP", "2", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_PP=2, and BATON_PP_RANK is not set");
    unsetenv("BATON_PP");
    setenv("BATON_TP_RANK", "4", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_TP_RANK");
    CHECK_EQ(p.tp, 1); /* it is set only on success */
    setenv("BATON_TP_RANK", "3", 1);
    CHECK_EQ(baton_role_from_env(&p), 0);
    CHECK(strcmp(p.engine, "decode3") == 0);
    CHECK_EQ(p.role, BATON_ROLE_DECODE);
    CHECK_EQ(p.tp_rank, 3);
    CHECK_EQ(p.progress, BATON_PROGRESS_CALLER); /* left as they were */
    CHECK_EQ(p.verdicts, BATON_VERDICTS_ALL);
    setenv("BATON_PP", "two", 1);
    CHECK_EQ(baton_role_from_env(&p), BATON_ESETTING);
    CHECK_HAS(baton_errmsg(), "BATON_PP");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness.size);
    RUN(refuses_a_thread_without_support);
    RUN(refuses_a_thread_asked_for_by_one_rank);
    RUN(works_by_progress);
    RUN(works_by_the_readmes_loop);
    RUN(an_idle_loop_sleeps);
    RUN(another_thread_moves_nothing);
    RUN(the_last_counts_stay);
    RUN(an_event_is_counted_before_it_is_seen);
    RUN(says_what_it_fell_back_to);
    RUN(what_the_log_left_out_is_told);
    RUN(looks_at_what_a_role_is_made_of);
    RUN(reads_its_role);
    return harness_end();
}
