/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest: moves patterns in the ways that rma_batch.c will move data, and looks at every byte. All ranks run it at
 * the same time and only test requests and agree, so each drives the progress that the others need. The flushes at its
 * end run under a watchdog.
 */
#include "mpi/selftest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "mpi/mpi_error.h"
#include "mpi/rma_batch.h"

enum { TAG_PUT = 3 }; /* steps.c and meeting.c have others on the same communicator */
enum { PEERS = 3, ROUNDS = 3, PUT_ROUNDS = 4 };

#define LONG_BYTES (UINT64_C(1) << 20)
#define LONG_PIECES 3u
#define ROOM_BYTES ((LONG_PIECES - 1) * LONG_BYTES + 4096) /* of each pool */

/*
 * The last piece is the shortest: a request that waits for nothing but this piece would be complete before the others.
 */
#define LAST_BYTES 8u

/* The pieces of one request, at the peer. */
struct shape {
    uint64_t offset, step; /* of the first piece in its segment; from each to the next */
    uint32_t pieces, bytes, last_bytes;
};

/* The first bytes of a rank's pool. */
struct room {
    uint64_t offset, bytes;
};

struct trial {
    struct world *w;
    const struct windows *v;
    uint8_t landing[ROOM_BYTES], source[ROOM_BYTES]; /* what is read, and what is put */
    uint32_t told[PUT_ROUNDS];  /* pieces of my put, told once its request is complete; 0: none was made */
    uint32_t heard[PUT_ROUNDS]; /* the same, told by the rank that puts into my room */
    struct room rooms[];        /* by rank */
};

static struct trial *trial_new(struct world *w, const struct windows *v)
{
    struct trial *t = calloc(1, sizeof *t + (size_t)w->size * sizeof t->rooms[0]);
    if (t == NULL)
        return NULL;
    t->w = w;
    t->v = v;
    return t;
}

static struct deadline deadline_for(const struct world *w)
{
    return deadline_in(clock_now_ns(), w->settings.start_ms / 2); /* the agreement needs the rest */
}

static bool is_far(const struct world *w, uint32_t rank)
{
    return w->node_of[rank] != w->node_of[w->rank];
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/* Poison is the pattern's inverse, so that no wrong byte is right by chance. */
static void lay(uint8_t *at, uint32_t rank, uint32_t from, uint64_t bytes, bool poison)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = windows_pattern(rank, from + i) ^ (poison ? 0xff : 0);
}

static bool is_there(const uint8_t *at, uint32_t rank, uint32_t from, uint64_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (at[i] != windows_pattern(rank, from + i))
            return false;
    return true;
}

static uint32_t bytes_of(const struct shape *s, uint32_t piece)
{
    return piece + 1 < s->pieces ? s->bytes : s->last_bytes;
}

/* `pieces` pieces within `bytes` from `offset` on; none if they do not fit. */
static struct shape fit(uint64_t offset, uint64_t bytes, uint32_t pieces)
{
    uint64_t each = pieces < 2 ? bytes : bytes > LAST_BYTES ? (bytes - LAST_BYTES) / (pieces - 1) : 0;
    if (each > LONG_BYTES)
        each = LONG_BYTES;
    if (each < LAST_BYTES || pieces == 0)
        return (struct shape){0};
    return (struct shape){offset, each, pieces, (uint32_t)each, pieces < 2 ? (uint32_t)each : LAST_BYTES};
}

/* Moves the pieces as a batch does: the last one has *request, all others have none. */
static int move(struct trial *t, bool write, uint32_t peer, const struct shape *s, MPI_Request *request)
{
    int rc = MPI_SUCCESS;
    for (uint32_t g = 0; g < s->pieces && rc == MPI_SUCCESS; g++) {
        const struct sieve_piece piece = {.mine = (write ? t->source : t->landing) + (uint64_t)g * s->bytes,
                                          .theirs = s->offset + g * s->step,
                                          .bytes = bytes_of(s, g)};
        rc = rma_batch_piece(write, (int)peer, t->v->overlay, &piece, g + 1 < s->pieces ? NULL : request);
    }
    return rc == MPI_SUCCESS
               ? 0
               : mpi_error_set(BATON_EMPI, write ? "a put of the self-test" : "a get of the self-test", rc);
}

/* ---- gets -------------------------------------------------------------------------------------------------------- */

/* The pattern in the peer's first page, again and again. */
static struct shape shape_short(uint32_t pieces)
{
    uint32_t bytes = WINDOWS_PATTERN_BYTES;
    return (struct shape){WINDOWS_PATTERN_OFFSET, 0, pieces, bytes, LAST_BYTES};
}

