/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: engines of which one rank, the victim, is killed or stopped (by BATON_FAULT in that rank). Every prefill rank
 * offers requests to every decode rank, which wants each of them and looks at every byte. The first requests come at
 * once, the others at a steady pace, so that survivors go on with each other while their calls with the victim wait.
 *
 *   job VICTIM pull|push REQUESTS full|contained killed|stopped|continued ENDED_MS
 *
 * Each call is open, given up or ended, as in baton.h. Blocks are left alone until the terminal event. Then they are
 * overwritten, and looked at again when they are next used, before close, and after close.
 *
 * When every call is answered, a stopped victim is killed or continued; a continued one judges its own calls too. Calls
 * that were given up must end within ENDED_MS after the victim died or was continued (0: at close at the latest).
 *
 * Each rank prints one line to stdout. Its exit status is 0 only if all of this holds: every call was answered in time;
 * no accepted byte was wrong; nothing was written into free blocks; every call that does not involve the victim was
 * done, and none of these was given up; close returned in time. Where the promise is "contained", MPI may be stuck in
 * an operation on the victim: then it is enough that all calls are answered in time, and that the survivors leave.
 */
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "with_clock.h"
#include "with_tune.h"

#define BLOCK_TOKENS 16u
#define LAYERS 2u
#define TOKENS 500u
#define BLOCKS_A_REQUEST ((TOKENS + BLOCK_TOKENS - 1) / BLOCK_TOKENS)
#define SLOTS 4u /* requests under way with one peer */
#define PEERS_MAX 16
#define PACE_MS 400.0  /* between two requests with one peer, after the first SLOTS */
#define CALL_MS 4000.0 /* the deadline of each call */
#define TOLERANCE_MS 500.0
#define GAP_MS 1000.0 /* a rank that did not run for so long was stopped */
#define CANARY_MS 300.0
#define FREE_BYTE 0xa5

enum state { FREE_SLOT, OPEN, GIVEN_UP };

struct slot {
    enum state state;
    uint32_t request, peer; /* peer: the index of the other side's engine */
    uint32_t blocks[BLOCKS_A_REQUEST];
    baton_id_t id;
    double began_ms;
};

static struct {
    baton_t *baton;
    baton_cache_t *cache;
    uint8_t *base; /* of the cache; it stays after a close that met a loss */
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
    baton_open_params_t me;
    int rank, size, victim;
    baton_mode_t mode;
    uint32_t peers, requests; /* engines of the other side; requests with each */
    struct slot slots[PEERS_MAX * SLOTS];
    uint32_t next[PEERS_MAX], open, held; /* held: given up, but not ended */
    uint32_t done, failed, expired, given_up, wrong, late, lost_good;
    bool broken[PEERS_MAX];                          /* a call with that peer failed: no new one begins */
    double started_ms, seen_ms, resumed_ms, held_ms; /* resumed: this rank was stopped until then; 0: never */
    double quiet_ms, peer_ms, ended_ms;
    bool contained, stalled; /* contained: see above; stalled: the reactor is stuck, and no call can begin */
} job;

static bool produces(void)
{
    return job.me.role == BATON_ROLE_PREFILL;
}

/* The world rank of engine `peer` of the other side; engines have one rank each, prefill engines first. */
static int rank_of(uint32_t peer)
{
    int producers = produces() ? job.size - (int)job.peers : (int)job.peers;
    return produces() ? producers + (int)peer : (int)peer;
}

/* A time as the library reads it: the environment's, or its default. */
static double ms_of(const char *text, double preset)
{
    return text != NULL ? atof(text) : preset;
}

