/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: steps, agreement, communicators. Run by the thread that opens, starts and closes; never by the reactor. Never
 * touches the caller's communicator beyond duplicating it.
 */
#include "mpi/world.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"

enum { TAG_ARRIVAL = 1, TAG_LEAVE = 2 };
enum { NAMED_RANKS = 8 }; /* silent ranks that a sentence names */

/* What a rank wishes of its threads, weakest first, so that the least of all ranks' wishes is the weakest. */
enum wish { WISH_CALLER, WISH_AUTO, WISH_THREAD };

int world_mpi_error(int error, const char *call, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS)
        return error_set(error, "%s failed: MPI error %d", call, rc);
    return error_set(error, "%s failed: %.120s", call, text);
}

int world_error_class(int rc)
{
    int class = MPI_ERR_OTHER;
    return MPI_Error_class(rc, &class) == MPI_SUCCESS ? class : MPI_ERR_OTHER;
}

void world_pause(unsigned polls)
{
    if (polls < 200) {
        sched_yield();
        return;
    }
    struct timespec nap = {0, polls < 1000 ? 50000 : 1000000};
    nanosleep(&nap, NULL);
}

void world_watch(const struct world *w, struct watchdog *d, const char *step)
{
    watchdog_start(d, step, w->settings.start_ms, w->rank, w->log);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Rank 0 takes in who came to which step. Every arrival is received before its step ends, so none is left behind. */
static int collect_arrivals(struct world *w)
{
    for (;;) {
        int there = 0;
        uint32_t step = 0;
        MPI_Status status;
        int rc = MPI_Iprobe(MPI_ANY_SOURCE, TAG_ARRIVAL, w->comm, &there, &status);
        if (rc == MPI_SUCCESS && there)
            rc = MPI_Recv(&step, 1, MPI_UINT32_T, status.MPI_SOURCE, TAG_ARRIVAL, w->comm, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS)
            return world_mpi_error(BATON_EMPI, "receiving the ranks' arrival", rc);
        if (!there)
            break;
        w->arrived[status.MPI_SOURCE] = step;
    }
    while (w->first_silent < w->size && w->arrived[w->first_silent] >= w->step)
        w->first_silent++;
    return 0;
}

static void name_silent_ranks(const struct world *w, char *text, size_t size)
{
    size_t at = 0;
    int silent = 0;
    text[0] = '\0';
    for (int r = 0; r < w->size; r++) {
        if (w->arrived[r] >= w->step)
            continue;
        if (silent++ < NAMED_RANKS && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%d", silent > 1 ? ", " : "", r);
    }
    if (silent > NAMED_RANKS && at < size)
        snprintf(text + at, size - at, " and %d more", silent - NAMED_RANKS);
}

/* The deadline, which `setting` gives, has passed. Requests stay open in MPI, so nothing collective can follow. */
static int give_up(struct world *w, const char *step, uint64_t limit_ms, const char *setting)
{
    w->lost = true;
    if (w->rank != 0)
        return error_set(BATON_ETIMEDOUT, "step '%s': not all ranks came within %" PRIu64 " ms (%s); rank 0 names them",
                         step, limit_ms, setting);
    char silent[128];
    name_silent_ranks(w, silent, sizeof silent);
    if (silent[0] == '\0')
        snprintf(silent, sizeof silent, "none, but some did not answer afterwards");
    log_line(w->log, LOG_ERROR, "step '%s' was not completed within %" PRIu64 " ms; silent ranks: %s", step, limit_ms,
             silent);
    return error_set(BATON_ETIMEDOUT, "step '%s': not completed within %" PRIu64 " ms (%s); silent ranks: %s", step,
                     limit_ms, setting, silent);
}

static int refuse_lost(const char *step)
{
    return error_set(BATON_ETIMEDOUT, "step '%s': an earlier step was not completed by all ranks", step);
}

int world_begin(struct world *w, const char *step)
{
    if (w->lost)
        return refuse_lost(step);
    w->step++;
    log_line(w->log, LOG_DEBUG, "step %" PRIu32 ": %s", w->step, step);
    if (w->rank == 0) {
        w->arrived[0] = w->step;
        w->first_silent = 0;
        return 0;
    }
    w->announced = w->step;
    int rc = MPI_Isend(&w->announced, 1, MPI_UINT32_T, 0, TAG_ARRIVAL, w->comm, &w->announcement);
    if (rc != MPI_SUCCESS) {
        w->lost = true;
        return world_mpi_error(BATON_EMPI, "telling rank 0 of a step", rc);
    }
    return 0;
}

/* One look: 0 where the collective is complete here and, at rank 0, every rank's arrival was received. */
static int look(struct world *w, MPI_Request *request)
{
    int over = 0, told = 1;
    int rc = MPI_Test(request, &over, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && w->rank != 0)
        rc = MPI_Test(&w->announcement, &told, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return world_mpi_error(BATON_EMPI, "a collective step", rc);
    if (w->rank == 0) {
        int error = collect_arrivals(w);
        if (error)
            return error;
        told = w->first_silent == w->size;
    }
    return over && told ? 0 : BATON_EAGAIN;
}

int world_finish(struct world *w, const char *step, int rc, MPI_Request *request)
{
    if (rc != MPI_SUCCESS) {
        w->lost = true;
        return world_mpi_error(BATON_EMPI, step, rc);
    }
    uint64_t deadline = clock_now_ns() + w->settings.start_ms * CLOCK_NS_PER_MS;
    for (unsigned polls = 0;; polls++) {
        int error = look(w, request);
        if (error == 0)
            return 0;
        if (error != BATON_EAGAIN) {
            w->lost = true;
            return error;
        }
        if (clock_now_ns() > deadline)
            return give_up(w, step, w->settings.start_ms, "BATON_START_MS");
        world_pause(polls);
    }
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

/* Rank 0: everybody came; they are told. */
static int let_go(struct world *w)
{
    int done = 0, rc = MPI_SUCCESS;
    if (w->farewells == NULL) {
        w->farewells = malloc((size_t)w->size * sizeof(MPI_Request));
        if (w->farewells == NULL)
            return error_set(BATON_ENOMEM, "no memory for %d requests", w->size);
        for (int r = 0; r < w->size; r++)
            w->farewells[r] = MPI_REQUEST_NULL;
        for (int r = 1; r < w->size && rc == MPI_SUCCESS; r++)
            rc = MPI_Isend(&w->step, 1, MPI_UINT32_T, r, TAG_LEAVE, w->comm, &w->farewells[r]);
    }
    if (rc == MPI_SUCCESS)
        rc = MPI_Testall(w->size, w->farewells, &done, MPI_STATUSES_IGNORE);
    if (rc != MPI_SUCCESS)
        return world_mpi_error(BATON_EMPI, "telling the ranks to leave", rc);
    if (!done)
        return BATON_EAGAIN;
    free(w->farewells);
    w->farewells = NULL;
    return 0;
}

static int await_leave(struct world *w)
{
    int told = 0, there = 0;
    uint32_t step = 0;
    int rc = MPI_Test(&w->announcement, &told, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && told)
        rc = MPI_Iprobe(0, TAG_LEAVE, w->comm, &there, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS && there)
        rc = MPI_Recv(&step, 1, MPI_UINT32_T, 0, TAG_LEAVE, w->comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return world_mpi_error(BATON_EMPI, "waiting to leave", rc);
    return there && step == w->step ? 0 : BATON_EAGAIN;
}

int world_leave(struct world *w, bool late)
{
    int error = 0;
    if (!w->is_leaving)
        error = world_begin(w, "leave");
    w->is_leaving = true;
    if (error == 0 && w->rank == 0) {
        error = collect_arrivals(w);
        if (error == 0)
            error = w->first_silent == w->size ? let_go(w) : BATON_EAGAIN;
    } else if (error == 0) {
        error = await_leave(w);
    }
    if (error == BATON_EAGAIN && late)
        error = give_up(w, "leave", w->settings.close_ms, "BATON_CLOSE_MS");
    w->lost |= error != 0 && error != BATON_EAGAIN;
    return error;
}

int world_allgather(struct world *w, const char *step, const void *in, int bytes, void *out)
{
    MPI_Request request;
    int error = world_begin(w, step);
    if (error)
        return error;
    int rc = MPI_Iallgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, w->comm, &request);
    return world_finish(w, step, rc, &request);
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* For tests: the n-th agreed step fails on one rank, as if its local part had. */
static int injected(struct world *w, const char *step, int local)
{
    w->agreements++;
    if (w->settings.fail_step == 0 || w->agreements != w->settings.fail_step ||
        (uint64_t)w->rank != w->settings.fail_rank || local < 0)
        return local;
    return error_set(BATON_EWINDOW, "failure at step '%s', asked for by BATON_FAIL_STEP=%" PRIu32, step, w->agreements);
}

/* The rank that failed writes the sentence that all will return. */
static void compose(struct world *w, int code)
{
    const char *own = baton_errmsg();
    if (own[0] == '\0')
        own = baton_strerror(code);
    if (strcmp(own, w->agreed) == 0) /* agreed on before: it has its rank already */
        snprintf(w->sentence, sizeof w->sentence, "%s", own);
    else
        snprintf(w->sentence, sizeof w->sentence, "rank %d: %s", w->rank, own);
}

static int share_sentence(struct world *w, const char *step)
{
    MPI_Request request;
    int code = w->verdict.code, from = w->verdict.rank;
    if (w->rank == from)
        compose(w, code);
    int error = world_begin(w, step);
    if (error)
        return error;
    int rc = MPI_Ibcast(w->sentence, sizeof w->sentence, MPI_CHAR, from, w->comm, &request);
    error = world_finish(w, step, rc, &request);
    if (error)
        return error;
    w->sentence[sizeof w->sentence - 1] = '\0';
    memcpy(w->agreed, w->sentence, sizeof w->agreed);
    return error_set(code, "%s", w->agreed);
}

int world_agree(struct world *w, const char *step, int local)
{
    MPI_Request request;
    if (w->lost)
        return refuse_lost(step);
    local = injected(w, step, local);
    if (local < 0)
        log_line(w->log, LOG_INFO, "step '%s' failed here: %s", step, baton_errmsg());
    w->ballot = (struct world_ballot){local < 0 ? local : 0, w->rank};
    int error = world_begin(w, step);
    if (error)
        return error;
    int rc = MPI_Iallreduce(&w->ballot, &w->verdict, 1, MPI_2INT, MPI_MINLOC, w->comm, &request);
    error = world_finish(w, step, rc, &request);
    if (error)
        return error;
    return w->verdict.code == 0 ? 0 : share_sentence(w, step);
}

/* The least of all ranks' least_in, number by number. */
static int least(struct world *w, const char *step)
{
    MPI_Request request;
    int error = world_begin(w, step);
    if (error)
        return error;
    int rc = MPI_Iallreduce(w->least_in, w->least_out, 2, MPI_INT, MPI_MIN, w->comm, &request);
    return world_finish(w, step, rc, &request);
}

int world_unanimous(struct world *w, const char *step, bool mine, bool *all)
{
    w->least_in[0] = w->least_in[1] = mine;
    int error = least(w, step);
    if (error == 0)
        *all = w->least_out[0] != 0;
    return error;
}

/* ---- MPI_Finalize ------------------------------------------------------------------------------------------------ */

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else, when MPI still works. */
static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    struct world *w = value;
    (void)comm, (void)key, (void)extra;
    if (w->on_finalize)
        w->on_finalize(w->on_finalize_arg);
    return MPI_SUCCESS;
}

int world_on_finalize(struct world *w, void (*hook)(void *arg), void *arg)
{
    bool was = w->on_finalize != NULL;
    int rc = MPI_SUCCESS;
    w->on_finalize = NULL; /* so that what follows does not call it */
    if (was && !hook) {
        rc = MPI_Comm_delete_attr(MPI_COMM_SELF, w->finalize_key);
        if (rc == MPI_SUCCESS)
            rc = MPI_Comm_free_keyval(&w->finalize_key);
    } else if (!was && hook) {
        rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &w->finalize_key, NULL);
        if (rc == MPI_SUCCESS)
            rc = MPI_Comm_set_attr(MPI_COMM_SELF, w->finalize_key, w);
    }
    if (rc != MPI_SUCCESS)
        return world_mpi_error(BATON_EMPI, "an attribute of MPI_COMM_SELF", rc);
    w->on_finalize = hook;
    w->on_finalize_arg = arg;
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static const char *level_name(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE:
        return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
        return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
        return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE:
        return "MPI_THREAD_MULTIPLE";
    }
    return "an unknown level";
}

static int have_mpi(struct world *w, MPI_Comm *comm)
{
    int initialised = 0, finalised = 0, inter = 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (finalised)
        return error_set(BATON_ESTATE, "MPI is already finalised");
    if (!initialised) {
        if (*comm != MPI_COMM_NULL)
            return error_set(BATON_ESTATE, "a communicator was given, but MPI is not initialised");
        int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &w->level);
        if (rc != MPI_SUCCESS)
            return error_set(BATON_EMPI, "MPI_Init_thread failed: MPI error %d", rc);
        w->owns_mpi = true;
    }
    MPI_Query_thread(&w->level);
    if (*comm == MPI_COMM_NULL)
        *comm = MPI_COMM_WORLD;
    MPI_Comm_test_inter(*comm, &inter);
    if (inter)
        return error_set(BATON_EINVAL, "an intercommunicator was given; merge it first (MPI_Intercomm_merge)");
    return 0;
}

/*
 * The duplicate is made by the nonblocking call, so that ranks which never come are an error here, not a hang. There
 * is no communicator of our own yet by which rank 0 could learn who they are.
 */
static int duplicate(struct world *w, MPI_Comm comm)
{
    MPI_Request request;
    uint64_t deadline = clock_now_ns() + w->settings.start_ms * CLOCK_NS_PER_MS;
    MPI_Comm_rank(comm, &w->rank);
    int rc = MPI_Comm_idup(comm, &w->comm, &request);
    for (unsigned polls = 0; rc == MPI_SUCCESS; polls++) {
        int done = 0;
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            break;
        if (clock_now_ns() > deadline) {
            w->lost = true;
            return error_set(BATON_ETIMEDOUT,
                             "not all ranks of the communicator called baton_open within %" PRIu64
                             " ms (BATON_START_MS)",
                             w->settings.start_ms);
        }
        world_pause(polls);
    }
    if (rc != MPI_SUCCESS)
        return world_mpi_error(BATON_EMPI, "MPI_Comm_idup", rc);
    MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    MPI_Comm_size(w->comm, &w->size);
    return 0;
}

/* AUTO becomes the weakest of what MPI gives to all ranks and what any rank asked for; who asked gets what it asked. */
static int resolve_mode(struct world *w, baton_progress_mode_t asked)
{
    static const int wishes[] = {[BATON_PROGRESS_AUTO] = WISH_AUTO,
                                 [BATON_PROGRESS_THREAD] = WISH_THREAD,
                                 [BATON_PROGRESS_CALLER] = WISH_CALLER};
    int local = 0;
    if ((unsigned)asked > BATON_PROGRESS_CALLER)
        local = error_set(BATON_EINVAL, "progress mode %d is unknown", (int)asked);
    else if (asked == BATON_PROGRESS_THREAD && w->level < MPI_THREAD_MULTIPLE)
        local = error_set(BATON_ETHREAD,
                          "BATON_PROGRESS_THREAD needs MPI_THREAD_MULTIPLE, MPI gave %s; ask for it in "
                          "MPI_Init_thread or use BATON_PROGRESS_CALLER",
                          level_name(w->level));
    local = world_agree(w, "thread level", local);
    if (local)
        return local;

    w->least_in[0] = w->level;
    w->least_in[1] = wishes[asked];
    int error = least(w, "progress mode");
    if (error)
        return error;
    bool threads = w->least_out[0] >= MPI_THREAD_MULTIPLE && w->least_out[1] != WISH_CALLER;
    w->mode = asked != BATON_PROGRESS_AUTO ? asked : threads ? BATON_PROGRESS_THREAD : BATON_PROGRESS_CALLER;
    if (w->rank == 0 && asked == BATON_PROGRESS_AUTO && w->least_out[0] < MPI_THREAD_MULTIPLE)
        log_each(w->log, LOG_WARN,
                 "MPI gives %s, not MPI_THREAD_MULTIPLE: blocks move only inside baton_poll and baton_progress. Call "
                 "MPI_Init_thread, or open with BATON_PROGRESS_CALLER if that is what you want",
                 level_name(w->least_out[0]));
    return 0;
}

static int split_host(struct world *w)
{
    struct watchdog dog;
    world_watch(w, &dog, "split by host");
    int rc = MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &w->host);
    watchdog_stop(&dog);
    int local = rc == MPI_SUCCESS ? 0 : world_mpi_error(BATON_EMPI, "MPI_Comm_split_type", rc);
    if (local == 0)
        MPI_Comm_set_errhandler(w->host, MPI_ERRORS_RETURN);
    return world_agree(w, "split by host", local);
}

/* A host's ranks, in order, fall into as many parts as BATON_FAKE_NODES pretends there are nodes. */
static int split_node(struct world *w)
{
    struct watchdog dog;
    int host_rank;
    MPI_Comm_rank(w->host, &host_rank);
    MPI_Comm_size(w->host, &w->host_size);
    int64_t parts = w->settings.fake_nodes ? (int64_t)w->settings.fake_nodes : 1;
    if (parts > w->host_size)
        parts = w->host_size;
    int part = (int)((int64_t)host_rank * parts / w->host_size);
    world_watch(w, &dog, "split by node");
    int rc = MPI_Comm_split(w->host, part, w->rank, &w->node);
    watchdog_stop(&dog);
    int local = rc == MPI_SUCCESS ? 0 : world_mpi_error(BATON_EMPI, "MPI_Comm_split", rc);
    if (local == 0) {
        MPI_Comm_set_errhandler(w->node, MPI_ERRORS_RETURN);
        MPI_Comm_size(w->node, &w->node_size);
    }
    return world_agree(w, "split by node", local);
}

/* The lowest world rank of my node, which all of its ranks know from the group without a message. */
static uint32_t node_leader(const struct world *w)
{
    MPI_Group node, world;
    int first = 0, leader = w->rank;
    MPI_Comm_group(w->node, &node);
    MPI_Comm_group(w->comm, &world);
    MPI_Group_translate_ranks(node, 1, &first, world, &leader);
    MPI_Group_free(&node);
    MPI_Group_free(&world);
    return (uint32_t)leader;
}

/* Nodes are numbered in order of their lowest rank: a rank that leads its node opens the next number. */
static int number_nodes(struct world *w)
{
    uint32_t mine = node_leader(w);
    int error = world_allgather(w, "node numbers", &mine, sizeof mine, w->node_of);
    if (error)
        return error;
    for (int r = 0; r < w->size; r++) {
        uint32_t leader = w->node_of[r];
        w->node_of[r] = leader == (uint32_t)r ? w->nodes++ : w->node_of[leader];
    }
    return 0;
}

static int allocate(struct world *w)
{
    w->node_of = calloc((size_t)w->size, sizeof *w->node_of);
    w->arrived = w->rank == 0 ? calloc((size_t)w->size, sizeof *w->arrived) : NULL;
    if (!w->node_of || (w->rank == 0 && !w->arrived))
        return error_set(BATON_ENOMEM, "no memory for the table of %d ranks", w->size);
    return 0;
}

int world_open(struct world *w, MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode,
               struct logger *log, int local)
{
    w->settings = *settings;
    w->log = log;
    w->comm = w->host = w->node = MPI_COMM_NULL;
    w->announcement = MPI_REQUEST_NULL;

    int error = have_mpi(w, &comm);
    if (error == 0)
        error = duplicate(w, comm);
    if (error)
        goto undo;
    log->rank = w->rank;
    error = allocate(w);
    if (error && w->rank == 0) { /* no agreement without rank 0's table: the others' deadline passes */
        w->lost = true;
        goto undo;
    }
    error = world_agree(w, "open", local < 0 ? local : error);
    if (error == 0)
        error = resolve_mode(w, mode);
    if (error == 0)
        error = split_host(w);
    if (error == 0)
        error = split_node(w);
    if (error == 0)
        error = number_nodes(w);
    if (error == 0)
        return 0;
undo:
    if (!w->lost)
        world_close(w);
    return error;
}

static void free_comm(MPI_Comm *comm, const struct logger *log)
{
    if (*comm == MPI_COMM_NULL)
        return;
    int rc = MPI_Comm_free(comm);
    if (rc != MPI_SUCCESS)
        log_line(log, LOG_WARN, "MPI_Comm_free failed: MPI error %d", rc);
}

void world_close(struct world *w)
{
    struct watchdog dog;
    world_watch(w, &dog, "free communicators");
    free_comm(&w->node, w->log);
    free_comm(&w->host, w->log);
    free_comm(&w->comm, w->log);
    free(w->node_of);
    free(w->arrived);
    w->node_of = NULL;
    w->arrived = NULL;
    if (w->owns_mpi && MPI_Finalize() != MPI_SUCCESS)
        log_line(w->log, LOG_WARN, "MPI_Finalize failed");
    w->owns_mpi = false;
    watchdog_stop(&dog);
}
