/* SPDX-License-Identifier: BSD-3-Clause */
/* raw: see the header. The consumer's main thread issues and tests; the errors of MPI end the job. */
#include "bench/raw.h"

#include "base/clock.h"
#include "bench/fail.h"
#include "bench/walk.h"

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

static void issue(struct raw *r, bool put, const struct raw_piece *p, int slot)
{
    if (put)
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

uint64_t raw_move(struct raw *r, bool put, bool (*next)(void *arg, struct raw_piece *out), void *arg)
{
    int unused[RAW_OUTSTANDING], done[RAW_OUTSTANDING], num_unused = RAW_OUTSTANDING, num_done;
    struct raw_piece piece;
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        unused[i] = i;
    uint64_t begin = clock_now_ns(), moved = begin;
    for (bool more = true; more || num_unused < RAW_OUTSTANDING;) {
        while (num_unused > 0 && more && (more = next(arg, &piece)))
            issue(r, put, &piece, unused[--num_unused]);
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
    uint64_t end = clock_now_ns();
    MPI_Win_flush_all(r->win); /* keeps MPI's count of unflushed operations low; not timed */
    return end - begin;
}

double raw_get_ns(struct raw *r, int peer, char *to, uint64_t span, int bytes, uint64_t *random)
{
    uint64_t begin = clock_now_ns();
    for (uint64_t i = 0; i < RAW_OUTSTANDING; i++) {
        MPI_Aint from = (MPI_Aint)(walk_random(random) % (span - (uint64_t)bytes));
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