/* The peers to try: the first on other nodes, from half the world away on, so that no rank serves all. */
static int choose_peers(const struct world *w, uint32_t peers[PEERS])
{
    int n = 0;
    for (int i = 0; i < w->size && n < PEERS; i++) {
        uint32_t r = (uint32_t)((w->rank + w->size / 2 + i) % w->size);
        if (is_far(w, r))
            peers[n++] = r;
    }
    return n;
}

static int test(MPI_Request *request, int *done)
{
    int rc = MPI_Test(request, done, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "a request of the self-test", rc);
}

/* Waits for this request alone. BATON_ETIMEDOUT leaves it open: the landing must stay. */
static int await(const struct world *w, uint32_t peer, MPI_Request *request)
{
    struct deadline deadline = deadline_for(w);
    for (unsigned polls = 0;; polls++) {
        int done = 0, error = test(request, &done);
        if (error || done)
            return error;
        if (deadline_is_past(&deadline, clock_now_ns()))
            return error_set(BATON_ETIMEDOUT, "a one-sided read from rank %" PRIu32 " did not complete", peer);
        steps_pause(polls);
    }
}

static int flush(const struct trial *t, uint32_t peer)
{
    struct watchdog dog;
    steps_watch(&t->w->steps, &dog, "flush of the self-test");
    int rc = MPI_Win_flush((int)peer, t->v->overlay);
    watchdog_stop(&dog);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "MPI_Win_flush", rc);
}

/* *whole becomes false where the request was complete before all its bytes were there. */
static int try_get(struct trial *t, uint32_t peer, const struct shape *s, bool *whole)
{
    MPI_Request request;
    bool all = true;
    for (uint32_t g = 0; g < s->pieces; g++)
        lay(t->landing + (uint64_t)g * s->bytes, peer, (uint32_t)(g * s->step), bytes_of(s, g), true);
    int error = move(t, false, peer, s, &request);
    if (error == 0)
        error = await(t->w, peer, &request);
    if (error)
        return error;
    windows_sync(t->v);
    for (uint32_t g = 0; g < s->pieces && all; g++)
        all = is_there(t->landing + (uint64_t)g * s->bytes, peer, (uint32_t)(g * s->step), bytes_of(s, g));
    *whole = *whole && all;
    return all ? 0 : flush(t, peer); /* before the landing is used again */
}

/* Short and long gets, so many in each request. */
static int try_gets(struct trial *t, uint32_t gets, bool *whole)
{
    uint32_t peers[PEERS], several = gets < LONG_PIECES ? gets : LONG_PIECES;
    int n = choose_peers(t->w, peers), error = 0;
    struct shape s = shape_short(gets);
    for (int i = 0; i < n * ROUNDS && error == 0; i++)
        error = try_get(t, peers[i % n], &s, whole);
    if (n > 0)
        s = fit(t->rooms[peers[0]].offset, t->rooms[peers[0]].bytes, several);
    if (n > 0 && error == 0 && s.pieces > 0)
        error = try_get(t, peers[0], &s, whole);
    return error;
}

/*
 * A peer may have another MPI library, or another version of it, and still come this far. Each rank asks the peers that
 * it reads from anyway, so that the ranks of an odd node are asked, and ask.
 */
static int compare_libraries(struct trial *t)
{
    const struct windows_library *mine = (const struct windows_library *)(t->v->segment + WINDOWS_LIBRARY_OFFSET);
    struct windows_library theirs;
    uint32_t peers[PEERS];
    int n = choose_peers(t->w, peers), error = 0;
    for (int i = 0; i < n && error == 0; i++) {
        struct shape s = {WINDOWS_LIBRARY_OFFSET, 0, 1, sizeof theirs, sizeof theirs};
        MPI_Request request;
        error = move(t, false, peers[i], &s, &request);
        if (error == 0)
            error = await(t->w, peers[i], &request);
        if (error)
            return error;
        windows_sync(t->v);
        memcpy(&theirs, t->landing, sizeof theirs);
        theirs.name[sizeof theirs.name - 1] = '\0';
        if (theirs.magic == WINDOWS_LIBRARY_MAGIC && strcmp(theirs.name, mine->name) != 0)
            log_each(t->w->log, LOG_WARN,
                     "rank %" PRIu32 " has another MPI library (%s) than this rank (%s): install the same one on all "
                     "hosts; batonrun --check tells what differs",
                     peers[i], theirs.name, mine->name);
    }
    return error;
}

