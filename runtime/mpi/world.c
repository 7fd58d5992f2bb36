/* SPDX-License-Identifier: BSD-3-Clause */
/* world: see the header. */
#include "mpi/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/forked.h"
#include "base/layout.h"
#include "mpi/mpi_error.h"

/* What a rank wishes of its threads, weakest first, so that the least of all ranks' wishes is the weakest. */
enum wish { WISH_CALLER, WISH_AUTO, WISH_THREAD };

/* ---- MPI_Finalize ------------------------------------------------------------------------------------------------ */

/*
 * MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else, when MPI still works. The value of ours is
 * a hook, which goes with it: not even an attribute that MPI does not delete in time has one that is gone.
 */
struct finalize_hook {
    void (*call)(void *arg); /* NULL: nothing is to be called any more */
    void *arg;
};

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    struct finalize_hook *hook = value;
    (void)comm, (void)key, (void)extra;
    if (hook->call != NULL && !forked_is()) /* else what it would end is the parent's, and goes on */
        hook->call(hook->arg);
    free(hook);
    return MPI_SUCCESS;
}

static int hook_add(struct world *w, void (*call)(void *arg), void *arg)
{
    struct finalize_hook *hook = malloc(sizeof *hook);
    if (hook == NULL)
        return error_set(BATON_ENOMEM, "no memory for what MPI_Finalize calls");
    *hook = (struct finalize_hook){call, arg};
    w->finalize_key = MPI_KEYVAL_INVALID;
    int rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &w->finalize_key, NULL);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_attr(MPI_COMM_SELF, w->finalize_key, hook);
    if (rc != MPI_SUCCESS) {
        if (w->finalize_key != MPI_KEYVAL_INVALID)
            MPI_Comm_free_keyval(&w->finalize_key);
        free(hook);
        return mpi_error_set(BATON_EMPI, "setting an attribute of MPI_COMM_SELF", rc);
    }
    w->hook = hook;
    return 0;
}

static int hook_remove(struct world *w)
{
    w->hook->call = NULL;
    w->hook = NULL; /* deleting the attribute frees it */
    int rc = MPI_Comm_delete_attr(MPI_COMM_SELF, w->finalize_key);
    const int freed = MPI_Comm_free_keyval(&w->finalize_key); /* an attribute that stays keeps its key for MPI */
    if (rc == MPI_SUCCESS)
        rc = freed;
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "deleting an attribute of MPI_COMM_SELF", rc);
}

int world_on_finalize(struct world *w, void (*hook)(void *arg), void *arg)
{
    const int rc = w->hook != NULL ? hook_remove(w) : 0;
    return rc == 0 && hook != NULL ? hook_add(w, hook, arg) : rc;
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
    }
    return "an unknown level";
}

/*
 * Ranks that the layout has and the world has not would be waited for in vain, or never be missed. Under another MPI's
 * launcher each rank comes up as a world of its own. The world may have more ranks than the layout, without Baton.
 */
static int check_layout(void)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *text = getenv("BATON_LAYOUT");
    struct layout l;
    int size, length;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (text == NULL || !layout_read(text, &l))
        return 0;
    const uint32_t ranks = layout_ranks(&l.prefill) + layout_ranks(&l.decode);
    if (ranks <= (uint32_t)size)
        return 0;
    if (size > 1)
        return error_set(BATON_ESETTING, "BATON_LAYOUT=%.64s has %u ranks, and MPI_COMM_WORLD has %d", text, ranks,
                         size);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    return error_set(
        BATON_ESETTING,
        "launcher and library differ: BATON_LAYOUT=%.64s has %u ranks, and MPI found one alone; start them by "
        "the launcher of %.64s",
        text, ranks, library);
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
    int rc = check_layout();
    if (rc != 0)
        return rc;
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
    struct deadline deadline = deadline_in(clock_now_ns(), w->settings.start_ms);
    MPI_Comm_rank(comm, &w->rank);
    int rc = MPI_Comm_idup(comm, &w->comm, &request);
    const bool is_begun = rc == MPI_SUCCESS;
    for (unsigned polls = 0; rc == MPI_SUCCESS; polls++) {
        int done = 0;
        rc = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            break;
        if (deadline_is_past(&deadline, clock_now_ns())) {
            w->steps.is_lost = true;
            return error_set(BATON_ETIMEDOUT,
                             "not all ranks of the communicator called baton_open within %" PRIu64
                             " ms (BATON_START_MS)",
                             w->settings.start_ms);
        }
        steps_pause(polls);
    }
    if (rc != MPI_SUCCESS) {
        w->steps.is_lost = is_begun; /* MPI may still store the handle */
        return mpi_error_set(BATON_EMPI, "MPI_Comm_idup", rc);
    }
    MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    MPI_Comm_size(w->comm, &w->size);
    return 0;
}

