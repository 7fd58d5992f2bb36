/* SPDX-License-Identifier: BSD-3-Clause */
/* inbox: see the header. */
#include "mpi/inbox.h"

#include <stdlib.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include "base/clock.h"
#include "base/error.h"
#include "mpi/address.h"
#include "mpi/mpi_error.h"

static int post(struct inbox *in, uint32_t at)
{
    return MPI_Irecv(in->received[at], INBOX_BYTES, MPI_BYTE, MPI_ANY_SOURCE, INBOX_TAG, in->comm, &in->receive[at]);
}

int inbox_init(struct inbox *in, const struct world *w, MPI_Comm comm)
{
    int rc = MPI_SUCCESS;
    in->world = w;
    in->comm = comm;
    for (uint32_t i = 0; i < INBOX_RECEIVES; i++)
        in->receive[i] = MPI_REQUEST_NULL;
    in->received = calloc(INBOX_RECEIVES, sizeof *in->received);
    if (in->received == NULL)
        return error_set(BATON_ENOMEM, "no memory for %d receives", INBOX_RECEIVES);
    for (uint32_t i = 0; i < INBOX_RECEIVES && rc == MPI_SUCCESS; i++)
        rc = post(in, i);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "posting a receive", rc);
}

void inbox_fini(struct inbox *in)
{
    free(in->received);
    in->received = NULL;
}

void inbox_cancel(struct inbox *in)
{
    for (uint32_t i = 0; i < INBOX_RECEIVES; i++) {
        if (in->receive[i] == MPI_REQUEST_NULL)
            continue;
        int rc = MPI_Cancel(&in->receive[i]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Wait(&in->receive[i], MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            log_line(in->world->log, LOG_WARN, "a receive could not be cancelled: MPI error %d", rc);
    }
}

/* A receive could not be posted, or failed. BATON_EMPI: that has lasted too long. */
static int note_failure(struct inbox *in, const char *what, int rc)
{
    uint64_t now = clock_now_ns();
    if (in->failing_ns == 0) {
        in->failing_ns = now;
        log_line(in->world->log, LOG_WARN, "%s failed (MPI error %d): it is tried again", what, rc);
    }
    if (now - in->failing_ns <= in->world->settings.peer_ms * CLOCK_NS_PER_MS)
        return 0;
    return mpi_error_set(BATON_EMPI, what, rc);
}

int inbox_release(struct inbox *in)
{
    while (in->handed > 0) {
        int rc = post(in, (in->head - in->handed) % INBOX_RECEIVES);
        if (rc != MPI_SUCCESS) /* those behind it wait for it, or the order would be lost */
            return note_failure(in, "posting a receive", rc);
        in->handed--;
    }
    return 0;
}

/*
 * With ULFM the loss of a process interrupts each receive from any source. The receive stays posted, and goes on once
 * the loss is acknowledged.
 */
static bool is_interrupted(const struct inbox *in, int rc)
{
#ifdef OMPI_HAVE_MPI_EXT_FTMPI
    return mpi_error_class(rc) == MPIX_ERR_PROC_FAILED_PENDING && MPIX_Comm_failure_ack(in->comm) == MPI_SUCCESS;
#else
    (void)in, (void)rc;
    return false;
#endif
}

int inbox_take(struct inbox *in, struct inbox_message *out)
{
    int is_there = 0;
    uint32_t at = in->head % INBOX_RECEIVES;
    MPI_Status status = {.MPI_SOURCE = -1};
    if (in->handed == INBOX_RECEIVES)
        return 0;
    int rc = MPI_Test(&in->receive[at], &is_there, &status);
    if ((rc == MPI_SUCCESS && !is_there) || (rc != MPI_SUCCESS && is_interrupted(in, rc)))
        return 0;
    if (rc == MPI_SUCCESS) {
        in->failing_ns = 0;
    } else if (mpi_error_class(rc) != MPI_ERR_TRUNCATE) {
        int error = note_failure(in, "receiving a message", rc);
        if (error)
            return error;
        status.MPI_SOURCE = -1;
    }
    in->receive[at] = MPI_REQUEST_NULL;
    in->head++;
    in->handed++;
    in->arrived++;
    *out = (struct inbox_message){in->received[at], -1, address_peer(status.MPI_SOURCE)};
    if (rc == MPI_SUCCESS)
        MPI_Get_count(&status, MPI_BYTE, &out->bytes);
    return 1;
}
