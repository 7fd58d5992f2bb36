/* SPDX-License-Identifier: BSD-3-Clause */
/* meet: see meet.h. Collectives are nonblocking and tested now and then, so that a missing rank is an error and not a
   hang. */
#include "replay/meet.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/clock.h"

#define TEST_INTERVAL_NS UINT64_C(200000)

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void give_up(const struct meet *m, const char *what)
{
    fprintf(stderr, "baton-replay: rank %d: %s; leaving\n", m->rank, what);
    fflush(NULL);
    baton_exit(1);
}

static void wait_for(struct meet *m, int rc, MPI_Request *request)
{
    int done = 0;
    while (rc == MPI_SUCCESS) {
        rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done || rc != MPI_SUCCESS)
            break;
        if (m->progress != NULL)
            baton_progress(m->progress);
        if (clock_ns() > m->deadline_ns)
            give_up(m, "another rank did not come to the meeting before its deadline");
        clock_sleep_ns(TEST_INTERVAL_NS);
    }
    if (rc != MPI_SUCCESS)
        give_up(m, "an MPI collective failed");
}

void meet_deadline(struct meet *m, uint64_t ms)
{
    m->deadline_ns = clock_ns() + ms * NS_PER_MS;
}

/* ---- who is there ------------------------------------------------------------------------------------------------ */

int meet_init(struct meet *m, MPI_Comm comm)
{
    *m = (struct meet){.comm = comm};
    if (MPI_Comm_rank(comm, &m->rank) != MPI_SUCCESS || MPI_Comm_size(comm, &m->size) != MPI_SUCCESS)
        return -1;
    return 0;
}

void meet_fini(struct meet *m)
{
    for (unsigned side = 0; side < SIDES; side++)
        free(m->roster.engines[side]);
    *m = (struct meet){0};
}

static enum side side_of(const baton_open_params_t *row)
{
    return row->role == BATON_ROLE_PREFILL ? SIDE_PREFILL : SIDE_DECODE;
}

static int number_engines(struct roster *roster, int size, const baton_open_params_t *rows, struct why *why)
{
    for (unsigned side = 0; side < SIDES; side++) {
        roster->engines[side] = calloc((size_t)size, sizeof *roster->engines[side]);
        if (roster->engines[side] == NULL)
            return why_set(why, "no memory for the list of engines");
    }
    for (int r = 0; r < size; r++) {
        const enum side side = side_of(&rows[r]);
        const uint32_t e = roster_find(roster, side, rows[r].engine);
        if (rows[r].role != BATON_ROLE_PREFILL && rows[r].role != BATON_ROLE_DECODE)
            return why_set(why, "rank %d has neither the role prefill nor decode", r);
        if (e == roster->num[side]) {
            struct roster_engine *new = &roster->engines[side][roster->num[side]++];
            *new = (struct roster_engine){.tp = rows[r].tp, .pp = rows[r].pp};
            memcpy(new->name, rows[r].engine, sizeof new->name);
        }
    }
    if (roster->num[SIDE_PREFILL] == 0 || roster->num[SIDE_DECODE] == 0)
        return why_set(why, "needs a prefill and a decode engine: batonrun --prefill 1x1 --decode 1x1 baton-replay%s",
                       size == 1 ? " (MPI found one rank alone: launcher and library differ, if there are more)" : "");
    return 0;
}

int meet_roster(struct meet *m, const baton_open_params_t *self, struct why *why)
{
    MPI_Request request;
    baton_open_params_t *rows = calloc((size_t)m->size, sizeof *rows);
    if (rows == NULL)
        give_up(m, "no memory for the list of ranks");
    const int rc = MPI_Iallgather(self, sizeof *self, MPI_BYTE, rows, sizeof *rows, MPI_BYTE, m->comm, &request);
    wait_for(m, rc, &request);
    const int bad = number_engines(&m->roster, m->size, rows, why);
    if (bad == 0) {
        m->side = side_of(&rows[m->rank]);
        m->engine = roster_find(&m->roster, m->side, rows[m->rank].engine);
    }
    free(rows);
    return bad;
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

int meet_agree(struct meet *m, int rc, struct why *why)
{
    MPI_Request request;
    int mine = rc != 0 ? m->rank : m->size, first;
    rc = MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, m->comm, &request);
    wait_for(m, rc, &request);
    if (first == m->size)
        return 0;
    rc = MPI_Ibcast(why->text, sizeof why->text, MPI_CHAR, first, m->comm, &request);
    wait_for(m, rc, &request);
    return -1;
}

