/* SPDX-License-Identifier: BSD-3-Clause */
/* paths: see paths.h. */
#include "front/paths.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "shm/shm.h"

#define PATHS_MOST (BATON_PATHS - 1) /* BATON_PATH_NONE is none */

struct paths {
    struct fabric *fabric;
    const char *cpus; /* of the copy workers */
    struct shm *shm;
    struct port port;
    struct path path[PATHS_MOST];
    unsigned num_paths;
    unsigned *to;            /* by rank: which path */
    baton_path_t *kinds;     /* by rank: its kind */
    _Atomic uint64_t *board; /* mine */
};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int make_shm(struct paths *p, const struct settings *settings, struct path *out)
{
    uint32_t size = fabric_size(p->fabric);
    struct shm_segment *segments = calloc(size, sizeof *segments);
    if (segments == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < size; i++) {
        segments[i].mapped = fabric_mapped(p->fabric, i, &segments[i].bytes);
        segments[i].process = fabric_process(p->fabric, i);
    }
    const struct shm_wish wish = {.self = fabric_rank(p->fabric),
                                  .num_ranks = size,
                                  .segments = segments,
                                  .pool_offset = fabric_pool_offset(p->fabric),
                                  .workers = settings->copy_workers,
                                  .worker_bytes = settings->copy_bytes,
                                  .cpus = p->cpus,
                                  .bell = fabric_bell(p->fabric)};
    int rc = shm_create(&wish, &p->shm);
    free(segments);
    if (rc == 0)
        shm_path(p->shm, out);
    return rc;
}

static int make_mpi(struct paths *p, const struct settings *settings, struct path *out)
{
    (void)settings;
    fabric_path(p->fabric, out);
    return 0;
}

/* The nearest first: a rank is reached by the first path that leads there. */
static int (*const makers[])(struct paths *p, const struct settings *settings, struct path *out) = {make_shm, make_mpi};
#define MAKERS (sizeof makers / sizeof makers[0])
_Static_assert(MAKERS <= PATHS_MOST, "each path has a value in baton_path_t");

/* ---- the port's path: each call goes to the path of its rank ----------------------------------------------------- */

static const struct path *path_to(void *self, uint32_t peer)
{
    const struct paths *p = self;
    return &p->path[p->to[peer]];
}

static int route_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->read(to->self, peer, offset, bytes, tag);
}

static int route_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->board(to->self, peer, offset, tag);
}

static int64_t route_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    const struct path *to = path_to(self, leg->peer);
    return to->move(to->self, leg, budget);
}

static int route_settle(void *self, uint32_t peer, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->settle(to->self, peer, tag);
}

static enum path_park route_park(void *self, uint32_t peer, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->park(to->self, peer, tag);
}

static bool route_ended(void *self, uint32_t peer)
{
    const struct path *to = path_to(self, peer);
    return to->ended(to->self, peer);
}

static int all_progress(void *self, struct port_event *events, int max)
{
    const struct paths *p = self;
    int n = 0;
    for (unsigned i = 0; i < p->num_paths; i++)
        n += p->path[i].progress(p->path[i].self, events + n, max - n);
    return n;
}

static bool any_busy(const void *self)
{
    const struct paths *p = self;
    for (unsigned i = 0; i < p->num_paths; i++)
        if (p->path[i].busy(p->path[i].self))
            return true;
    return false;
}

/* ---- the rest of the port ---------------------------------------------------------------------------------------- */

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct paths *p = self;
    return fabric_send(p->fabric, peer, message, bytes);
}

static void port_raise(void *self, uint32_t slot, uint64_t generation)
{
    struct paths *p = self;
    atomic_store_explicit(&p->board[slot], generation, memory_order_release);
    /* Before anything that follows (an event that frees the blocks), for readers on this node and by rma. */
    atomic_thread_fence(memory_order_seq_cst);
    fabric_sync(p->fabric);
}

static enum port_alive port_alive(void *self, uint32_t peer)
{
    struct paths *p = self;
    return shm_alive(p->shm, peer);
}

static int port_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                    uint64_t *out, uint64_t tag)
{
    struct paths *p = self;
    fabric_sync(p->fabric); /* what peers have put here is seen by this thread, and the ring hands it on */
    return shm_sum(p->shm, transfer, source, first, count, out, tag);
}

static int port_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    struct paths *p = self;
    return shm_zero(p->shm, transfer, tag);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void port_fill(struct paths *p)
{
    p->port = (struct port){.path = {.self = p,
                                     .read = route_read,
                                     .board = route_board,
                                     .move = route_move,
                                     .settle = route_settle,
                                     .park = route_park,
                                     .ended = route_ended,
                                     .progress = all_progress,
                                     .busy = any_busy},
                            .self = p,
                            .send = port_send,
                            .raise = port_raise,
                            .alive = port_alive,
                            .sum = port_sum,
                            .zero = port_zero};
}

static unsigned choose(const struct paths *p, uint32_t peer)
{
    unsigned i = 0;
    while (p->path[i].reaches != NULL && !p->path[i].reaches(p->path[i].self, peer))
        i++; /* the last one leads everywhere */
    return i;
}

int paths_create(struct fabric *fabric, const struct settings *settings, const char *cpus, uint64_t board_offset,
                 struct paths **out)
{
    uint32_t size = fabric_size(fabric);
    struct paths *p = calloc(1, sizeof *p);
    if (p == NULL)
        return BATON_ENOMEM;
    p->fabric = fabric;
    p->cpus = cpus;
    p->board = (void *)(fabric_segment(fabric) + board_offset);
    p->to = calloc(size, sizeof *p->to);
    p->kinds = calloc(size, sizeof *p->kinds);
    int rc = p->to == NULL || p->kinds == NULL ? BATON_ENOMEM : 0;
    for (; rc == 0 && p->num_paths < MAKERS; p->num_paths += rc == 0)
        rc = makers[p->num_paths](p, settings, &p->path[p->num_paths]);
    if (rc != 0) {
        paths_destroy(p);
        return rc;
    }
    for (uint32_t i = 0; i < size; i++) {
        p->to[i] = choose(p, i);
        p->kinds[i] = p->path[p->to[i]].kind;
    }
    port_fill(p);
    *out = p;
    return 0;
}

void paths_destroy(struct paths *p)
{
    if (p == NULL)
        return;
    for (unsigned i = 0; i < p->num_paths; i++)
        if (p->path[i].close != NULL)
            p->path[i].close(p->path[i].self);
    free(p->to);
    free(p->kinds);
    free(p);
}

const struct port *paths_port(const struct paths *p)
{
    return &p->port;
}

const baton_path_t *paths_table(const struct paths *p)
{
    return p->kinds;
}

void paths_worker_cpus(const struct paths *p, char *list, size_t size)
{
    shm_worker_cpus(p->shm, list, size);
}

int paths_describe(const struct paths *p, char *text, size_t size)
{
    int length = 0;
    for (unsigned i = 0; i < p->num_paths; i++) {
        uint32_t ranks = 0;
        for (uint32_t peer = 0; peer < fabric_size(p->fabric); peer++)
            ranks += p->to[peer] == i;
        size_t used = (size_t)length < size ? (size_t)length : size;
        length += snprintf(text + used, size - used, "%s%u%s by %s", i > 0 ? ", " : "", ranks, i == 0 ? " ranks" : "",
                           p->path[i].name);
    }
    return length;
}