static bool touches_victim(uint32_t peer)
{
    return job.rank == job.victim || rank_of(peer) == job.victim;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint8_t pattern(uint32_t producer, uint32_t consumer, uint32_t request, uint32_t layer, uint32_t token,
                       uint32_t byte)
{
    uint32_t h = (producer * 131 + consumer * 17 + request) * 2654435761u ^ (layer * 7919 + token * 257 + byte * 3);
    return (uint8_t)(h >> 11 ^ h >> 19);
}

enum what { FILL, CHECK, FREE, CHECK_FREE };

/* Goes over every byte of a slot's blocks. Returns how many are not as they must be. */
static uint32_t walk(const struct slot *s, enum what what)
{
    uint32_t bad = 0, mine = (uint32_t)job.rank, other = (uint32_t)rank_of(s->peer);
    uint32_t token_bytes = job.geometry.head_size * job.geometry.elem_bytes;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t t = 0; t < BLOCKS_A_REQUEST * BLOCK_TOKENS; t++) {
                const baton_tensor_t *x = &job.tensors[l];
                uint8_t *at = job.base + x->offset + (int64_t)s->blocks[t / BLOCK_TOKENS] * x->stride.block +
                              p * x->stride.plane + t % BLOCK_TOKENS * x->stride.token;
                for (uint32_t i = 0; i < token_bytes; i++) {
                    uint8_t right = produces() ? pattern(mine, other, s->request, l * 2 + p, t, i)
                                               : pattern(other, mine, s->request, l * 2 + p, t, i);
                    if (what == FILL)
                        at[i] = right;
                    else if (what == FREE)
                        at[i] = FREE_BYTE;
                    else if (what == CHECK)
                        bad += at[i] != (t < TOKENS ? right : FREE_BYTE);
                    else
                        bad += at[i] != FREE_BYTE;
                }
            }
    return bad;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void look_for_canary(struct slot *s)
{
    uint32_t bad = s->state == FREE_SLOT ? walk(s, CHECK_FREE) : 0;
    if (bad == 0)
        return;
    fprintf(stderr, "rank %d: %u bytes were written into free blocks\n", job.rank, bad);
    job.wrong++;
    walk(s, FREE);
}

static void look_for_canaries(void)
{
    for (uint32_t i = 0; i < job.peers * SLOTS; i++)
        look_for_canary(&job.slots[i]);
}

static void begin(struct slot *s)
{
    char key[BATON_KEY_MAX], engine[BATON_ENGINE_NAME_MAX];
    uint32_t p = produces() ? (uint32_t)job.rank : s->peer, d = produces() ? s->peer : (uint32_t)job.rank - job.peers;
    int rc;
    look_for_canary(s);
    s->request = job.next[s->peer]++;
    s->state = OPEN;
    s->began_ms = now_ms();
    snprintf(key, sizeof key, "r%u.p%u.d%u", s->request, p, d);
    snprintf(engine, sizeof engine, "prefill%u", p);
    if (produces()) {
        walk(s, FILL);
        rc = baton_offer(job.baton,
                         &(baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                                 .key = key,
                                                 .num_tables = 1,
                                                 .tables = {{.blocks = s->blocks, .num_blocks = BLOCKS_A_REQUEST}},
                                                 .num_tokens = TOKENS,
                                                 .ttl_ms = (uint32_t)CALL_MS,
                                                 .user = s},
                         &s->id);
    } else {
        rc = baton_want(job.baton,
                        &(baton_want_params_t){.size = sizeof(baton_want_params_t),
                                               .key = key,
                                               .engine = engine,
                                               .num_tables = 1,
                                               .tables = {{.blocks = s->blocks, .num_blocks = BLOCKS_A_REQUEST}},
                                               .num_tokens = TOKENS,
                                               .timeout_ms = (uint32_t)CALL_MS,
                                               .mode = job.mode,
                                               .user = s},
                        &s->id);
    }
    if (rc == BATON_ESTALL && job.contained) {
        s->state = FREE_SLOT;
        walk(s, FREE);
        job.stalled = true;
        return;
    }
    check(job.rank, rc, "begin");
    job.open++;
}

/* The first event of a call: checks whether it came in time and says what it must. */
static void answered(struct slot *s, const baton_event_t *e)
{
    /*
     * An offer's deadline is that of the last want that it granted, and that want may have come at the end of the
     * offer's time to live. A rank that was stopped could not answer before it ran again.
     */
    double limit = s->began_ms + (produces() ? 2 * CALL_MS : CALL_MS);
    if (limit < job.resumed_ms)
        limit = job.resumed_ms;
    limit += job.quiet_ms + TOLERANCE_MS;
    if (now_ms() > limit) {
        fprintf(stderr, "rank %d: %s was answered after %.0f ms, %.0f too late: %s\n", job.rank, e->key,
                now_ms() - s->began_ms, now_ms() - limit, e->detail);
        job.late++;
    }
    job.open--;
    job.done += e->status == BATON_STATUS_DONE;
    job.failed += e->status == BATON_STATUS_FAILED || e->status == BATON_STATUS_CANCELLED;
    job.expired += e->status == BATON_STATUS_EXPIRED;
    job.broken[s->peer] |= e->status != BATON_STATUS_DONE;
    job.stalled |= e->error == BATON_ESTALL;
    if (e->status != BATON_STATUS_DONE && !touches_victim(s->peer) && !job.contained) {
        fprintf(stderr, "rank %d: %s with rank %d ended as %s: %s\n", job.rank, e->key, rank_of(s->peer),
                baton_errname(e->error), e->detail);
        job.lost_good++;
    }
}

static void take(const baton_event_t *e)
{
    struct slot *s = e->user;
    bool gives_up = e->type == BATON_EVENT_GIVEN_UP;
    if (s->state == FREE_SLOT || (s->state == GIVEN_UP) != (e->given_up != 0 && !gives_up) || s->id != e->id ||
        (s->state == GIVEN_UP && e->status == BATON_STATUS_DONE)) {
        fprintf(stderr, "rank %d: an event of %s out of turn\n", job.rank, e->key);
        job.wrong++;
        return;
    }
    if (s->state == OPEN)
        answered(s, e);
    else
        job.held--;
    if (gives_up) {
        s->state = GIVEN_UP;
        job.held++;
        job.given_up++;
        return; /* its blocks are not ours yet */
    }
    if (e->status == BATON_STATUS_DONE && !produces()) {
        uint32_t bad = walk(s, CHECK);
        if (bad > 0)
            fprintf(stderr, "rank %d: %u bytes of %s are wrong, and it is done\n", job.rank, bad, e->key);
        job.wrong += bad > 0;
    }
    s->state = FREE_SLOT;
    walk(s, FREE);
}

/* The victim learns from the clock that it was stopped. */
static void notice_a_stop(void)
{
    double now = now_ms();
    if (job.rank == job.victim && now > job.seen_ms + GAP_MS)
        job.resumed_ms = now;
    job.seen_ms = now;
}

/* Waits up to `ms` for events, and takes them. */
static void turn(int ms)
{
    struct pollfd fd = {.fd = baton_event_fd(job.baton), .events = POLLIN};
    baton_event_t events[16];
    poll(&fd, 1, ms);
    notice_a_stop();
    int n = baton_poll(job.baton, events, 16);
    for (int i = 0; i < n; i++)
        take(&events[i]);
    notice_a_stop();
}

static bool more(void)
{
    bool left = false;
    for (uint32_t i = 0; i < job.peers * SLOTS && !job.stalled && job.resumed_ms == 0; i++) {
        struct slot *s = &job.slots[i];
        uint32_t next = job.next[s->peer];
        if (job.broken[s->peer] || next >= job.requests)
            continue;
        left = true;
        if (s->state == FREE_SLOT && (next < SLOTS || now_ms() > job.started_ms + (next - SLOTS + 1) * PACE_MS))
            begin(s);
    }
    return left || job.open > 0;
}

static void run(void)
{
    job.started_ms = job.seen_ms = now_ms();
    while (more())
        turn(20);
}

/* At `cause` the victim died or was continued: from then on calls that were given up must end in time. */
static void wait_for_the_held(double cause)
{
    double bound = job.ended_ms > 0 ? job.ended_ms : job.peer_ms;
    while (job.held > 0 && now_ms() < cause + bound)
        turn(20);
    job.held_ms = job.given_up > 0 ? now_ms() - cause : 0;
    if (job.held > 0 && job.ended_ms > 0) {
        fprintf(stderr, "rank %d: %u calls that were given up did not end within %.0f ms\n", job.rank, job.held,
                job.ended_ms);
        job.late += job.held;
    }
    for (double until = now_ms() + CANARY_MS; now_ms() < until;)
        turn(20);
    look_for_canaries();
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void open_all(void)
{
    uint32_t per_peer = SLOTS * BLOCKS_A_REQUEST;
    job.geometry = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                                      .model = "fault",
                                      .dtype = "bf16",
                                      .elem_bytes = 2,
                                      .planes = 2,
                                      .head_size = 64,
                                      .num_groups = 1,
                                      .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = job.peers * per_peer}},
                                      .num_splits = 1,
                                      .splits = {{.heads_total = 1, .head_count = 1}},
                                      .layers_total = LAYERS,
                                      .layer_count = LAYERS};
    check(job.rank, baton_geometry_layout(&job.geometry, job.tensors, 0), "layout");
    check(job.rank, baton_open(MPI_COMM_WORLD, &job.me, &job.baton), "open");
    check(job.rank, baton_cache_create(job.baton, &job.geometry, BATON_MEMORY_HOST, &job.cache), "cache");
    check(job.rank, baton_start(job.baton), "start");
    job.base = baton_cache_base(job.cache);
    memset(job.base, FREE_BYTE, job.geometry.bytes);
    for (uint32_t i = 0; i < job.peers * SLOTS; i++) {
        job.slots[i].peer = i / SLOTS;
        for (uint32_t b = 0; b < BLOCKS_A_REQUEST; b++)
            job.slots[i].blocks[b] = (b * job.peers * SLOTS + i) % job.geometry.groups[0].num_blocks;
    }
}

