/* SPDX-License-Identifier: BSD-3-Clause */
/* steps: see the header. */
#include "mpi/steps.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "mpi/mpi_error.h"

enum { TAG_ARRIVAL = 1, TAG_LEAVE = 2 }; /* meeting.c and selftest.c have others on the same communicator */
enum { NAMED_RANKS = 8 };                /* ranks that a sentence names */

void steps_init(struct steps *s, const struct settings *settings, const struct logger *log)
{
    s->settings = settings;
    s->log = log;
    s->announcement = MPI_REQUEST_NULL;
}

void steps_fini(struct steps *s)
{
    free(s->arrived);
    free(s->leave_sends);
    s->arrived = NULL;
    s->leave_sends = NULL;
}

int steps_attach(struct steps *s, MPI_Comm comm)
{
    s->comm = comm;
    MPI_Comm_rank(comm, &s->rank);
    MPI_Comm_size(comm, &s->size);
    if (s->rank != 0)
        return 0;
    s->arrived = calloc((size_t)s->size, sizeof *s->arrived);
    s->leave_sends = malloc((size_t)s->size * sizeof *s->leave_sends);
    if (s->arrived == NULL || s->leave_sends == NULL)
        return error_set(BATON_ENOMEM, "no memory for the table of %d ranks", s->size);
    for (int r = 0; r < s->size; r++)
        s->leave_sends[r] = MPI_REQUEST_NULL;
    return 0;
}

void steps_pause(unsigned polls)
{
    if (polls < 200) {
        sched_yield();
        return;
    }
    struct timespec nap = {0, polls < 1000 ? 50000 : 1000000};
    nanosleep(&nap, NULL);
}

void steps_watch(const struct steps *s, struct watchdog *d, const char *step)
{
    watchdog_start(d, step, s->settings->start_ms, s->rank, s->log);
}

/* ---- who is silent ----------------------------------------------------------------------------------------------- */

