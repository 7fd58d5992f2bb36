/* SPDX-License-Identifier: BSD-3-Clause */
/* shim: see shim.h. One lock protects everything. MPI is called under it, but never to wait. */
#include "shim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPS_MAX 64 /* of a batch */
#define BATCHES_MAX 256
#define HIDDEN_MAX 64
#define WINDOWS_MAX 64
#define HANDLE_FIRST 0x5a5a0000u /* the shim's own handles, which MPI never sees */

const char *const shim_call_name[SHIM_CALLS] = {"get", "rget", "put", "rput", "isend", "irecv", "flush"};
const char *const shim_fault_name[SHIM_FAULTS] = {"fail", "late", "break", "swap"};

uint64_t (*shim_clock)(void);

struct op {
    bool write;
    void *mine;
    int bytes, peer;
    MPI_Aint theirs;
};

/* Operations that are done together, or one message. */
struct batch {
    bool is_used, is_begun, is_told, has_handle, is_broken, is_message, is_dropped, is_over, is_lost;
    int peer, num_ops, tag;
    MPI_Win win;
    MPI_Comm comm;
    uint64_t due_ns;  /* when it is begun */
    uint64_t told_ns; /* is_broken: when its request completes in error */
    struct op op[OPS_MAX];
    MPI_Request real[OPS_MAX];
};

/* A receive whose completion is not shown yet, or shown as an error. */
struct hidden {
    MPI_Request request;
    enum shim_fault fault;
    uint64_t seen_ns;
    bool is_there;
    MPI_Status status;
};

