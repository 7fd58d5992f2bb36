/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest: reads the pattern in the peers' first pages in the ways that rma.c will read data, and looks at every
 * byte. The thread that starts runs it. All ranks are in it at the same time and only ever test and agree, so each
 * drives the progress that the others' reads need.
 */
#include "mpi/selftest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

enum { PEERS = 3, ROUNDS = 3, POISON = 0xa5 };

/* The last get is the shortest: were it alone what the request waits for, it would be there first. */
#define LAST_BYTES 8u

struct landing {
    uint8_t at[QUIRKS_RUNS_MAX][WINDOWS_PATTERN_BYTES];
};

/* The peers to try: the first on other nodes, beginning half a world away, so that no rank serves all. */
static int choose_peers(const struct world *w, uint32_t peers[PEERS])
{
    int n = 0;
    for (int i = 0; i < w->size && n < PEERS; i++) {
        uint32_t r = (uint32_t)((w->rank + w->size / 2 + i) % w->size);
        if (w->node_of[r] != w->node_of[w->rank])
            peers[n++] = r;
    }
    return n;
}

/* A wrong byte that could be right by chance would hide what is looked for: the poison is the pattern's inverse. */
static void poison(struct landing *l, uint32_t peer)
{
    for (uint32_t g = 0; g < QUIRKS_RUNS_MAX; g++)
        for (uint32_t i = 0; i < WINDOWS_PATTERN_BYTES; i++)
            l->at[g][i] = (uint8_t)~windows_pattern(peer, i);
}

static bool is_whole(const struct landing *l, uint32_t peer, uint32_t gets)
{
    for (uint32_t g = 0; g < gets; g++) {
        uint32_t bytes = g + 1 < gets ? WINDOWS_PATTERN_BYTES : LAST_BYTES;
        for (uint32_t i = 0; i < bytes; i++)
            if (l->at[g][i] != windows_pattern(peer, i))
                return false;
    }
    return true;
}

/* `gets` - 1 MPI_Get and one MPI_Rget; *request is the latter's. */
static int issue(const struct windows *v, struct landing *l, uint32_t peer, uint32_t gets, MPI_Request *request)
{
    int whole = WINDOWS_PATTERN_BYTES, last = LAST_BYTES, rc = MPI_SUCCESS;
    for (uint32_t g = 0; g + 1 < gets && rc == MPI_SUCCESS; g++)
        rc = MPI_Get(l->at[g], whole, MPI_BYTE, (int)peer, WINDOWS_PATTERN_OFFSET, whole, MPI_BYTE, v->overlay);
    if (rc == MPI_SUCCESS)
        rc = MPI_Rget(l->at[gets - 1], last, MPI_BYTE, (int)peer, WINDOWS_PATTERN_OFFSET, last, MPI_BYTE, v->overlay,
                      request);
    return rc == MPI_SUCCESS ? 0 : world_mpi_error(BATON_EMPI, "a get of the self-test", rc);
}

/* Waits for the request alone. BATON_ETIMEDOUT leaves it open: the landing must stay. */
static int await(const struct world *w, uint32_t peer, MPI_Request *request)
{
    uint64_t deadline = clock_now_ns() + w->settings.start_ms * CLOCK_NS_PER_MS / 2; /* the agreement needs the rest */
    for (unsigned polls = 0;; polls++) {
        int done = 0;
        int rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            return world_mpi_error(BATON_EMPI, "a request of the self-test", rc);
        if (done)
            return 0;
        if (clock_now_ns() > deadline)
            return error_set(BATON_ETIMEDOUT, "a one-sided read from rank %" PRIu32 " did not complete", peer);
        world_pause(polls);
    }
}

/* *whole becomes false where the request was complete before all its bytes were there. */
static int try_gets(const struct world *w, const struct windows *v, struct landing *l, uint32_t gets, bool *whole)
{
    uint32_t peers[PEERS];
    int n = choose_peers(w, peers), error = 0;
    for (int i = 0; i < n * ROUNDS && error == 0; i++) {
        uint32_t peer = peers[i % n];
        MPI_Request request;
        poison(l, peer);
        error = issue(v, l, peer, gets, &request);
        if (error == 0)
            error = await(w, peer, &request);
        if (error)
            break;
        windows_sync(v);
        bool all = is_whole(l, peer, gets);
        *whole = *whole && all;
        int rc = all ? MPI_SUCCESS : MPI_Win_flush((int)peer, v->overlay); /* before the landing is used again */
        if (rc != MPI_SUCCESS)
            error = world_mpi_error(BATON_EMPI, "MPI_Win_flush", rc);
    }
    return error;
}

static int try_single(const struct world *w, const struct windows *v, struct landing *l)
{
    bool whole = true;
    int error = try_gets(w, v, l, 1, &whole);
    if (error == 0 && !whole)
        error = error_set(BATON_EMPI,
                          "an MPI_Rget on window '%s' completed without its bytes: choose another "
                          "one-sided component (OMPI_MCA_osc)",
                          v->overlay_name);
    return error;
}

int selftest_run(struct world *w, const struct windows *v, struct quirks *q)
{
    if (v->overlay == MPI_WIN_NULL)
        return 0;
    struct landing *l = malloc(sizeof *l);
    int local = l ? 0 : error_set(BATON_ENOMEM, "no memory for the self-test");
    int error = world_agree(w, "memory for the self-test", local);
    if (error) {
        free(l);
        return error;
    }
    error = world_agree(w, "self-test of a single get", try_single(w, v, l));
    bool whole = true;
    if (error == 0) {
        local = q->gets_per_request > 1 ? try_gets(w, v, l, q->gets_per_request, &whole) : 0;
        error = world_agree(w, "self-test of several gets", local);
    }
    if (error)
        return error; /* a read may still be open: the landing is left to MPI */
    free(l);
    error = world_unanimous(w, "several gets a request", whole, &whole);
    if (error)
        return error;
    if (q->gets_per_request > 1 && !whole) {
        log_line(w->log, LOG_WARN, "a request does not cover the gets before it here: each operation has its own");
        q->gets_per_request = q->puts_per_request = 1;
        q->why = "the self-test found that a request does not cover the gets before it";
    }
    return 0;
}