/* Rank 0 takes in who came to which step. Every arrival is received before its step ends, so none is left behind. */
static int collect_arrivals(struct steps *s)
{
    for (;;) {
        int is_there = 0;
        uint32_t number = 0;
        MPI_Status status;
        int rc = MPI_Iprobe(MPI_ANY_SOURCE, TAG_ARRIVAL, s->comm, &is_there, &status);
        if (rc == MPI_SUCCESS && is_there)
            rc = MPI_Recv(&number, 1, MPI_UINT32_T, status.MPI_SOURCE, TAG_ARRIVAL, s->comm, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            return mpi_error_set(BATON_EMPI, "receiving the ranks' arrival", rc);
        if (!is_there)
            break;
        s->arrived[status.MPI_SOURCE] = number;
    }
    while (s->first_silent < s->size && s->arrived[s->first_silent] >= s->number)
        s->first_silent++;
    return 0;
}

void steps_name(struct steps_ranks *ranks, int rank)
{
    if (ranks->num++ < NAMED_RANKS)
        ranks->at += (size_t)snprintf(ranks->text + ranks->at, sizeof ranks->text - ranks->at, "%s%d",
                                      ranks->num > 1 ? ", " : "", rank);
}

const char *steps_named(struct steps_ranks *ranks)
{
    if (ranks->num > NAMED_RANKS)
        snprintf(ranks->text + ranks->at, sizeof ranks->text - ranks->at, " and %d more", ranks->num - NAMED_RANKS);
    return ranks->text;
}

/* The deadline, which `setting` gives, has passed. Requests stay open in MPI, so nothing collective can follow. */
static int give_up(struct steps *s, const char *step, uint64_t limit_ms, const char *setting)
{
    s->is_lost = true;
    if (s->rank != 0)
        return error_set(BATON_ETIMEDOUT,
                         "step '%s': not all ranks came within %" PRIu64 " ms (%s); the log of rank 0 names them", step,
                         limit_ms, setting);
    struct steps_ranks ranks = {.num = 0};
    for (int r = 0; r < s->size; r++)
        if (s->arrived[r] < s->number)
            steps_name(&ranks, r);
    const char *silent = ranks.num > 0 ? steps_named(&ranks) : "none, but some did not answer afterwards";
    log_line(s->log, LOG_ERROR, "step '%s' was not completed within %" PRIu64 " ms; silent ranks: %s", step, limit_ms,
             silent);
    return error_set(BATON_ETIMEDOUT, "step '%s': not completed within %" PRIu64 " ms (%s); silent ranks: %s", step,
                     limit_ms, setting, silent);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

int steps_begin(struct steps *s, const char *step)
{
    if (s->is_lost)
        return error_set(BATON_ETIMEDOUT, "step '%s': not all ranks completed an earlier step", step);
    s->number++;
    log_line(s->log, LOG_DEBUG, "step %" PRIu32 ": %s", s->number, step);
    if (s->rank == 0) {
        s->arrived[0] = s->number;
        s->first_silent = 0;
        return 0;
    }
    s->announced = s->number;
    int rc = MPI_Isend(&s->announced, 1, MPI_UINT32_T, 0, TAG_ARRIVAL, s->comm, &s->announcement);
    if (rc != MPI_SUCCESS) {
        s->is_lost = true;
        return mpi_error_set(BATON_EMPI, "telling rank 0 of a step", rc);
    }
    return 0;
}

/* One poll: 0 where the collective is complete here and, at rank 0, every rank's arrival was received. */
static int poll_step(struct steps *s, MPI_Request *request)
{
    int is_over = 0, is_told = 1;
    int rc = MPI_Test(request, &is_over, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && s->rank != 0)
        rc = MPI_Test(&s->announcement, &is_told, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EMPI, "a collective step", rc);
    if (s->rank == 0) {
        int error = collect_arrivals(s);
        if (error)
            return error;
        is_told = s->first_silent == s->size;
    }
    return is_over && is_told ? 0 : BATON_EAGAIN;
}

int steps_finish(struct steps *s, const char *step, int rc, MPI_Request *request)
{
    if (rc != MPI_SUCCESS) {
        s->is_lost = true;
        return mpi_error_set(BATON_EMPI, step, rc);
    }
    struct deadline deadline = deadline_in(clock_now_ns(), s->settings->start_ms);
    for (unsigned polls = 0;; polls++) {
        int error = poll_step(s, request);
        if (error == 0)
            return 0;
        if (error != BATON_EAGAIN) {
            s->is_lost = true;
            return error;
        }
        if (deadline_is_past(&deadline, clock_now_ns()))
            return give_up(s, step, s->settings->start_ms, "BATON_START_MS");
        steps_pause(polls);
    }
}

int steps_allgather(struct steps *s, const char *step, const void *in, int bytes, void *out)
{
    MPI_Request request;
    int error = steps_begin(s, step);
    if (error)
        return error;
    int rc = MPI_Iallgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, s->comm, &request);
    return steps_finish(s, step, rc, &request);
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* For tests: an agreed step fails on one rank, as if its local part had failed. */
static int inject_failure(struct steps *s, const char *step, int local)
{
    const struct settings *set = s->settings;
    s->agreements++;
    if (set->fail_step == 0 || s->agreements != set->fail_step || (uint64_t)s->rank != set->fail_rank || local < 0)
        return local;
    return error_set(BATON_EWINDOW, "failure at step '%s', asked for by BATON_TUNE=fail_step=%" PRIu32, step,
                     s->agreements);
}

/* The rank that failed writes the sentence that all will return. */
static void compose(struct steps *s, int code)
{
    const char *own = baton_errmsg();
    if (own[0] == '\0')
        own = baton_strerror(code);
    if (strcmp(own, s->agreed) == 0) /* it was agreed on before, and names its rank already */
        snprintf(s->sentence, sizeof s->sentence, "%s", own);
    else
        snprintf(s->sentence, sizeof s->sentence, "rank %d: %s", s->rank, own);
}

static int share_sentence(struct steps *s, const char *step)
{
    MPI_Request request;
    int code = s->verdict.code, from = s->verdict.rank;
    if (s->rank == from)
        compose(s, code);
    int error = steps_begin(s, step);
    if (error)
        return error;
    int rc = MPI_Ibcast(s->sentence, sizeof s->sentence, MPI_CHAR, from, s->comm, &request);
    error = steps_finish(s, step, rc, &request);
    if (error)
        return error;
    s->sentence[sizeof s->sentence - 1] = '\0';
    memcpy(s->agreed, s->sentence, sizeof s->agreed);
    return error_set(code, "%s", s->agreed);
}

int steps_agree(struct steps *s, const char *step, int local)
{
    MPI_Request request;
    if (!s->is_lost)
        local = inject_failure(s, step, local);
    if (local < 0 && !s->is_lost)
        log_line(s->log, LOG_INFO, "step '%s' failed here: %s", step, baton_errmsg());
    int error = steps_begin(s, step);
    if (error)
        return error;
    s->ballot = (struct steps_ballot){local < 0 ? local : 0, s->rank};
    int rc = MPI_Iallreduce(&s->ballot, &s->verdict, 1, MPI_2INT, MPI_MINLOC, s->comm, &request);
    error = steps_finish(s, step, rc, &request);
    if (error)
        return error;
    return s->verdict.code == 0 ? 0 : share_sentence(s, step);
}

int steps_least(struct steps *s, const char *step, const int mine[2], int least[2])
{
    MPI_Request request;
    int error = steps_begin(s, step);
    if (error)
        return error;
    memcpy(s->least_in, mine, sizeof s->least_in);
    int rc = MPI_Iallreduce(s->least_in, s->least_out, 2, MPI_INT, MPI_MIN, s->comm, &request);
    error = steps_finish(s, step, rc, &request);
    if (error == 0)
        memcpy(least, s->least_out, sizeof s->least_out);
    return error;
}

int steps_unanimous(struct steps *s, const char *step, bool mine, bool *all)
{
    int least[2];
    int error = steps_least(s, step, (const int[2]){mine, mine}, least);
    if (error == 0)
        *all = least[0] != 0;
    return error;
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

/* Rank 0: everybody came, and is told so. */
static int release_all(struct steps *s)
{
    int is_done = 0, rc = MPI_SUCCESS;
    for (int r = 1; r < s->size && rc == MPI_SUCCESS && !s->is_releasing; r++)
        rc = MPI_Isend(&s->number, 1, MPI_UINT32_T, r, TAG_LEAVE, s->comm, &s->leave_sends[r]);
    s->is_releasing = true;
    if (rc == MPI_SUCCESS)
        rc = MPI_Testall(s->size, s->leave_sends, &is_done, MPI_STATUSES_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EMPI, "telling the ranks to leave", rc);
    return is_done ? 0 : BATON_EAGAIN;
}

static int await_release(struct steps *s)
{
    int is_told = 0, is_there = 0;
    uint32_t number = 0;
    int rc = MPI_Test(&s->announcement, &is_told, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && is_told)
        rc = MPI_Iprobe(0, TAG_LEAVE, s->comm, &is_there, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && is_there)
        rc = MPI_Recv(&number, 1, MPI_UINT32_T, 0, TAG_LEAVE, s->comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EMPI, "waiting to leave", rc);
    return is_there && number == s->number ? 0 : BATON_EAGAIN;
}

int steps_leave(struct steps *s, bool late)
{
    int error = 0;
    if (!s->is_leaving)
        error = steps_begin(s, "leave");
    s->is_leaving = true;
    if (error == 0 && s->rank == 0) {
        error = collect_arrivals(s);
        if (error == 0)
            error = s->first_silent == s->size ? release_all(s) : BATON_EAGAIN;
    } else if (error == 0) {
        error = await_release(s);
    }
    if (error == BATON_EAGAIN && late)
        error = give_up(s, "leave", s->settings->close_ms, "BATON_CLOSE_MS");
    s->is_lost |= error != 0 && error != BATON_EAGAIN;
    return error;
}
