/* SPDX-License-Identifier: BSD-3-Clause */
/* mates: see mates.h. Collectives are nonblocking and tested now and then, so that a missing rank is an error and not a
   hang. */
#include "engine/mates.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "baton.h"
#include "replay/clock.h"

#define BUSY_NS UINT64_C(300000) /* a wait that is longer sleeps */
#define NAP_NS UINT64_C(100000)
#define TAG 1

int mates_wait(MPI_Request *request, uint64_t patience_ns)
{
    const uint64_t begun_ns = clock_ns();
    int done = 0;
    for (;;) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return -1;
        if (done)
            return 0;
        const uint64_t waited_ns = clock_ns() - begun_ns;
        if (waited_ns > patience_ns)
            return -1;
        if (waited_ns < BUSY_NS)
            sched_yield();
        else
            clock_sleep_ns(NAP_NS);
    }
}

static int wait_for(struct mates *m, int rc, MPI_Request *request)
{
    m->lost = m->lost || rc != MPI_SUCCESS || mates_wait(request, m->patience_ns) != 0;
    return m->lost ? -1 : 0;
}

/* The lowest rank of the world that is in an engine names it. */
static int color_of(MPI_Comm world, const char *engine, uint64_t patience_ns)
{
    char mine[BATON_ENGINE_NAME_MAX] = {0};
    int size, color = -1;
    MPI_Request request;
    MPI_Comm_size(world, &size);
    strncpy(mine, engine, sizeof mine - 1);
    char *all = malloc((size_t)size * sizeof mine);
    if (all == NULL || MPI_Iallgather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, world, &request) ||
        mates_wait(&request, patience_ns) != 0)
        return -1; /* what MPI may still write into is not freed: the process ends */
    for (int r = size - 1; r >= 0; r--)
        color = memcmp(all + (size_t)r * sizeof mine, mine, sizeof mine) == 0 ? r : color;
    free(all);
    return color;
}

int mates_init(struct mates *m, MPI_Comm world, const char *engine, struct seat seat, uint32_t patience_ms)
{
    *m = (struct mates){
        .engine = MPI_COMM_NULL, .stage = MPI_COMM_NULL, .seat = seat, .patience_ns = patience_ms * NS_PER_MS};
    const int color = color_of(world, engine, m->patience_ns);
    if (color < 0 || MPI_Comm_split(world, color, (int)(seat.pp_rank * seat.tp + seat.tp_rank), &m->engine) ||
        MPI_Comm_split(m->engine, (int)seat.pp_rank, (int)seat.tp_rank, &m->stage))
        return -1;
    MPI_Comm_rank(m->engine, &m->rank);
    MPI_Comm_size(m->engine, &m->size);
    return m->size == (int)(seat.tp * seat.pp) ? 0 : -1;
}

void mates_fini(struct mates *m)
{
    if (m->lost)
        return;
    if (m->stage != MPI_COMM_NULL)
        MPI_Comm_free(&m->stage);
    if (m->engine != MPI_COMM_NULL)
        MPI_Comm_free(&m->engine);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static int sum(void *self, int64_t *numbers, uint64_t count)
{
    struct mates *m = self;
    MPI_Request request;
    if (m->lost)
        return -1;
    return wait_for(m, MPI_Iallreduce(MPI_IN_PLACE, numbers, (int)count, MPI_INT64_T, MPI_SUM, m->stage, &request),
                    &request);
}

static int receive(void *self, float *hidden, uint64_t count)
{
    struct mates *m = self;
    MPI_Request request;
    if (m->lost)
        return -1;
    return wait_for(m, MPI_Irecv(hidden, (int)count, MPI_FLOAT, m->rank - (int)m->seat.tp, TAG, m->engine, &request),
                    &request);
}

static int send_on(void *self, const float *hidden, uint64_t count)
{
    struct mates *m = self;
    MPI_Request request;
    if (m->lost)
        return -1;
    return wait_for(m, MPI_Isend(hidden, (int)count, MPI_FLOAT, m->rank + (int)m->seat.tp, TAG, m->engine, &request),
                    &request);
}

struct team mates_team(struct mates *m)
{
    return (struct team){.seat = m->seat, .self = m, .sum = sum, .receive = receive, .send = send_on};
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

static int reduce(struct mates *m, int64_t *numbers, uint32_t count, MPI_Op op)
{
    MPI_Request request;
    if (m->size == 1 || m->lost)
        return m->lost ? -1 : 0;
    return wait_for(m, MPI_Iallreduce(MPI_IN_PLACE, numbers, (int)count, MPI_INT64_T, op, m->engine, &request),
                    &request);
}

int mates_least(struct mates *m, int64_t *numbers, uint32_t count)
{
    return reduce(m, numbers, count, MPI_MIN);
}

int mates_most(struct mates *m, int64_t *numbers, uint32_t count)
{
    return reduce(m, numbers, count, MPI_MAX);
}

int mates_share(struct mates *m, void *bytes, uint32_t count)
{
    MPI_Request request;
    if (m->size == 1 || m->lost)
        return m->lost ? -1 : 0;
    const int last = (int)(m->seat.tp * (m->seat.pp - 1));
    return wait_for(m, MPI_Ibcast(bytes, (int)count, MPI_BYTE, last, m->engine, &request), &request);
}
