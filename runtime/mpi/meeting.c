/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting: see meeting.h. */
#include "mpi/meeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "mpi/mpi_error.h"

enum { TAG_MEET = 4 };   /* steps.c and selftest.c have others on the same communicator */
enum { LOOK_MS = 50 };   /* between two looks whether processes live */
enum { WARN_MS = 5000 }; /* after the first rank came, the log says who is missing */

/* What rank 0 tells all; and what a rank that closes tells rank 0. */
struct meeting_word {
    int error;
    char why[STEPS_SENTENCE_BYTES];
};

enum { HERE, CLOSES }; /* what others than rank 0 send */

static int num_watched(const struct steps *s)
{
    return s->rank == 0 ? s->size : 1;
}

static int num_sends(const struct steps *s)
{
    return s->rank == 0 ? s->size : CLOSES + 1;
}

int meeting_init(struct meeting *m, const struct steps *s)
{
    const size_t num = (size_t)num_sends(s);
    m->word = calloc(1, sizeof *m->word);
    m->farewell = calloc(1, sizeof *m->farewell);
    m->came = calloc(num, sizeof *m->came);
    m->processes = calloc(num, sizeof *m->processes);
    m->sends = malloc(num * sizeof(MPI_Request));
    for (size_t i = 0; m->sends != NULL && i < num; i++)
        m->sends[i] = MPI_REQUEST_NULL;
    for (size_t i = 0; m->processes != NULL && i < num; i++)
        m->processes[i] = process_of(0);
    if (m->word != NULL && m->farewell != NULL && m->came != NULL && m->processes != NULL && m->sends != NULL)
        return 0;
    return error_set(BATON_ENOMEM, "no memory for meeting %d ranks", s->size);
}

/* The look opens a descriptor, which stays the same process's. */
void meeting_watch(struct meeting *m, const struct steps *s, int rank, int process)
{
    if (rank == s->rank || rank >= num_watched(s))
        return;
    m->processes[rank] = process_of(process);
    process_alive(&m->processes[rank]);
}

static bool is_past(uint64_t since_ns, uint64_t ms)
{
    return since_ns != 0 && clock_now_ns() > since_ns + ms * CLOCK_NS_PER_MS;
}

static void put(struct meeting_word *word, int error)
{
    word->error = error;
    if (error != 0)
        snprintf(word->why, sizeof word->why, "%s", baton_errmsg());
}

/* Nobody looks at processes any more. */
static void know(struct meeting *m, const struct steps *s)
{
    m->decided_ns = clock_now_ns();
    for (int r = 0; r < num_watched(s); r++)
        process_forget(&m->processes[r]);
}

static void decide(struct meeting *m, const struct steps *s, int error)
{
    put(m->word, error);
    know(m, s);
}

static int look_at_processes(struct meeting *m, const struct steps *s, const char *what)
{
    if (m->looked_ns != 0 && !is_past(m->looked_ns, LOOK_MS))
        return 0;
    for (int r = 0; r < num_watched(s); r++)
        if (process_is(&m->processes[r]) == PROCESS_DEAD)
            return error_set(BATON_EPEER, "%s: rank %d has ended (process %d, on the node of rank 0)", what, r,
                             m->processes[r].id);
    m->looked_ns = clock_now_ns();
    return 0;
}

