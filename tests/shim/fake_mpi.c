/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_mpi: see fake_mpi.h. Handles are numbers: neither the shim nor the library looks into one. */
#include "fake_mpi.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_FIRST 0x6b6b0000u
#define COMM_FIRST 0x7c7c0000u
#define WINDOW 0x7d7d0000u
#define REQUESTS_MAX 4096
#define MESSAGES_MAX 4096
#define RANKS_MAX 64

struct request {
    bool is_used, is_receive, is_there;
    int rank, from, capacity, bytes; /* a receive's */
    void *into;
    uint64_t order;
};

struct message {
    int from, to, bytes;
    uint8_t data[4096];
};

uint8_t *(*fake_address)(int rank, MPI_Aint at, int bytes);

static struct request requests[REQUESTS_MAX];
static struct message *queue[MESSAGES_MAX];
static int num_queue;
static uint64_t order;
static bool is_interrupted[RANKS_MAX];

MPI_Win fake_window(void)
{
    return (MPI_Win)(uintptr_t)WINDOW;
}

MPI_Comm fake_comm(int rank)
{
    return (MPI_Comm)(uintptr_t)(COMM_FIRST + (unsigned)rank);
}

int fake_messages(int rank)
{
    int n = 0;
    for (int i = 0; i < num_queue; i++)
        n += queue[i]->to == rank;
    return n;
}

void fake_reset(void)
{
    memset(requests, 0, sizeof requests);
    memset(is_interrupted, 0, sizeof is_interrupted);
    while (num_queue > 0)
        free(queue[--num_queue]);
}

static MPI_Request handle_new(const struct request *r)
{
    for (unsigned i = 0; i < REQUESTS_MAX; i++)
        if (!requests[i].is_used) {
            requests[i] = *r;
            requests[i].is_used = true;
            requests[i].order = ++order;
            return (MPI_Request)(uintptr_t)(REQUEST_FIRST + i);
        }
    fprintf(stderr, "fake_mpi: more than %d requests\n", REQUESTS_MAX);
    abort();
}

static int copy(bool write, void *mine, int bytes, int peer, MPI_Aint at)
{
    uint8_t *theirs = fake_address(peer, at, bytes);
    memcpy(write ? theirs : mine, write ? mine : theirs, (size_t)bytes);
    return MPI_SUCCESS;
}

int PMPI_Get(void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win)
{
    (void)t, (void)tn, (void)tt, (void)win;
    return copy(false, mine, n, peer, at);
}

int PMPI_Put(const void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win)
{
    (void)t, (void)tn, (void)tt, (void)win;
    return copy(true, (void *)(uintptr_t)mine, n, peer, at);
}

int PMPI_Rget(void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win,
              MPI_Request *request)
{
    *request = handle_new(&(struct request){.is_there = true});
    return PMPI_Get(mine, n, t, peer, at, tn, tt, win);
}

int PMPI_Rput(const void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win,
              MPI_Request *request)
{
    *request = handle_new(&(struct request){.is_there = true});
    return PMPI_Put(mine, n, t, peer, at, tn, tt, win);
}

int PMPI_Win_flush(int peer, MPI_Win win)
{
    (void)peer, (void)win;
    return MPI_SUCCESS;
}

int MPI_Win_sync(MPI_Win win)
{
    (void)win;
    return MPI_SUCCESS;
}

static int rank_of(MPI_Comm comm)
{
    return (int)((uintptr_t)comm - COMM_FIRST);
}

int PMPI_Isend(const void *data, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct message *m = malloc(sizeof *m);
    (void)t, (void)tag;
    if (m == NULL || num_queue == MESSAGES_MAX || n > (int)sizeof m->data)
        abort();
    *m = (struct message){.from = rank_of(comm), .to = to, .bytes = n};
    memcpy(m->data, data, (size_t)n);
    queue[num_queue++] = m;
    *request = handle_new(&(struct request){.is_there = true});
    return MPI_SUCCESS;
}

int PMPI_Irecv(void *data, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    (void)t, (void)from, (void)tag;
    *request = handle_new(&(struct request){.is_receive = true, .rank = rank_of(comm), .capacity = n, .into = data});
    return MPI_SUCCESS;
}

static struct request *oldest_receive(int rank)
{
    struct request *oldest = NULL;
    for (int i = 0; i < REQUESTS_MAX; i++) {
        struct request *r = &requests[i];
        if (r->is_used && r->is_receive && !r->is_there && r->rank == rank &&
            (oldest == NULL || r->order < oldest->order))
            oldest = r;
    }
    return oldest;
}

/* Messages go into the receives in the order in which these were posted. */
static void match(int rank)
{
    int kept = 0;
    for (int i = 0; i < num_queue; i++) {
        struct message *m = queue[i];
        struct request *r = m->to == rank ? oldest_receive(rank) : NULL;
        if (r == NULL) {
            queue[kept++] = m;
            continue;
        }
        r->is_there = true;
        r->from = m->from;
        r->bytes = m->bytes;
        memcpy(r->into, m->data, (size_t)(m->bytes < r->capacity ? m->bytes : r->capacity));
        free(m);
    }
    num_queue = kept;
}

#ifdef OMPI_HAVE_MPI_EXT_FTMPI
void fake_interrupt(int rank)
{
    is_interrupted[rank] = true;
}

int MPIX_Comm_failure_ack(MPI_Comm comm)
{
    is_interrupted[rank_of(comm)] = false;
    return MPI_SUCCESS;
}

#define INTERRUPTED MPIX_ERR_PROC_FAILED_PENDING
#else
#define INTERRUPTED MPI_ERR_OTHER /* never: nobody interrupts */
#endif

int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    *done = *request == MPI_REQUEST_NULL;
    if (*done)
        return MPI_SUCCESS;
    struct request *r = &requests[(uintptr_t)*request - REQUEST_FIRST];
    if (r->is_receive)
        match(r->rank);
    if (!r->is_there)
        return r->is_receive && is_interrupted[r->rank] ? INTERRUPTED : MPI_SUCCESS;
    *done = 1;
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_ERROR = MPI_SUCCESS;
        status->MPI_SOURCE = r->from;
        status->MPI_TAG = r->bytes; /* for MPI_Get_count */
    }
    r->is_used = false;
    *request = MPI_REQUEST_NULL;
    return r->bytes <= r->capacity ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

int PMPI_Testsome(int n, MPI_Request *some, int *num_done, int *index, MPI_Status *statuses)
{
    int live = 0;
    *num_done = 0;
    for (int i = 0; i < n; i++) {
        int done = 0;
        if (some[i] == MPI_REQUEST_NULL)
            continue;
        live++;
        PMPI_Test(&some[i], &done, &statuses[*num_done]);
        if (done)
            index[(*num_done)++] = i;
    }
    if (live == 0)
        *num_done = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype t, int *bytes)
{
    (void)t;
    *bytes = status->MPI_TAG;
    return MPI_SUCCESS;
}

int MPI_Error_class(int rc, int *class)
{
    *class = rc;
    return MPI_SUCCESS;
}

int MPI_Error_string(int rc, char *text, int *length)
{
    *length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", rc);
    return MPI_SUCCESS;
}
