/* SPDX-License-Identifier: BSD-3-Clause */
/* raw: see the header. The consumer's main thread issues and tests; the errors of MPI end the job. */
#include "bench/raw.h"

#include "base/clock.h"
#include "bench/fail.h"
#include "replay/random.h"

#define STALL_NS (UINT64_C(5000) * CLOCK_NS_PER_MS)

void raw_open(struct raw *r, MPI_Comm comm, char *pool, uint64_t bytes)
{
    *r = (struct raw){0};
    MPI_Comm_dup(comm, &r->comm);
    if (MPI_Win_create(pool, (MPI_Aint)bytes, 1, MPI_INFO_NULL, r->comm, &r->win) != MPI_SUCCESS)
        fail("MPI_Win_create failed: raw MPI cannot be measured here");
    MPI_Win_lock_all(MPI_MODE_NOCHECK, r->win);
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        r->request[i] = MPI_REQUEST_NULL;
}

void raw_close(struct raw *r)
{
    MPI_Win_unlock_all(r->win);
    MPI_Win_free(&r->win);
    MPI_Comm_free(&r->comm);
}

unsigned raw_ways(bool put)
{
    return put ? RAW_GROUPS : RAW_WAYS;
}

const char *raw_way_name(enum raw_way way, bool put)
{
    static const char *const names[][2] = {{"MPI_Rget", "MPI_Rput"},
                                           {"MPI_Get and a flush", "MPI_Put and a flush"},
                                           {"63 MPI_Get and an MPI_Rget", "none"}};
    return names[way][put];
}

static void issue(struct raw *r, bool put, const struct raw_piece *p, int slot)
{
    if (slot < 0 && put)
        MPI_Put(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win);
    else if (slot < 0)
        MPI_Get(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win);
    else if (put)
        MPI_Rput(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win, &r->request[slot]);
    else
        MPI_Rget(p->mine, p->bytes, MPI_BYTE, p->peer, p->theirs, p->bytes, MPI_BYTE, r->win, &r->request[slot]);
}

/* Open MPI 4.1 can lose a completion when another thread progresses at the wrong moment. The bytes are there after a
   flush, but the request never completes. So the request is dropped, and the sample too. */
static uint64_t give_up(struct raw *r)
{
    MPI_Win_flush_all(r->win);
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        r->request[i] = MPI_REQUEST_NULL;
    r->stalls++;
    return 0;
}

/*
 * Keeps RAW_OUTSTANDING requests under way. A piece has a request of its own, or shares that of the last piece of its
 * group. 0: it stalled.
 */
static uint64_t move_by_requests(struct raw *r, unsigned group, bool put, raw_next_fn next, void *arg)
{
    int unused[RAW_OUTSTANDING], done[RAW_OUTSTANDING], num_unused = RAW_OUTSTANDING, num_done;
    struct raw_piece piece, after;
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        unused[i] = i;
    uint64_t begin = clock_now_ns(), moved = begin;
    bool more = next(arg, &piece);
    for (unsigned in_group = 1; more || num_unused < RAW_OUTSTANDING;) {
        while (num_unused > 0 && more) {
            more = next(arg, &after);
            bool is_last = !more || in_group == group;
            issue(r, put, &piece, is_last ? unused[--num_unused] : -1);
            in_group = is_last ? 1 : in_group + 1;
            piece = after;
        }
        MPI_Testsome(RAW_OUTSTANDING, r->request, &num_done, done, MPI_STATUSES_IGNORE);
        if (num_done > 0) {
            moved = clock_now_ns();
            for (int i = 0; i < num_done; i++)
                unused[num_unused++] = done[i];
        } else if (num_done != MPI_UNDEFINED && clock_now_ns() - moved > STALL_NS) {
            return give_up(r);
        }
    }
    MPI_Win_sync(r->win);
    return clock_now_ns() - begin;
}

static uint64_t move_by_flush(struct raw *r, bool put, raw_next_fn next, void *arg)
{
    struct raw_piece piece;
    uint64_t begin = clock_now_ns();
    while (next(arg, &piece))
        issue(r, put, &piece, -1);
    MPI_Win_flush_all(r->win);
    MPI_Win_sync(r->win);
    return clock_now_ns() - begin;
}

uint64_t raw_move(struct raw *r, enum raw_way way, bool put, raw_next_fn next, void *arg)
{
    if (way == RAW_FLUSH)
        return move_by_flush(r, put, next, arg);
    uint64_t ns = move_by_requests(r, way == RAW_GROUPS ? RAW_OUTSTANDING : 1, put, next, arg);
    MPI_Win_flush_all(r->win); /* keeps MPI's count of unflushed operations low; not timed */
    return ns;
}

double raw_get_ns(struct raw *r, int peer, char *to, uint64_t span, int bytes, uint64_t *random)
{
    uint64_t begin = clock_now_ns();
    for (uint64_t i = 0; i < RAW_OUTSTANDING; i++) {
        MPI_Aint from = (MPI_Aint)(random_next(random) % (span - (uint64_t)bytes));
        MPI_Get(to + i * (uint64_t)bytes, bytes, MPI_BYTE, peer, from, bytes, MPI_BYTE, r->win);
    }
    MPI_Win_flush(peer, r->win);
    return (double)(clock_now_ns() - begin) / RAW_OUTSTANDING;
}

void raw_name(const struct raw *r, char name[MPI_MAX_OBJECT_NAME])
{
    int length = 0;
    MPI_Win_get_name(r->win, name, &length);
    name[length] = '\0';
}