/*
 * A rank that asked for a mode gets it. AUTO becomes the weakest of what MPI gives to every rank and of what any rank
 * asked for.
 */
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
    local = steps_agree(&w->steps, "thread level", local);
    if (local)
        return local;

    int least[2], mine[2] = {w->level, wishes[asked]};
    int error = steps_least(&w->steps, "progress mode", mine, least);
    if (error)
        return error;
    bool may_thread = least[0] >= MPI_THREAD_MULTIPLE && least[1] != WISH_CALLER;
    w->mode = asked != BATON_PROGRESS_AUTO ? asked : may_thread ? BATON_PROGRESS_THREAD : BATON_PROGRESS_CALLER;
    if (w->rank == 0 && asked == BATON_PROGRESS_AUTO && least[0] < MPI_THREAD_MULTIPLE)
        log_each(w->log, LOG_WARN,
                 "MPI gives %s, not MPI_THREAD_MULTIPLE: blocks move only inside baton_poll and baton_progress. Call "
                 "MPI_Init_thread, or open with BATON_PROGRESS_CALLER if that is what you want",
                 level_name(least[0]));
    return 0;
}

static int split_host(struct world *w)
{
    struct watchdog dog;
    steps_watch(&w->steps, &dog, "split by host");
    int rc = MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &w->host);
    watchdog_stop(&dog);
    int local = rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "MPI_Comm_split_type", rc);
    if (local == 0)
        MPI_Comm_set_errhandler(w->host, MPI_ERRORS_RETURN);
    return steps_agree(&w->steps, "split by host", local);
}

int world_of_node(const struct world *w, int num, int *ranks)
{
    MPI_Group node = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    int rc = MPI_Comm_group(w->node, &node);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_group(w->comm, &world);
    for (int i = 0; i < num && rc == MPI_SUCCESS; i++)
        rc = MPI_Group_translate_ranks(node, 1, &i, world, &ranks[i]);
    if (node != MPI_GROUP_NULL)
        MPI_Group_free(&node);
    if (world != MPI_GROUP_NULL)
        MPI_Group_free(&world);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "asking which ranks are on this node", rc);
}

/*
 * Splits a host's ranks, in order, into as many nodes as BATON_FAKE_NODES pretends that there are. The leader of a node
 * is the lowest of its ranks in the world.
 */
static int split_node(struct world *w, int *leader)
{
    struct watchdog dog;
    int host_rank;
    MPI_Comm_rank(w->host, &host_rank);
    MPI_Comm_size(w->host, &w->host_size);
    int64_t nodes = w->settings.fake_nodes ? (int64_t)w->settings.fake_nodes : 1;
    if (nodes > w->host_size)
        nodes = w->host_size;
    int node = (int)((int64_t)host_rank * nodes / w->host_size);
    steps_watch(&w->steps, &dog, "split by node");
    int rc = MPI_Comm_split(w->host, node, w->rank, &w->node);
    watchdog_stop(&dog);
    int local = rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "MPI_Comm_split", rc);
    if (local == 0) {
        MPI_Comm_set_errhandler(w->node, MPI_ERRORS_RETURN);
        MPI_Comm_size(w->node, &w->node_size);
        local = world_of_node(w, 1, leader);
    }
    return steps_agree(&w->steps, "split by node", local);
}

/* Nodes are numbered in the order of their leaders, each of which takes the next number. */
static int number_nodes(struct world *w, int leader)
{
    const uint32_t mine = (uint32_t)leader;
    int error = steps_allgather(&w->steps, "node numbers", &mine, sizeof mine, w->node_of);
    if (error)
        return error;
    for (int r = 0; r < w->size; r++) {
        uint32_t of = w->node_of[r];
        w->node_of[r] = of == (uint32_t)r ? w->nodes++ : w->node_of[of];
    }
    return 0;
}

static int allocate(struct world *w)
{
    int error = steps_attach(&w->steps, w->comm);
    w->node_of = calloc((size_t)w->size, sizeof *w->node_of);
    if (w->node_of == NULL)
        error = error_set(BATON_ENOMEM, "no memory for the table of %d ranks", w->size);
    return error;
}

int world_open(struct world *w, MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode,
               struct logger *log, int local)
{
    w->settings = *settings;
    w->log = log;
    w->comm = w->host = w->node = MPI_COMM_NULL;
    steps_init(&w->steps, &w->settings, log);

    int leader = 0, error = have_mpi(w, &comm);
    if (error == 0)
        error = duplicate(w, comm);
    if (error)
        goto undo;
    log->rank = w->rank;
    error = allocate(w);
    if (error && w->size == 1)
        goto undo;
    if (error && w->rank == 0) { /* nobody can agree without rank 0's table: the others' deadline passes */
        free(w->node_of);
        steps_fini(&w->steps);
        return error;
    }
    error = steps_agree(&w->steps, "open", local < 0 ? local : error);
    if (error == 0)
        error = resolve_mode(w, mode);
    if (error == 0)
        error = split_host(w);
    if (error == 0)
        error = split_node(w, &leader);
    if (error == 0)
        error = number_nodes(w, leader);
    if (error == 0)
        return 0;
undo:
    if (!w->steps.is_lost)
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
    steps_watch(&w->steps, &dog, "free communicators");
    free_comm(&w->node, w->log);
    free_comm(&w->host, w->log);
    free_comm(&w->comm, w->log);
    free(w->node_of);
    w->node_of = NULL;
    steps_fini(&w->steps);
    if (w->owns_mpi && MPI_Finalize() != MPI_SUCCESS)
        log_line(w->log, LOG_WARN, "MPI_Finalize failed");
    w->owns_mpi = false;
    watchdog_stop(&dog);
}
