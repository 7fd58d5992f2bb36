/* SPDX-License-Identifier: BSD-3-Clause */
/* with_rma: see with_rma.h. */
#include "with_rma.h"

#include <stdlib.h>

#include "fake_mpi.h"
#include "front/runs.h"
#include "mpi/rma.h"

struct with_rma {
    struct logger log;
    struct world world;
    struct windows windows;
    struct rma rma;
    struct net net;
};

static int net_room(void *self, uint32_t peer)
{
    return rma_room(&((struct with_rma *)self)->rma, peer);
}

static int64_t net_move(void *self, const struct net_move *move)
{
    return rma_move(&((struct with_rma *)self)->rma, move);
}

struct with_rma *with_rma_create(const struct settings *settings, const struct quirks *quirks, uint32_t rank,
                                 uint32_t ranks, uint8_t *pool, uint64_t pool_bytes)
{
    struct with_rma *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    w->world.settings = *settings;
    w->log.level = LOG_ERROR;
    w->world.log = &w->log;
    w->world.rank = (int)rank;
    w->world.size = (int)ranks;
    w->windows.shared = MPI_WIN_NULL;
    w->windows.overlay = fake_window();
    w->windows.segment = pool;
    w->windows.pool = (struct path_region){(uint64_t)(uintptr_t)pool, pool_bytes, false};
    w->windows.mine = (struct path_regions){.num = 1, .region = &w->windows.pool};
    w->windows.segments = calloc(ranks, sizeof *w->windows.segments);
    if (w->windows.segments == NULL || rma_init(&w->rma, &w->world, &w->windows, quirks) != 0)
        abort();
    w->net = (struct net){.self = w, .room = net_room, .move = net_move};
    for (uint32_t i = 0; i < ranks; i++)
        w->windows.segments[i].bytes = UINT64_C(1) << 32;
    return w;
}

void with_rma_destroy(struct with_rma *w)
{
    rma_fini(&w->rma);
    free(w->windows.segments);
    free(w);
}

struct rma *with_rma_of(struct with_rma *w)
{
    return &w->rma;
}

const struct net *with_rma_net(const struct with_rma *w)
{
    return &w->net;
}

struct settings *with_rma_settings(struct with_rma *w)
{
    return &w->world.settings;
}

static int path_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    return rma_read(&((struct with_rma *)self)->rma, RMA_READ, peer, offset, bytes, tag);
}

static int path_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    return rma_read(&((struct with_rma *)self)->rma, RMA_WORD, peer, offset, sizeof(uint64_t), tag);
}

static int64_t path_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    return runs_move(with_rma_net(self), leg, budget);
}

static int path_settle(void *self, uint32_t peer, uint64_t tag)
{
    return rma_settle(&((struct with_rma *)self)->rma, peer, tag);
}

static enum path_park path_park(void *self, uint32_t peer, uint64_t tag)
{
    return rma_park(&((struct with_rma *)self)->rma, peer, tag);
}

static bool path_ended(void *self, uint32_t peer)
{
    return rma_ended(&((struct with_rma *)self)->rma, peer);
}

void with_rma_path(struct with_rma *w, struct path *path)
{
    *path = (struct path){.self = w,
                          .read = path_read,
                          .board = path_board,
                          .move = path_move,
                          .settle = path_settle,
                          .park = path_park,
                          .ended = path_ended};
}

int with_rma_progress(struct with_rma *w, struct port_event *events, int max)
{
    return rma_progress(&w->rma, events, max);
}