/*
 * Survivors meet, by plain messages, when their calls are answered. Then the leader kills or continues the victim;
 * returns when.
 */
static double meet(int victim_pid, const char *fault)
{
    int leader = job.victim == 0 ? 1 : 0, token = 0;
    double when;
    if (job.rank != leader) {
        MPI_Send(&token, 1, MPI_INT, leader, 77, MPI_COMM_WORLD);
        MPI_Recv(&when, 1, MPI_DOUBLE, leader, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return when;
    }
    for (int r = 0; r < job.size; r++)
        if (r != leader && r != job.victim)
            MPI_Recv(&token, 1, MPI_INT, r, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    when = now_ms();
    kill(victim_pid, strcmp(fault, "continued") == 0 ? SIGCONT : SIGKILL);
    for (int r = 0; r < job.size; r++)
        if (r != leader && r != job.victim)
            MPI_Send(&when, 1, MPI_DOUBLE, r, 78, MPI_COMM_WORLD);
    return when;
}

int main(int argc, char **argv)
{
    int level, pids[2 * PEERS_MAX], pid = (int)getpid();
    if (argc != 7)
        return 2;
    job.contained = strcmp(argv[4], "contained") == 0;
    job.ended_ms = atof(argv[6]);
    job.quiet_ms = ms_of(tuned("quiet_ms"), 1000);
    job.peer_ms = ms_of(getenv("BATON_PEER_MS"), 5000);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    job.victim = atoi(argv[1]);
    job.mode = strcmp(argv[2], "push") == 0 ? BATON_MODE_PUSH : BATON_MODE_PULL;
    job.requests = (uint32_t)atoi(argv[3]);
    job.peers = (uint32_t)job.size / 2;
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    job.me = BATON_INIT(baton_open_params_t);
    check(job.rank, baton_role_from_env(&job.me), "role");
    open_all();
    run();
    if (job.rank == job.victim && job.resumed_ms == 0) { /* the fault did not happen: nothing was tested */
        fprintf(stderr, "rank %d: the victim came to its end\n", job.rank);
        baton_exit(4);
    }
    wait_for_the_held(job.rank == job.victim ? job.resumed_ms : meet(pids[job.victim], argv[5]));

    uint32_t held = job.held;
    double before = now_ms(), close_ms;
    int closed = baton_close(job.baton);
    close_ms = now_ms() - before;
    if (closed == BATON_EPEER) /* then no window was freed, and the blocks are still there */
        look_for_canaries();
    bool slow = close_ms > job.peer_ms + 5000 && !job.contained, badly = closed != BATON_EPEER && closed != 0;
    if (slow || badly)
        fprintf(stderr, "rank %d: close after %.0f ms: %s\n", job.rank, close_ms, badly ? baton_errmsg() : "slow");
    char line[512]; /* written at once: launchers mix what ranks write in pieces */
    snprintf(line, sizeof line,
             "rank %d: %u done, %u failed, %u expired, %u given up; %u wrong, %u late, %u lost without need, %s close; "
             "ended %.0f ms later but for %u, closed in %.0f ms%s\n",
             job.rank, job.done, job.failed, job.expired, job.given_up, job.wrong, job.late, job.lost_good,
             slow    ? "slow"
             : badly ? "bad"
                     : "good",
             job.held_ms, held, close_ms, job.stalled ? "; stuck" : "");
    fputs(line, stdout);
    fflush(stdout);
    baton_exit(job.wrong > 0 || job.late > 0 || job.lost_good > 0 || slow || badly);
}