static int try_single(struct trial *t)
{
    bool whole = true;
    int error = try_gets(t, 1, &whole);
    if (error == 0 && !whole)
        error = error_set(BATON_EMPI,
                          "an MPI_Rget on window '%s' completed without its bytes: choose another "
                          "one-sided component (Open MPI: OMPI_MCA_osc)",
                          t->v->overlay_name);
    return error ? error : compare_libraries(t);
}

/* *whole: on every rank each request covered all of its gets. */
static int test_gets(struct trial *t, const struct quirks *q, bool *whole)
{
    bool mine = true;
    int error = steps_agree(&t->w->steps, "self-test of a single get", try_single(t));
    if (error)
        return error;
    int local = q->per_request > 1 ? try_gets(t, q->per_request, &mine) : 0;
    error = steps_agree(&t->w->steps, "self-test of several gets", local);
    return error ? error : steps_unanimous(&t->w->steps, "several gets a request", mine, whole);
}

/* ---- puts -------------------------------------------------------------------------------------------------------- */

/*
 * In a round all ranks put over the same distance: so each rank knows which one puts into its room, and no two do. In
 * the first half of the rounds the distance is half the world, which usually is another node. In the others it is 1,
 * which is another node for some rank of each node.
 */
static uint32_t rank_beside(const struct world *w, int round, int sign)
{
    int distance = round < PUT_ROUNDS / 2 ? w->size / 2 : 1;
    return (uint32_t)((w->rank + w->size + sign * distance) % w->size);
}

/* Each round has a share of the room. */
static struct shape shape_put(const struct room *room, int round, uint32_t pieces)
{
    uint64_t share = room->bytes / PUT_ROUNDS;
    return fit(room->offset + (uint64_t)round * share, share, pieces);
}

/* Even rounds: as many pieces as a request will have. Odd ones: few and long pieces. */
static uint32_t pieces_put(const struct quirks *q, int round)
{
    return round % 2 == 0 || q->per_request < 2 ? q->per_request : 2;
}

static void poison_room(const struct trial *t)
{
    const struct room *mine = &t->rooms[t->w->rank];
    uint64_t share = mine->bytes / PUT_ROUNDS;
    for (int round = 0; round < PUT_ROUNDS; round++)
        lay(t->v->segment + mine->offset + (uint64_t)round * share, rank_beside(t->w, round, -1), 0, share, true);
    windows_sync(t->v);
}

/* Whether all that this rank says it has put is there. */
static bool came_whole(const struct trial *t, uint32_t from, int round)
{
    struct shape s = shape_put(&t->rooms[t->w->rank], round, t->heard[round]);
    bool all = true;
    windows_sync(t->v);
    for (uint32_t g = 0; g < s.pieces && all; g++)
        all = is_there(t->v->segment + s.offset + g * s.step, from, (uint32_t)(g * s.step), bytes_of(&s, g));
    return all;
}

/*
 * Puts, and tells so as soon as the request is complete: also where nothing was put, since the other rank waits for it.
 * Looks at what is put here as soon as its rank tells so. After an error requests may be open: the trial must stay.
 */
static int try_put(struct trial *t, const struct quirks *q, int round, bool *whole)
{
    uint32_t to = rank_beside(t->w, round, 1), from = rank_beside(t->w, round, -1);
    struct shape s = shape_put(&t->rooms[to], round, q->put_is_remote ? pieces_put(q, round) : 0);
    MPI_Request request = MPI_REQUEST_NULL, telling = MPI_REQUEST_NULL, hearing = MPI_REQUEST_NULL;
    bool is_told = !is_far(t->w, to), is_heard = !is_far(t->w, from);
    struct deadline deadline = deadline_for(t->w);
    int error = 0, rc = MPI_SUCCESS;
    if (!is_heard)
        rc = MPI_Irecv(&t->heard[round], 1, MPI_UINT32_T, (int)from, TAG_PUT, t->w->comm, &hearing);
    if (!is_told)
        error = move(t, true, to, &s, &request);
    for (unsigned polls = 0; rc == MPI_SUCCESS; polls++) {
        int is_done = 0, is_sent = 0, has_come = 0;
        if (error == 0)
            error = test(&request, &is_done);
        if (!is_told && (is_done || error)) {
            t->told[round] = error ? 0 : s.pieces;
            rc = MPI_Isend(&t->told[round], 1, MPI_UINT32_T, (int)to, TAG_PUT, t->w->comm, &telling);
            is_told = true;
        }
        if (rc == MPI_SUCCESS)
            rc = MPI_Test(&telling, &is_sent, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS)
            rc = MPI_Test(&hearing, &has_come, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && has_come && !is_heard) {
            is_heard = true;
            *whole = came_whole(t, from, round) && *whole;
        }
        if (is_told && is_sent && is_heard)
            return error;
        if (deadline_is_past(&deadline, clock_now_ns()))
            return error_set(BATON_ETIMEDOUT,
                             "a one-sided write to rank %" PRIu32 " or from %" PRIu32 " did not complete", to, from);
        steps_pause(polls);
    }
    return mpi_error_set(BATON_EMPI, "a message of the self-test", rc);
}

