/* SPDX-License-Identifier: BSD-3-Clause */
/* paths: see paths.h. The reactor's, all of it; copy workers only ring the doorbell. */
#include "front/paths.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "copy/copy.h"

#ifndef SYS_pidfd_open /* headers of before Linux 5.3; an older kernel says that it knows no such call */
#define SYS_pidfd_open 434
#endif

enum { PIDFD_UNOPENED = -2, PIDFD_GONE = -3, PIDFD_UNKNOWN = -4 };

#define JOBS_MOST 256 /* copies handed over and not yet collected */

/* An answer that is known at once and told at the next progress. */
struct answer {
    struct answer *prev, *next;
    struct port_event event;
    uint8_t data[];
};

/* Copies under way for one leg. */
struct copying {
    uint64_t tag;
    UT_hash_handle hh;
    uint32_t jobs;
    bool parked;
};

struct paths {
    struct fabric *fabric;
    struct port port;
    baton_path_t *path;
    _Atomic uint64_t *board; /* mine */
    struct copy_pool *pool;  /* NULL: no peer by shm */
    struct copying *copying;
    uint64_t queued, queued_most;  /* bytes that copy workers have or that wait for them, also of what was given up */
    struct answer *answers, *told; /* told: handed out, freed at the next progress */
    int *pidfd;                    /* by rank: its process; PIDFD_UNOPENED, PIDFD_GONE or PIDFD_UNKNOWN */
    uint32_t self;
    char **pools; /* by rank: region 0 of its cache, once a leg named it */
};

static void bell(void *arg)
{
    bell_ring(arg);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static struct answer *answer_add(struct paths *p, enum port_event_kind kind, uint64_t tag, uint32_t bytes)
{
    struct answer *a = malloc(sizeof *a + bytes);
    if (a == NULL)
        return NULL;
    a->event = (struct port_event){.kind = kind, .tag = tag, .data = a->data, .bytes = bytes};
    DL_APPEND(p->answers, a);
    return a;
}

static void answers_free(struct answer **list)
{
    struct answer *a, *next;
    DL_FOREACH_SAFE(*list, a, next)
    {
        DL_DELETE(*list, a);
        free(a);
    }
}

/* ---- the port ---------------------------------------------------------------------------------------------------- */

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct paths *p = self;
    return fabric_send(p->fabric, peer, message, bytes);
}

static int port_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct paths *p = self;
    uint64_t size = fabric_segment_bytes(p->fabric, peer);
    if (offset > size || bytes > size - offset)
        return BATON_EMESSAGE;
    if (p->path[peer] == BATON_PATH_RMA)
        return fabric_read(p->fabric, peer, offset, bytes, tag);
    struct answer *a = answer_add(p, PORT_READ, tag, bytes);
    if (a == NULL)
        return BATON_EAGAIN;
    /* The message that named this place was sent after its bytes were stored; this orders our loads behind it. */
    atomic_thread_fence(memory_order_acquire);
    memcpy(a->data, fabric_mapped(p->fabric, peer, NULL) + offset, bytes);
    return 0;
}

static int port_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct paths *p = self;
    uint64_t size = fabric_segment_bytes(p->fabric, peer);
    if (offset > size || size - offset < 8 || offset % 8 != 0)
        return BATON_EMESSAGE;
    if (p->path[peer] == BATON_PATH_RMA)
        return fabric_read_word(p->fabric, peer, offset, tag);
    struct answer *a = answer_add(p, PORT_BOARD, tag, 0);
    if (a == NULL)
        return BATON_EAGAIN;
    /* copy_collect acquired the workers' last stores and loads; the full fence keeps the load below behind them. */
    atomic_thread_fence(memory_order_seq_cst);
    const _Atomic uint64_t *word = (const void *)(fabric_mapped(p->fabric, peer, NULL) + offset);
    a->event.generation = atomic_load_explicit(word, memory_order_acquire);
    return 0;
}

static struct copying *copying_of(struct paths *p, uint64_t tag)
{
    struct copying *c;
    HASH_FIND(hh, p->copying, &tag, sizeof tag, c);
    return c;
}

