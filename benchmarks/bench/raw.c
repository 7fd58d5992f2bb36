/* SPDX-License-Identifier: BSD-3-Clause */
/* raw: see the header. The consumer's main thread issues and tests; the errors of MPI end the job. */
#include "bench/raw.h"

#include <stdbool.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/fail.h"

#define STALL_NS (UINT64_C(5000) * CLOCK_NS_PER_MS)

void raw_open(struct raw *r, const struct stage *s)
{
    uint64_t bytes = s->context.pool ? s->num_blocks * s->block_bytes : 0;
    *r = (struct raw){0};
    MPI_Comm_dup(s->bench->roster.comm, &r->comm);
    if (MPI_Win_create(s->context.pool, (MPI_Aint)bytes, 1, MPI_INFO_NULL, r->comm, &r->win) != MPI_SUCCESS)
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

static int other(const struct stage *s)
{
    return bench_is_producer(s->bench) ? s->bench->consumer : s->bench->producer;
}

/* The consumer gets it, the producer puts it. */
static void move_block(struct raw *r, const struct stage *s, uint32_t i, int slot)
{
    bool put = bench_is_producer(s->bench);
    int bytes = (int)s->block_bytes;
    uint64_t source = s->source_ids[i] * s->block_bytes, target = s->target_ids[i] * s->block_bytes;
    char *mine = s->context.pool + (put ? source : target);
    MPI_Aint theirs = (MPI_Aint)(put ? target : source);
    if (put)
        MPI_Rput(mine, bytes, MPI_BYTE, other(s), theirs, bytes, MPI_BYTE, r->win, &r->request[slot]);
    else
        MPI_Rget(mine, bytes, MPI_BYTE, other(s), theirs, bytes, MPI_BYTE, r->win, &r->request[slot]);
}

/* Open MPI 4.1 can lose a completion when another thread progresses at the wrong moment. The bytes are there after a
 * flush, the request never completes: it is dropped, and the sample with it. */
static uint64_t give_up(struct raw *r, const struct stage *s)
{
    MPI_Win_flush(other(s), r->win);
    for (int i = 0; i < RAW_OUTSTANDING; i++)
        r->request[i] = MPI_REQUEST_NULL;
    r->stalls++;
    return 0;
}

uint64_t raw_move(struct raw *r, const struct stage *s, uint32_t batch)
{
    int slots = batch < RAW_OUTSTANDING ? (int)batch : RAW_OUTSTANDING;
    int unused[RAW_OUTSTANDING], done[RAW_OUTSTANDING], num_unused = slots, num_done;
    uint32_t issued = 0, completed = 0;
    for (int i = 0; i < slots; i++)
        unused[i] = i;
    uint64_t begin = clock_now_ns(), moved = begin;
    while (completed < batch) {
        while (num_unused > 0 && issued < batch)
            move_block(r, s, issued++, unused[--num_unused]);
        MPI_Testsome(slots, r->request, &num_done, done, MPI_STATUSES_IGNORE);
        if (num_done > 0) {
            completed += (uint32_t)num_done;
            moved = clock_now_ns();
            for (int i = 0; i < num_done; i++)
                unused[num_unused++] = done[i];
        } else if (clock_now_ns() - moved > STALL_NS) {
            return give_up(r, s);
        }
    }
    MPI_Win_sync(r->win);
    uint64_t end = clock_now_ns();
    MPI_Win_flush(other(s), r->win); /* keeps MPI's count of unflushed reads low; not timed */
    return end - begin;
}

void raw_name(const struct raw *r, char name[MPI_MAX_OBJECT_NAME])
{
    int length = 0;
    MPI_Win_get_name(r->win, name, &length);
    name[length] = '\0';
}