static int flush_all(const struct trial *t)
{
    struct watchdog dog;
    steps_watch(&t->w->steps, &dog, "complete the self-test's puts");
    int rc = MPI_Win_flush_all(t->v->overlay);
    watchdog_stop(&dog);
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "MPI_Win_flush_all", rc);
}

/* As test_gets, for remote completion. Afterwards nothing is on its way into any room. */
static int test_puts(struct trial *t, const struct quirks *q, bool *whole)
{
    bool mine = true;
    int local = 0;
    poison_room(t); /* nobody reads it any more: all agreed after their reads */
    int error = steps_agree(&t->w->steps, "memory to put into", 0);
    if (error)
        return error;
    for (int round = 0; round < PUT_ROUNDS && local == 0; round++)
        local = try_put(t, q, round, &mine);
    error = steps_agree(&t->w->steps, "self-test of puts", local);
    if (error == 0)
        error = steps_agree(&t->w->steps, "complete the self-test's puts", flush_all(t));
    return error ? error : steps_unanimous(&t->w->steps, "remote completion of puts", mine, whole);
}

/* ---- the whole test --------------------------------------------------------------------------------------------- */

/*
 * Lays the pattern into my room, and learns where those of all ranks are. Where caches come late, pools may be in use,
 * and every rank has spare memory.
 */
static int prepare(struct trial *t)
{
    const struct windows *v = t->v;
    const struct room all = v->pool_bytes > 0 && !v->is_pool_used ? (struct room){v->pool_offset, v->pool_bytes}
                                                                  : (struct room){v->spare_offset, v->spare_bytes};
    const struct room mine = {all.offset, all.bytes < ROOM_BYTES ? all.bytes : ROOM_BYTES};
    lay(v->segment + mine.offset, (uint32_t)t->w->rank, 0, mine.bytes, false);
    lay(t->source, (uint32_t)t->w->rank, 0, ROOM_BYTES / PUT_ROUNDS, false);
    windows_sync(t->v);
    int error = steps_allgather(&t->w->steps, "rooms of the self-test", &mine, sizeof mine, t->rooms);
    return t->w->steps.is_lost ? error : steps_agree(&t->w->steps, "rooms of the self-test", error);
}

static void take_back(const struct world *w, struct quirks *q, bool gets, bool puts)
{
    enum log_level level = w->rank == 0 ? LOG_WARN : LOG_DEBUG; /* all ranks found the same: one says it */
    if (q->per_request > 1 && !gets) {
        q->per_request = 1;
        q->put_is_remote = false; /* it rests on the same promise */
        q->why = "the self-test found that a request does not cover the gets before it";
        log_each(w->log, level, "%s: each operation has its own", q->why);
    }
    if (q->put_is_remote && !puts) {
        q->put_is_remote = false;
        q->why = "the self-test found that a put's request does not imply remote completion";
        log_each(w->log, level, "%s: pushes are completed by flushes", q->why);
    }
}

int selftest_run(struct world *w, const struct windows *v, struct quirks *q)
{
    bool gets = false, puts = false;
    if (v->overlay == MPI_WIN_NULL)
        return 0;
    struct trial *t = trial_new(w, v);
    int error = steps_agree(&w->steps, "memory for the self-test",
                            t != NULL ? 0 : error_set(BATON_ENOMEM, "no memory for the self-test"));
    if (error) {
        if (!w->steps.is_lost)
            free(t);
        return error;
    }
    error = prepare(t);
    if (error == 0)
        error = test_gets(t, q, &gets);
    if (error == 0)
        error = test_puts(t, q, &puts);
    if (error)
        return error; /* requests may be open: their memory is left to MPI */
    memset(v->segment + t->rooms[w->rank].offset, 0, t->rooms[w->rank].bytes);
    windows_sync(v);
    free(t);
    take_back(w, q, gets, puts);
    return 0;
}