static int64_t move_shm(struct paths *p, const struct port_leg *leg, uint64_t budget)
{
    uint64_t size, offset = leg->pool_offset;
    uint8_t *segment = fabric_mapped(p->fabric, leg->peer, &size);
    if (offset > size || leg->pool_bytes > size - offset) /* the plan's runs lie within pool_bytes */
        return BATON_EMESSAGE;
    if (p->queued >= p->queued_most)
        return BATON_EAGAIN;
    if (p->pools[leg->peer] == NULL) /* workers read it: written once */
        p->pools[leg->peer] = (char *)segment + offset;

    struct copying *c = copying_of(p, leg->tag);
    if (c == NULL) {
        c = calloc(1, sizeof *c);
        if (c == NULL)
            return BATON_EAGAIN;
        c->tag = leg->tag;
        HASH_ADD(hh, p->copying, tag, sizeof c->tag, c);
        if (c->hh.tbl == NULL) {
            free(c);
            return BATON_EAGAIN;
        }
    }
    struct plan_cursor behind = *leg->cursor;
    struct copy_job job = {.transfer = leg->transfer,
                           .from = *leg->cursor,
                           .bytes = plan_skip(leg->transfer, &behind, budget),
                           .src_bases = &p->pools[leg->write ? p->self : leg->peer],
                           .dst_bases = &p->pools[leg->write ? leg->peer : p->self],
                           .tag = leg->tag};
    if (!copy_submit(p->pool, &job)) {
        if (c->jobs == 0) {
            HASH_DEL(p->copying, c);
            free(c);
        }
        return BATON_EAGAIN;
    }
    c->jobs++;
    p->queued += job.bytes;
    *leg->cursor = behind;
    return (int64_t)job.bytes;
}

static int64_t port_move(void *self, const struct port_leg *leg, uint64_t budget)
{
    struct paths *p = self;
    if (p->path[leg->peer] == BATON_PATH_RMA)
        return fabric_move(p->fabric, leg, budget);
    return move_shm(p, leg, budget);
}

static int port_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct paths *p = self;
    if (p->path[peer] == BATON_PATH_RMA)
        return fabric_settle(p->fabric, peer, tag);
    /* copy_collect acquired the workers' last stores, which they fenced: a message sent from now on comes after them. */
    atomic_thread_fence(memory_order_seq_cst);
    return answer_add(p, PORT_SETTLED, tag, 0) != NULL ? 0 : BATON_EAGAIN;
}

static enum port_park port_park(void *self, uint32_t peer, uint64_t tag)
{
    struct paths *p = self;
    struct answer *a, *next;
    DL_FOREACH_SAFE(p->answers, a, next)
    {
        if (a->event.tag == tag) {
            DL_DELETE(p->answers, a);
            free(a);
        }
    }
    if (p->path[peer] == BATON_PATH_RMA)
        return fabric_park(p->fabric, peer, tag);
    struct copying *c = copying_of(p, tag);
    if (c == NULL)
        return PORT_PARK_QUIET;
    c->parked = true;
    return PORT_PARK_LATER;
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
    int *fd = &p->pidfd[peer];
    if (*fd == PIDFD_UNOPENED) {
        int pid = fabric_process(p->fabric, peer);
        *fd = pid == 0 ? PIDFD_UNKNOWN : (int)syscall(SYS_pidfd_open, pid, 0);
        if (*fd == -1)
            *fd = errno == ESRCH ? PIDFD_GONE : PIDFD_UNKNOWN;
    }
    if (*fd == PIDFD_UNKNOWN)
        return PORT_UNKNOWN;
    struct pollfd poll_fd = {.fd = *fd, .events = POLLIN}; /* readable once the process has ended */
    if (*fd != PIDFD_GONE && poll(&poll_fd, 1, 0) == 0)
        return PORT_ALIVE;
    return PORT_DEAD;
}

/* What a process of this node stored by shared memory it stored before it was gone. */
static bool port_ended(void *self, uint32_t peer)
{
    const struct paths *p = self;
    return p->path[peer] == BATON_PATH_SHM || fabric_ended(p->fabric, peer);
}

static int port_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                    uint64_t *out, uint64_t tag)
{
    struct paths *p = self;
    char *const *bases = &p->pools[p->self];
    struct copy_job job = {.transfer = transfer,
                           .src_bases = source ? bases : NULL,
                           .dst_bases = source ? NULL : bases,
                           .tag = tag,
                           .sums = out,
                           .first = first,
                           .count = count};
    fabric_sync(p->fabric); /* what peers have put here is seen by this thread, and the ring hands it on */
    return copy_submit(p->pool, &job) ? 0 : BATON_EAGAIN;
}

