/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: an engine that forgets baton_close. MPI_Finalize stops the reactor, says so and returns; later calls are
 * refused. With the argument "close" it closes, and nothing is said. With "open" a want is under way. With "both" it
 * forgets two contexts. With "one" it closes the second context, and a third that it never started. With "late" rank 1
 * comes to MPI_Finalize after 3 s. With "waiting" the cache of rank 1 has not come by then, with "racing" the caches
 * come at that moment. With "met" rank 1 has said that its cache is there, and rank 0 goes on, which needs "caller".
 * With "stuck" a turn of rank 1's reactor, which wants from itself, lasts longer than MPI_Finalize waits for it. A
 * second argument "caller": the program lends its thread for progress. The status is 9 if the log says that a thread of
 * Baton could not be stopped, and that of rank 1 with "stuck" if it does not say so.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baton.h"
#include "../with_geometry.h"
#include "with_log.h"

static baton_t *second, *unstarted;

static void open_more(const baton_open_params_t *me, bool is_one)
{
    need(baton_open(MPI_COMM_WORLD, me, &second), "baton_open of the second");
    need(baton_start(second), "baton_start of the second");
    if (!is_one)
        return;
    need(baton_open(MPI_COMM_WORLD, me, &unstarted), "baton_open of the third");
    need(baton_close(second), "baton_close of the second");
    need(baton_close(unstarted), "baton_close of the third");
}

/* The second half of start has not begun at MPI_Finalize, or has done so just now. */
static int leave_late(baton_t *b, const baton_geometry_t *g, bool wraps, bool goes_on)
{
    const baton_region_t region = {.size = sizeof region, .base = malloc(g->bytes), .bytes = g->bytes};
    baton_cache_t *cache;
    if (wraps)
        need(baton_cache_wrap(b, g, &region, 1, &cache), "baton_cache_wrap");
    int before = goes_on ? BATON_EAGAIN : baton_cache_ready(b);
    if (before != 0 && before != BATON_EAGAIN)
        return 6;
    MPI_Barrier(MPI_COMM_WORLD);
    while (goes_on && (before = baton_cache_ready(b)) == BATON_EAGAIN)
        usleep(1000);
    if (goes_on && before != BATON_ECLOSED) { /* the other rank is in MPI_Finalize */
        fprintf(stderr, "baton_cache_ready: %s: %s\n", baton_errname(before), baton_errmsg());
        return 8;
    }
    MPI_Finalize();
    if (baton_cache_ready(b) != BATON_ESTATE || baton_cancel(b, 1) != BATON_ESTATE || baton_close(b) != BATON_ESTATE)
        return 7;
    printf("left while caches come\n");
    return unstopped > 0 ? 9 : 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "forget";
    int level, rank;
    uint32_t block = 1;
    baton_t *b;
    baton_cache_t *cache;
    baton_tensor_t tensor;
    baton_event_t e;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    baton_open_params_t me = {.size = sizeof me, .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1};
    if (argc > 2 && strcmp(argv[2], "caller") == 0)
        me.progress = BATON_PROGRESS_CALLER;
    snprintf(me.engine, sizeof me.engine, "e%d", rank);
    baton_geometry_t g = small_geometry(16, 4);
    bool is_racing = strcmp(how, "racing") == 0, has_met = strcmp(how, "met") == 0,
         is_late = is_racing || has_met || strcmp(how, "waiting") == 0,
         is_open = strcmp(how, "open") == 0 || strcmp(how, "stuck") == 0,
         stalls = strcmp(how, "stuck") == 0 && rank == 1;
    me.flags = is_late ? BATON_OPEN_CACHE_LATER : 0;
    if (stalls) {
        setenv("BATON_FAULT", "stall@send.WANT#1+60000", 1);
        setenv("BATON_TUNE", "stall_ms=500", 1);
    }
    baton_log_set(hear, NULL);
    need(baton_open(MPI_COMM_WORLD, &me, &b), "baton_open");
    need(baton_geometry_layout(&g, &tensor, 0), "baton_geometry_layout");
    if (!is_late)
        need(baton_cache_create(b, &g, BATON_MEMORY_HOST, &cache), "baton_cache_create");
    need(baton_start(b), "baton_start");
    if (is_late)
        return leave_late(b, &g, rank == 0 || is_racing || has_met, has_met && rank == 0);
    if (strcmp(how, "both") == 0 || strcmp(how, "one") == 0)
        open_more(&me, strcmp(how, "one") == 0);
    const baton_offer_params_t offer = {.size = sizeof offer,
                                        .key = "k",
                                        .num_tables = 1,
                                        .tables = {{.blocks = &block, .num_blocks = 1}},
                                        .num_tokens = 16,
                                        .ttl_ms = 20000};
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = is_open ? "another" : "k",
                                      .engine = stalls ? "e1" : "e0",
                                      .num_tables = 1,
                                      .tables = {{.blocks = &block, .num_blocks = 1}},
                                      .num_tokens = 16,
                                      .timeout_ms = 20000};
    if (rank == 0)
        need(baton_offer(b, &offer, NULL), "baton_offer");
    if (rank == 1)
        need(baton_want(b, &want, NULL), "baton_want");
    if (stalls || (rank < 2 && !is_open)) /* the end of the call, or that it was given up since the reactor is stuck */
        while (baton_poll(b, &e, 1) == 0)
            usleep(100);
    if (strcmp(how, "close") == 0)
        need(baton_close(b), "baton_close");
    if (strcmp(how, "late") == 0 && rank == 1)
        sleep(3);
    MPI_Finalize();
    if (strcmp(how, "close") != 0 &&
        (baton_offer(b, &offer, NULL) != BATON_ESTATE || strstr(baton_errmsg(), "MPI was finalised") == NULL ||
         baton_close(b) != BATON_ESTATE))
        return 4;
    if (strcmp(how, "both") == 0 && baton_close(second) != BATON_ESTATE)
        return 5;
    printf("rank %d left\n", rank);
    return (unstopped > 0) == stalls ? 0 : 9;
}