void meet_barrier(struct meet *m)
{
    MPI_Request request;
    const int rc = MPI_Ibarrier(m->comm, &request);
    wait_for(m, rc, &request);
}

uint64_t meet_start_ns(struct meet *m)
{
    MPI_Request request;
    uint64_t now, last;
    const bool one_clock = meet_on_one_machine(m);
    meet_barrier(m);
    now = clock_ns();
    const int rc = MPI_Iallreduce(&now, &last, 1, MPI_UINT64_T, MPI_MAX, m->comm, &request);
    wait_for(m, rc, &request);
    return one_clock ? last : now;
}

void meet_tell(struct meet *m, int *number)
{
    MPI_Request request;
    const int rc = MPI_Ibcast(number, 1, MPI_INT, 0, m->comm, &request);
    wait_for(m, rc, &request);
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static void reduce(struct meet *m, void *numbers, size_t count, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;
    const void *send = m->rank == 0 ? MPI_IN_PLACE : numbers;
    const int rc = MPI_Ireduce(send, m->rank == 0 ? numbers : NULL, (int)count, type, op, 0, m->comm, &request);
    wait_for(m, rc, &request);
}

void meet_sum(struct meet *m, uint64_t *numbers, size_t count)
{
    reduce(m, numbers, count, MPI_UINT64_T, MPI_SUM);
}

void meet_sum_u32(struct meet *m, uint32_t *numbers, size_t count)
{
    reduce(m, numbers, count, MPI_UINT32_T, MPI_SUM);
}

void meet_most(struct meet *m, uint64_t *numbers, size_t count)
{
    reduce(m, numbers, count, MPI_UINT64_T, MPI_MAX);
}

/* Counts and places of all ranks' samples, in 64-bit numbers. Rank 0 only. Returns how many samples there are. */
static size_t place_samples(const struct meet *m, int *counts, int *places)
{
    size_t all = 0;
    for (int r = 0; r < m->size; r++) {
        places[r] = (int)all;
        all += (size_t)counts[r];
    }
    return all / 3;
}

int meet_gather(struct meet *m, const struct tally_samples *mine, struct tally_samples *all)
{
    MPI_Request request;
    int *counts = calloc((size_t)m->size * 2, sizeof *counts), mine_count = (int)(mine->count * 3);
    if (counts == NULL)
        give_up(m, "no memory for the samples");
    int *places = counts + m->size, ok = 1;
    int rc = MPI_Igather(&mine_count, 1, MPI_INT, counts, 1, MPI_INT, 0, m->comm, &request);
    wait_for(m, rc, &request);
    *all = (struct tally_samples){0};
    if (m->rank == 0) {
        all->count = all->room = place_samples(m, counts, places);
        all->at = malloc((all->count + 1) * sizeof *all->at);
        ok = all->at != NULL;
    }
    meet_tell(m, &ok);
    if (ok) {
        rc = MPI_Igatherv(mine->at, mine_count, MPI_UINT64_T, all->at, counts, places, MPI_UINT64_T, 0, m->comm,
                          &request);
        wait_for(m, rc, &request);
    }
    free(counts);
    return ok ? 0 : -1;
}

/* ---- the node ---------------------------------------------------------------------------------------------------- */

static MPI_Comm split_by_node(const struct meet *m, int *size)
{
    MPI_Comm node;
    if (MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, m->rank, MPI_INFO_NULL, &node) != MPI_SUCCESS)
        give_up(m, "cannot split the ranks by node");
    MPI_Comm_size(node, size);
    return node;
}

bool meet_on_one_machine(struct meet *m)
{
    int size;
    MPI_Comm node = split_by_node(m, &size);
    MPI_Comm_free(&node);
    return size == m->size;
}

int meet_cpu_sharers(struct meet *m)
{
    MPI_Request request;
    int size, sharers = 0;
    cpu_set_t mine;
    MPI_Comm node = split_by_node(m, &size);
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    cpu_set_t *all = calloc((size_t)size, sizeof *all);
    if (all == NULL)
        give_up(m, "no memory for the CPU sets of this node");
    const int rc = MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, node, &request);
    wait_for(m, rc, &request);
    for (int r = 0; r < size; r++)
        sharers += CPU_EQUAL(&all[r], &mine);
    free(all);
    MPI_Comm_free(&node);
    return sharers;
}