/* How long the others wait for rank 0, which has as long as a step may take to tell all what it decided. */
static uint64_t most_ms(const struct steps *s)
{
    return s->settings->wrap_ms + s->settings->start_ms;
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

static void arrive(struct meeting *m, int rank)
{
    m->num_came += !m->came[rank];
    m->came[rank] = true;
    if (m->since_ns == 0)
        m->since_ns = clock_now_ns();
}

/* Who came since, and who closes instead, which is an error. */
static int collect(struct meeting *m, const struct steps *s)
{
    int rc = MPI_SUCCESS, is_there = 1, error = 0;
    while (rc == MPI_SUCCESS && is_there) {
        MPI_Status status;
        struct meeting_word word = {0}; /* stays so where the message is empty: that rank is here */
        rc = MPI_Iprobe(MPI_ANY_SOURCE, TAG_MEET, s->comm, &is_there, &status);
        if (rc != MPI_SUCCESS || !is_there)
            break;
        rc = MPI_Recv(&word, sizeof word, MPI_BYTE, status.MPI_SOURCE, TAG_MEET, s->comm, MPI_STATUS_IGNORE);
        word.why[sizeof word.why - 1] = '\0';
        if (rc == MPI_SUCCESS && word.error == 0)
            arrive(m, status.MPI_SOURCE);
        else if (rc == MPI_SUCCESS && error == 0)
            error = error_set(BATON_ECLOSED, "%s", word.why);
    }
    return rc == MPI_SUCCESS ? error : mpi_error_set(BATON_EMPI, "meeting the ranks", rc);
}

static int give_up(const struct meeting *m, const struct steps *s, const char *what)
{
    char missing[128];
    meeting_missing(m, s, missing, sizeof missing);
    error_set(BATON_ETIMEDOUT, "%s: not all ranks came within %" PRIu64 " ms (BATON_WRAP_MS); %s", what,
              s->settings->wrap_ms, missing);
    log_line(s->log, LOG_ERROR, "%s", baton_errmsg());
    return BATON_ETIMEDOUT;
}

static void warn_once(struct meeting *m, const struct steps *s, const char *what)
{
    char missing[128];
    if (m->is_late || !is_past(m->since_ns, WARN_MS))
        return;
    m->is_late = true;
    meeting_missing(m, s, missing, sizeof missing);
    log_line(s->log, LOG_WARN, "%s: the others wait, for %" PRIu64 " ms at most (BATON_WRAP_MS); %s", what,
             s->settings->wrap_ms, missing);
}

/* Says the word. A rank that is lost is told in vain, and the others all the same. */
static void tell(struct meeting *m, const struct steps *s, int error)
{
    decide(m, s, error);
    for (int r = 1; r < s->size; r++) {
        int rc = MPI_Isend(m->word, sizeof *m->word, MPI_BYTE, r, TAG_MEET, s->comm, &m->sends[r]);
        if (rc != MPI_SUCCESS)
            log_line(s->log, LOG_WARN, "rank %d could not be told that the ranks have met: MPI error %d", r, rc);
    }
}

static int host(struct meeting *m, const struct steps *s, const char *what, bool is_here)
{
    if (m->decided_ns == 0) {
        if (is_here)
            arrive(m, 0);
        int error = collect(m, s);
        if (error == 0)
            error = look_at_processes(m, s, what);
        if (error == 0 && m->num_came < s->size)
            error = is_past(m->since_ns, s->settings->wrap_ms) ? give_up(m, s, what) : BATON_EAGAIN;
        if (error == BATON_EAGAIN) {
            warn_once(m, s, what);
            return error;
        }
        tell(m, s, error);
    }
    int is_told = 0;
    int rc = MPI_Testall(s->size, m->sends, &is_told, MPI_STATUSES_IGNORE);
    if (rc != MPI_SUCCESS)
        log_line(s->log, LOG_WARN, "a rank could not be told that the ranks have met: MPI error %d", rc);
    return is_told || rc != MPI_SUCCESS || is_past(m->decided_ns, s->settings->peer_ms) ? 0 : BATON_EAGAIN;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int hear(struct meeting *m, const struct steps *s)
{
    int is_sent = 0, is_there = 0;
    int rc = MPI_Testall(num_sends(s), m->sends, &is_sent, MPI_STATUSES_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = MPI_Iprobe(0, TAG_MEET, s->comm, &is_there, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && is_there)
        rc = MPI_Recv(m->word, sizeof *m->word, MPI_BYTE, 0, TAG_MEET, s->comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EMPI, "hearing whether the ranks have met", rc);
    if (is_there)
        know(m, s);
    return 0;
}

static int send(struct meeting *m, const struct steps *s, int what, int bytes)
{
    int rc = MPI_Isend(m->farewell, bytes, MPI_BYTE, 0, TAG_MEET, s->comm, &m->sends[what]);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "telling rank 0 that this rank is here, or closes", rc);
}

static int visit(struct meeting *m, const struct steps *s, const char *what, bool is_here)
{
    int error = 0;
    if (m->decided_ns != 0)
        return 0;
    if (is_here && m->since_ns == 0) {
        m->since_ns = clock_now_ns();
        error = send(m, s, HERE, 0);
    }
    if (error == 0)
        error = hear(m, s);
    if (error == 0 && m->decided_ns == 0)
        error = look_at_processes(m, s, what);
    if (error == 0 && m->decided_ns == 0 && is_past(m->since_ns, most_ms(s)))
        error = error_set(BATON_ETIMEDOUT,
                          "%s: rank 0 did not answer within %" PRIu64 " ms (BATON_WRAP_MS and BATON_START_MS)", what,
                          most_ms(s));
    if (error != 0)
        decide(m, s, error);
    return m->decided_ns != 0 ? 0 : BATON_EAGAIN;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

int meeting_wait(struct meeting *m, const struct steps *s, const char *what, bool is_here)
{
    int error = s->rank == 0 ? host(m, s, what, is_here) : visit(m, s, what, is_here);
    if (error != 0)
        return error;
    return m->word->error == 0 ? 0 : error_set(m->word->error, "%s", m->word->why);
}

/* Rank 0 decides so, and the others ask it to. What was decided before stays. */
int meeting_close(struct meeting *m, const struct steps *s, const char *what, uint64_t until_ns)
{
    int rc;
    if (m->decided_ns == 0 && s->rank == 0) {
        m->looked_ns = 0;
        tell(m, s, look_at_processes(m, s, what) != 0 ? BATON_EPEER : BATON_ECLOSED);
    } else if (m->decided_ns == 0) {
        put(m->farewell, BATON_ECLOSED);
        if (send(m, s, CLOSES, sizeof *m->farewell) != 0)
            decide(m, s, BATON_EMPI);
    }
    for (unsigned polls = 0; (rc = meeting_wait(m, s, what, false)) == BATON_EAGAIN; polls++) {
        if (clock_now_ns() > until_ns)
            return error_set(BATON_ETIMEDOUT, "%s: rank 0 did not answer this rank, which closes", what);
        steps_pause(polls);
    }
    return rc;
}

void meeting_missing(const struct meeting *m, const struct steps *s, char *text, size_t size)
{
    struct steps_ranks missing = {.num = 0};
    for (int r = 0; s->rank == 0 && r < s->size; r++)
        if (!atomic_load_explicit(&m->came[r], memory_order_relaxed))
            steps_name(&missing, r);
    snprintf(text, size, "%s%s", missing.num > 0 ? "missing: " : "", steps_named(&missing));
}

/* What came after this rank had stopped waiting is taken out of MPI too. */
void meeting_fini(struct meeting *m, const struct steps *s)
{
    int is_done = 0;
    if (m->sends == NULL)
        return;
    know(m, s);
    int rc = s->rank == 0 ? collect(m, s) : hear(m, s);
    if (rc != 0 && rc != BATON_ECLOSED)
        log_line(s->log, LOG_WARN, "%s", baton_errmsg());
    if (MPI_Testall(num_sends(s), m->sends, &is_done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && is_done) {
        free(m->word);
        free(m->farewell);
        free((void *)m->came);
        free(m->processes);
        free(m->sends);
    }
}