static struct {
    pthread_mutex_t lock;
    bool is_set, separate, gets_early, puts_early;
    struct shim_rule rule;
    uint32_t calls[SHIM_CALLS], met, to_lose;
    uint64_t early_ns;
    int early_bytes;
    struct batch open; /* operations to one peer that have no request yet */
    bool reverses, breaks, delays;
    struct batch batch[BATCHES_MAX];
    int num_batches; /* none is in use from there on */
    struct hidden hidden[HIDDEN_MAX];
    MPI_Win window[WINDOWS_MAX];
    int num_windows;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t now_ns(void)
{
    struct timespec t;
    if (shim_clock != NULL)
        return shim_clock();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

void shim_set(const struct shim_rule *rule)
{
    pthread_mutex_lock(&shim.lock);
    shim.is_set = rule != NULL;
    if (rule != NULL)
        shim.rule = *rule;
    shim.met = 0;
    memset(shim.calls, 0, sizeof shim.calls);
    pthread_mutex_unlock(&shim.lock);
}

uint32_t shim_met(void)
{
    pthread_mutex_lock(&shim.lock);
    uint32_t n = shim.met;
    pthread_mutex_unlock(&shim.lock);
    return n;
}

uint32_t shim_calls(enum shim_call call)
{
    pthread_mutex_lock(&shim.lock);
    uint32_t n = shim.calls[call];
    pthread_mutex_unlock(&shim.lock);
    return n;
}

uint32_t shim_late(void)
{
    uint32_t n = 0;
    pthread_mutex_lock(&shim.lock);
    for (int i = 0; i < shim.num_batches; i++)
        n += shim.batch[i].is_used && !shim.batch[i].is_over;
    pthread_mutex_unlock(&shim.lock);
    return n;
}

void shim_separate_model(bool is)
{
    shim.separate = is;
}

void shim_break_promise(bool gets, bool puts, int least_bytes, uint64_t late_ns)
{
    shim.early_bytes = least_bytes;
    shim.gets_early = gets;
    shim.puts_early = puts;
    shim.early_ns = late_ns;
}

void shim_lose_completions(uint32_t num)
{
    shim.to_lose = num;
}

/* Counts the call. True: the rule is about this one. */
static bool is_met(enum shim_call call)
{
    uint32_t n = ++shim.calls[call], times = shim.rule.times > 0 ? shim.rule.times : 1;
    bool met = shim.is_set && shim.rule.call == call && n >= shim.rule.nth && n < shim.rule.nth + times;
    shim.met += met;
    return met;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static struct batch *take_batch(void)
{
    for (int i = 0; i < BATCHES_MAX; i++)
        if (!shim.batch[i].is_used) {
            if (i >= shim.num_batches)
                shim.num_batches = i + 1;
            return &shim.batch[i];
        }
    fprintf(stderr, "shim: more than %d operations are late\n", BATCHES_MAX);
    abort();
}

static MPI_Request handle_of(const struct batch *b)
{
    return (MPI_Request)(uintptr_t)(HANDLE_FIRST + (unsigned)(b - shim.batch));
}

static struct batch *batch_of(MPI_Request request)
{
    uintptr_t at = (uintptr_t)request - HANDLE_FIRST;
    return at < BATCHES_MAX && shim.batch[at].is_used && shim.batch[at].has_handle ? &shim.batch[at] : NULL;
}

static int begin_op(const struct op *op, MPI_Win win, MPI_Request *request)
{
    if (op->write)
        return PMPI_Rput(op->mine, op->bytes, MPI_BYTE, op->peer, op->theirs, op->bytes, MPI_BYTE, win, request);
    return PMPI_Rget(op->mine, op->bytes, MPI_BYTE, op->peer, op->theirs, op->bytes, MPI_BYTE, win, request);
}

/* Each operation gets a request of its own, so that it is known when all are done. */
static void begin_late(struct batch *b)
{
    b->is_begun = true;
    for (int i = 0; i < b->num_ops; i++)
        b->real[i] = MPI_REQUEST_NULL;
    if (b->is_message) {
        if (!b->is_dropped)
            PMPI_Isend(b->op[0].mine, b->op[0].bytes, MPI_BYTE, b->peer, b->tag, b->comm, &b->real[0]);
        return;
    }
    for (int i = 0; i < b->num_ops; i++)
        if (begin_op(&b->op[i], b->win, &b->real[i]) != MPI_SUCCESS)
            b->real[i] = MPI_REQUEST_NULL;
}

static void advance_batch(struct batch *b, uint64_t now)
{
    int all = 1;
    if (!b->is_begun && now >= b->due_ns)
        begin_late(b);
    if (!b->is_begun || b->is_over)
        return;
    for (int i = 0; i < b->num_ops; i++) {
        int done = 1;
        if (b->real[i] != MPI_REQUEST_NULL && PMPI_Test(&b->real[i], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            done = 1;
        all &= done;
    }
    b->is_over = all;
    if (b->is_over && (!b->has_handle || b->is_told))
        b->is_used = false;
}

static void advance_all(void)
{
    uint64_t now = now_ns();
    for (int i = 0; i < shim.num_batches; i++)
        if (shim.batch[i].is_used)
            advance_batch(&shim.batch[i], now);
    while (shim.num_batches > 0 && !shim.batch[shim.num_batches - 1].is_used)
        shim.num_batches--;
}

void shim_progress(void)
{
    pthread_mutex_lock(&shim.lock);
    advance_all();
    pthread_mutex_unlock(&shim.lock);
}

/* The open operations will have no request: they are done late, and nothing tells of it. */
static void leave_open(uint64_t late_ns)
{
    if (shim.open.num_ops > 0) {
        struct batch *b = take_batch();
        *b = shim.open;
        b->is_used = true;
        b->due_ns = now_ns() + late_ns;
    }
    shim.open.num_ops = 0;
    shim.delays = shim.breaks = shim.reverses = false;
}

static void begin_open(void)
{
    for (int i = 0; i < shim.open.num_ops; i++) {
        const struct op *op = &shim.open.op[shim.reverses ? shim.open.num_ops - 1 - i : i];
        if (op->write)
            PMPI_Put(op->mine, op->bytes, MPI_BYTE, op->peer, op->theirs, op->bytes, MPI_BYTE, shim.open.win);
        else
            PMPI_Get(op->mine, op->bytes, MPI_BYTE, op->peer, op->theirs, op->bytes, MPI_BYTE, shim.open.win);
    }
    shim.open.num_ops = 0;
}

/* The open operations become a batch that the shim does later, with a request of the shim's. */
static int take_over(MPI_Request *request)
{
    struct batch *b = take_batch();
    uint64_t now = now_ns(), late = shim.rule.late_ns;
    *b = shim.open;
    b->is_used = b->has_handle = true;
    b->is_broken = shim.breaks;
    b->told_ns = now + late / 16;
    b->due_ns = now + (shim.reverses && !shim.breaks && !shim.delays ? late / 4 : late);
    *request = handle_of(b);
    shim.open.num_ops = 0;
    shim.delays = shim.breaks = shim.reverses = false;
    return MPI_SUCCESS;
}

/* The request completes at once, its operations later: what the quirks table promises not to happen. */
static int tell_early(MPI_Request *request)
{
    struct batch *b = take_batch();
    *b = shim.open;
    b->is_used = true;
    b->due_ns = now_ns() + shim.early_ns;
    shim.open.num_ops = 0;
    b = take_batch();
    *b = (struct batch){.is_used = true, .has_handle = true, .is_begun = true, .is_over = true};
    *request = handle_of(b);
    return MPI_SUCCESS;
}

/* The operations are done, and the request stays open for good. */
static int lose(MPI_Request *request)
{
    struct batch *b = take_batch();
    *b = (struct batch){.is_used = true, .has_handle = true, .is_begun = true, .is_over = true, .is_lost = true};
    shim.to_lose--;
    begin_open();
    *request = handle_of(b);
    return MPI_SUCCESS;
}

static bool is_early(bool write)
{
    bool is_long = false;
    for (int i = 0; i < shim.open.num_ops; i++)
        is_long |= shim.open.op[i].bytes >= shim.early_bytes;
    return is_long && (write ? shim.puts_early : shim.gets_early && shim.open.num_ops > 1);
}

static int one_sided(enum shim_call call, struct op op, MPI_Win win, MPI_Request *request)
{
    int rc = MPI_SUCCESS;
    bool write = call == SHIM_PUT || call == SHIM_RPUT;
    pthread_mutex_lock(&shim.lock);
    if (shim.open.num_ops > 0 && (shim.open.peer != op.peer || shim.open.win != win || shim.open.num_ops == OPS_MAX))
        begin_open();
    bool met = is_met(call);
    if (met && shim.rule.fault == SHIM_FAIL) {
        leave_open(shim.rule.late_ns);
        rc = MPI_ERR_OTHER;
        goto out;
    }
    shim.delays |= met && shim.rule.fault == SHIM_LATE;
    shim.breaks |= met && shim.rule.fault == SHIM_BREAK;
    shim.reverses |= met && shim.rule.fault == SHIM_SWAP;
    shim.open.peer = op.peer;
    shim.open.win = win;
    shim.open.op[shim.open.num_ops++] = op;
    if (request == NULL) {
        if (!shim.is_set && !shim.gets_early && !shim.puts_early)
            begin_open();
        goto out;
    }
    if (shim.to_lose > 0)
        rc = lose(request);
    else if (shim.delays || shim.breaks || shim.reverses)
        rc = take_over(request);
    else if (is_early(write))
        rc = tell_early(request);
    else {
        shim.open.num_ops--;
        begin_open();
        rc = begin_op(&op, win, request);
    }
out:
    pthread_mutex_unlock(&shim.lock);
    return rc;
}

int MPI_Get(void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win)
{
    (void)t, (void)tn, (void)tt; /* the library moves bytes only */
    return one_sided(SHIM_GET, (struct op){false, mine, n, peer, at}, win, NULL);
}

int MPI_Rget(void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win,
             MPI_Request *request)
{
    (void)t, (void)tn, (void)tt;
    return one_sided(SHIM_RGET, (struct op){false, mine, n, peer, at}, win, request);
}

int MPI_Put(const void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win)
{
    (void)t, (void)tn, (void)tt;
    return one_sided(SHIM_PUT, (struct op){true, (void *)(uintptr_t)mine, n, peer, at}, win, NULL);
}

int MPI_Rput(const void *mine, int n, MPI_Datatype t, int peer, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win win,
             MPI_Request *request)
{
    (void)t, (void)tn, (void)tt;
    return one_sided(SHIM_RPUT, (struct op){true, (void *)(uintptr_t)mine, n, peer, at}, win, request);
}

/* peer < 0: to all peers */
static void begin_all(int peer, MPI_Win win)
{
    if (shim.open.num_ops > 0)
        begin_open();
    for (int i = 0; i < shim.num_batches; i++) {
        struct batch *b = &shim.batch[i];
        if (b->is_used && !b->is_begun && !b->is_message && (peer < 0 || b->peer == peer) && b->win == win)
            begin_late(b);
    }
}

int MPI_Win_flush_all(MPI_Win win)
{
    pthread_mutex_lock(&shim.lock);
    begin_all(-1, win);
    pthread_mutex_unlock(&shim.lock);
    return PMPI_Win_flush_all(win);
}

/* A flush waits for what is late to that peer. */
int MPI_Win_flush(int peer, MPI_Win win)
{
    pthread_mutex_lock(&shim.lock);
    bool met = is_met(SHIM_FLUSH), refused = met && shim.rule.fault == SHIM_FAIL;
    if (!refused)
        begin_all(peer, win);
    pthread_mutex_unlock(&shim.lock);
    if (refused)
        return MPI_ERR_OTHER;
    if (met && shim.rule.fault == SHIM_LATE && shim_clock == NULL) {
        struct timespec t = {0, 100 * 1000 * 1000};
        nanosleep(&t, NULL);
    }
    int rc = PMPI_Win_flush(peer, win);
    return met && shim.rule.fault == SHIM_BREAK ? MPI_ERR_OTHER : rc;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* The last message to that rank that is not on its way yet: no message that follows may overtake it. */
static const struct batch *held_before(int to, MPI_Comm comm)
{
    const struct batch *last = NULL;
    for (int i = 0; i < shim.num_batches; i++) {
        const struct batch *b = &shim.batch[i];
        if (b->is_used && b->is_message && !b->is_begun && !b->is_dropped && b->peer == to && b->comm == comm &&
            (last == NULL || b->due_ns > last->due_ns))
            last = b;
    }
    return last;
}

int MPI_Isend(const void *data, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    uint64_t now = now_ns();
    pthread_mutex_lock(&shim.lock);
    const struct batch *before = held_before(to, comm);
    bool met = is_met(SHIM_ISEND);
    int rc = MPI_SUCCESS;
    if (met && shim.rule.fault == SHIM_FAIL) {
        rc = MPI_ERR_OTHER;
    } else if (!met && before == NULL) {
        rc = PMPI_Isend(data, n, t, to, tag, comm, request);
    } else {
        enum shim_fault fault = met ? shim.rule.fault : SHIM_LATE;
        struct batch *b = take_batch();
        *b = (struct batch){
            .is_used = true, .has_handle = true, .is_message = true, .peer = to, .comm = comm, .tag = tag};
        b->num_ops = 1;
        b->op[0] = (struct op){true, (void *)(uintptr_t)data, n, to, 0};
        b->is_broken = fault == SHIM_BREAK || fault == SHIM_SWAP;
        b->is_dropped = fault == SHIM_BREAK;
        b->told_ns = now + shim.rule.late_ns / 16;
        b->due_ns = fault == SHIM_LATE && met ? now + shim.rule.late_ns : now;
        if (before != NULL && before->due_ns >= b->due_ns)
            b->due_ns = before->due_ns + 1;
        if (before == NULL && fault == SHIM_SWAP)
            begin_late(b);
        *request = handle_of(b);
    }
    pthread_mutex_unlock(&shim.lock);
    return rc;
}

int MPI_Irecv(void *data, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    pthread_mutex_lock(&shim.lock);
    bool met = is_met(SHIM_IRECV);
    int rc = met && shim.rule.fault == SHIM_FAIL ? MPI_ERR_OTHER : PMPI_Irecv(data, n, t, from, tag, comm, request);
    for (int i = 0; met && rc == MPI_SUCCESS && i < HIDDEN_MAX; i++)
        if (shim.hidden[i].request == 0) {
            shim.hidden[i] = (struct hidden){.request = *request, .fault = shim.rule.fault};
            break;
        }
    pthread_mutex_unlock(&shim.lock);
    return rc;
}

static struct hidden *hidden_of(MPI_Request request)
{
    for (int i = 0; request != MPI_REQUEST_NULL && i < HIDDEN_MAX; i++)
        if (shim.hidden[i].request != 0 && shim.hidden[i].request == request)
            return &shim.hidden[i];
    return NULL;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static int test_batch(struct batch *b, MPI_Request *request, int *done, MPI_Status *status)
{
    int error = MPI_SUCCESS;
    *done = !b->is_lost && (b->is_broken ? now_ns() >= b->told_ns : b->is_over);
    if (!*done)
        return MPI_SUCCESS;
    if (b->is_broken)
        error = MPI_ERR_OTHER;
    if (status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = error;
    b->is_told = true;
    if (b->is_over)
        b->is_used = false;
    else
        b->has_handle = false; /* a late one goes on by itself */
    *request = MPI_REQUEST_NULL;
    return error;
}

static int test_hidden(struct hidden *h, MPI_Request *request, int *done, MPI_Status *status)
{
    uint64_t now = now_ns();
    *done = 0;
    if (!h->is_there) {
        MPI_Request real = *request;
        int there = 0, rc = PMPI_Test(&real, &there, &h->status);
        if (rc != MPI_SUCCESS)
            return rc;
        h->is_there = there;
        h->seen_ns = now;
    }
    if (!h->is_there || (h->fault != SHIM_BREAK && now - h->seen_ns < shim.rule.late_ns / 4))
        return MPI_SUCCESS;
    *done = 1;
    *request = MPI_REQUEST_NULL;
    h->request = 0;
    if (status != MPI_STATUS_IGNORE)
        *status = h->status;
    return h->fault == SHIM_BREAK ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int test_one(MPI_Request *request, int *done, MPI_Status *status)
{
    struct batch *b = batch_of(*request);
    struct hidden *h = b != NULL ? NULL : hidden_of(*request);
    if (b != NULL)
        return test_batch(b, request, done, status);
    return h != NULL ? test_hidden(h, request, done, status) : PMPI_Test(request, done, status);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    pthread_mutex_lock(&shim.lock);
    advance_all();
    int rc = test_one(request, done, status);
    pthread_mutex_unlock(&shim.lock);
    return rc;
}

int MPI_Testsome(int n, MPI_Request *requests, int *num_done, int *index, MPI_Status *statuses)
{
    bool mine = false;
    int rc = MPI_SUCCESS, live = 0;
    pthread_mutex_lock(&shim.lock);
    advance_all();
    for (int i = 0; i < n; i++)
        mine |= batch_of(requests[i]) != NULL;
    if (!mine) {
        rc = PMPI_Testsome(n, requests, num_done, index, statuses);
        goto out;
    }
    *num_done = 0;
    for (int i = 0; i < n; i++) {
        int done = 0;
        MPI_Status *status = &statuses[*num_done];
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        live++;
        int one = test_one(&requests[i], &done, status);
        if (!done && one == MPI_SUCCESS)
            continue;
        status->MPI_ERROR = one;
        index[(*num_done)++] = i;
        if (one != MPI_SUCCESS)
            rc = MPI_ERR_IN_STATUS;
    }
    if (live == 0)
        *num_done = MPI_UNDEFINED;
out:
    pthread_mutex_unlock(&shim.lock);
    return rc;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    static int model = MPI_WIN_SEPARATE;
    if (keyval != MPI_WIN_MODEL || !shim.separate)
        return PMPI_Win_get_attr(win, keyval, value, flag);
    *(int **)value = &model;
    *flag = 1;
    return MPI_SUCCESS;
}

static void keep_window(MPI_Win win)
{
    pthread_mutex_lock(&shim.lock);
    if (shim.num_windows < WINDOWS_MAX)
        shim.window[shim.num_windows++] = win;
    pthread_mutex_unlock(&shim.lock);
}

int MPI_Win_create(void *base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    int rc = PMPI_Win_create(base, bytes, unit, info, comm, win);
    if (rc == MPI_SUCCESS)
        keep_window(*win);
    return rc;
}

int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win)
{
    int rc = PMPI_Win_allocate_shared(bytes, unit, info, comm, base, win);
    if (rc == MPI_SUCCESS)
        keep_window(*win);
    return rc;
}

int MPI_Win_free(MPI_Win *win)
{
    pthread_mutex_lock(&shim.lock);
    for (int i = 0; i < shim.num_windows; i++)
        if (shim.window[i] == *win)
            shim.window[i] = MPI_WIN_NULL;
    pthread_mutex_unlock(&shim.lock);
    return PMPI_Win_free(win);
}

/* The last one first: the overlay lies over the shared window's memory. */
void shim_free_windows(void)
{
    while (shim.num_windows > 0) {
        MPI_Win win = shim.window[--shim.num_windows];
        if (win == MPI_WIN_NULL)
            continue;
        PMPI_Win_unlock_all(win);
        PMPI_Win_free(&win);
    }
}
