/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting: see meeting.h. */
#include "mpi/meeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "mpi/mpi_error.h"

enum { TAG_MEET = 4 }; /* steps.c and selftest.c have others on the same communicator */

static int begin(struct meeting *m, const struct steps *s)
{
    size_t num = s->rank == 0 ? (size_t)s->size : 1;
    m->came = calloc(num, sizeof *m->came);
    m->sends = malloc(num * sizeof(MPI_Request));
    if (m->came == NULL || m->sends == NULL)
        return error_set(BATON_ENOMEM, "no memory for %d requests", s->size);
    for (size_t i = 0; i < num; i++)
        m->sends[i] = MPI_REQUEST_NULL;
    m->has_begun = true;
    if (s->rank == 0) {
        m->came[0] = true;
        m->num_came = 1;
        return 0;
    }
    int rc = MPI_Isend(NULL, 0, MPI_BYTE, 0, TAG_MEET, s->comm, &m->sends[0]);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "telling rank 0", rc);
}

/* Rank 0: who came since. Once all have, they are told. */
static int host(struct meeting *m, const struct steps *s)
{
    int rc = MPI_SUCCESS, is_done = 0;
    while (m->num_came < s->size && rc == MPI_SUCCESS) {
        int is_there = 0;
        MPI_Status status;
        rc = MPI_Iprobe(MPI_ANY_SOURCE, TAG_MEET, s->comm, &is_there, &status);
        if (rc != MPI_SUCCESS || !is_there)
            break;
        rc = MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_MEET, s->comm, MPI_STATUS_IGNORE);
        m->num_came += !m->came[status.MPI_SOURCE];
        m->came[status.MPI_SOURCE] = true;
        if (m->num_came == s->size)
            for (int r = 1; r < s->size && rc == MPI_SUCCESS; r++)
                rc = MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_MEET, s->comm, &m->sends[r]);
    }
    if (rc == MPI_SUCCESS && m->num_came == s->size)
        rc = MPI_Testall(s->size, m->sends, &is_done, MPI_STATUSES_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EMPI, "meeting the ranks", rc);
    return is_done ? 0 : BATON_EAGAIN;
}

static int visit(struct meeting *m, const struct steps *s)
{
    int is_sent = 0, is_there = 0;
    int rc = MPI_Test(&m->sends[0], &is_sent, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && is_sent)
        rc = MPI_Iprobe(0, TAG_MEET, s->comm, &is_there, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && is_there)
        rc = MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_MEET, s->comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EMPI, "meeting rank 0", rc);
    return is_there ? 0 : BATON_EAGAIN;
}

static int give_up(const struct meeting *m, const struct steps *s, const char *what, uint64_t limit_ms)
{
    char silent[128] = "see the log of rank 0";
    size_t at = 0;
    for (int r = 0; s->rank == 0 && r < s->size && at < sizeof silent; r++)
        if (!m->came[r])
            at += (size_t)snprintf(silent + at, sizeof silent - at, "%s%d", at > 0 ? ", " : "", r);
    if (s->rank == 0)
        log_line(s->log, LOG_ERROR, "%s: not all ranks came within %" PRIu64 " ms; missing: %s", what, limit_ms,
                 silent);
    return error_set(BATON_ETIMEDOUT, "%s: not all ranks came within %" PRIu64 " ms (BATON_WRAP_MS); missing: %s", what,
                     limit_ms, silent);
}

int meeting_wait(struct meeting *m, const struct steps *s, const char *what, bool late)
{
    int error = m->has_begun ? 0 : begin(m, s);
    if (error == 0)
        error = s->rank == 0 ? host(m, s) : visit(m, s);
    return error == BATON_EAGAIN && late ? give_up(m, s, what, s->settings->wrap_ms) : error;
}

void meeting_fini(struct meeting *m, const struct steps *s)
{
    int num = s->rank == 0 ? s->size : 1, is_done = 0;
    if (m->has_begun && MPI_Testall(num, m->sends, &is_done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && is_done) {
        free(m->came);
        free(m->sends);
    }
}