static int port_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    struct paths *p = self;
    struct copy_job job = {.transfer = transfer, .dst_bases = &p->pools[p->self], .tag = tag, .zero = true};
    return copy_submit(p->pool, &job) ? 0 : BATON_EAGAIN;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int paths_create(struct fabric *fabric, const struct settings *settings, uint64_t board_offset, struct paths **out)
{
    uint32_t size = fabric_size(fabric);
    struct paths *p = calloc(1, sizeof *p);
    if (p == NULL)
        return BATON_ENOMEM;
    p->fabric = fabric;
    p->port = (struct port){.self = p,
                            .send = port_send,
                            .read = port_read,
                            .board = port_board,
                            .move = port_move,
                            .settle = port_settle,
                            .park = port_park,
                            .raise = port_raise,
                            .alive = port_alive,
                            .ended = port_ended,
                            .sum = port_sum,
                            .zero = port_zero};
    p->board = (void *)(fabric_segment(fabric) + board_offset);
    p->self = fabric_rank(fabric);
    p->queued_most = settings->copy_bytes * settings->copy_workers;
    p->path = calloc(size, sizeof *p->path);
    p->pools = calloc(size, sizeof *p->pools);
    p->pidfd = malloc(size * sizeof *p->pidfd);
    int rc = p->path == NULL || p->pools == NULL || p->pidfd == NULL ? BATON_ENOMEM : 0;
    for (uint32_t i = 0; p->pidfd != NULL && i < size; i++)
        p->pidfd[i] = PIDFD_UNOPENED;
    if (rc == 0)
        p->pools[p->self] = (char *)fabric_segment(fabric) + fabric_pool_offset(fabric);
    for (uint32_t i = 0; rc == 0 && i < size; i++)
        p->path[i] = fabric_mapped(fabric, i, NULL) != NULL ? BATON_PATH_SHM : BATON_PATH_RMA;
    if (rc == 0)
        rc = copy_pool_create((unsigned)settings->copy_workers, JOBS_MOST, bell, fabric_bell(fabric), &p->pool);
    if (rc != 0) {
        paths_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

void paths_destroy(struct paths *p)
{
    if (p == NULL)
        return;
    if (p->pool != NULL)
        copy_pool_destroy(p->pool);
    struct copying *c, *next;
    HASH_ITER(hh, p->copying, c, next)
    {
        HASH_DEL(p->copying, c);
        free(c);
    }
    answers_free(&p->answers);
    answers_free(&p->told);
    for (uint32_t i = 0; p->pidfd != NULL && i < fabric_size(p->fabric); i++)
        if (p->pidfd[i] >= 0)
            close(p->pidfd[i]);
    free(p->pidfd);
    free(p->pools);
    free(p->path);
    free(p);
}

const struct port *paths_port(const struct paths *p)
{
    return &p->port;
}

const baton_path_t *paths_table(const struct paths *p)
{
    return p->path;
}

bool paths_pending(const struct paths *p)
{
    return p->answers != NULL;
}

static bool collect_copy(struct paths *p, struct port_event *event)
{
    uint64_t tag, bytes;
    while (copy_collect(p->pool, &tag, &bytes)) {
        struct copying *c = copying_of(p, tag);
        if (c == NULL) { /* no copy: it counts no bytes */
            *event = (struct port_event){.kind = PORT_WORKED, .tag = tag};
            return true;
        }
        bool parked = c->parked, last = --c->jobs == 0;
        p->queued -= bytes;
        if (last) {
            HASH_DEL(p->copying, c);
            free(c);
        }
        *event = (struct port_event){.kind = parked ? PORT_QUIET : PORT_MOVED, .tag = tag, .moved = bytes};
        if (!parked || last)
            return true;
    }
    return false;
}

int paths_progress(struct paths *p, struct port_event *events, int max)
{
    int n = 0;
    answers_free(&p->told);
    while (n < max && collect_copy(p, &events[n]))
        n++;
    while (n < max && p->answers != NULL) {
        struct answer *a = p->answers;
        DL_DELETE(p->answers, a);
        DL_APPEND(p->told, a);
        events[n++] = a->event;
    }
    return n + fabric_progress(p->fabric, events + n, max - n);
}
