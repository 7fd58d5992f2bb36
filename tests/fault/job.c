/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: an engine in whose world one rank is killed or stopped (by BATON_FAULT in that rank). Every prefill rank offers
 * to every decode rank, which wants each request and looks at every byte of it. Blocks are overwritten the moment that
 * their event says they are free, and looked at again when they are taken next.
 *
 *   job VICTIM pull|push REQUESTS full|contained|released
 *
 * Each surviving rank prints one line to stdout, and its exit status is 0 only if every call ended in time, no accepted
 * byte was wrong, nothing was written into free blocks, and, where the promise is "full", what touches no victim was
 * all done. Where it is "contained", MPI may be stuck in an operation on the victim: then it is enough that all is told.
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

#define BLOCK_TOKENS 16u
#define LAYERS 2u
#define TOKENS 500u
#define BLOCKS_A_REQUEST ((TOKENS + BLOCK_TOKENS - 1) / BLOCK_TOKENS)
#define SLOTS 4u /* requests under way with one peer */
#define PEERS_MAX 16
#define WANT_MS 900u
#define TTL_MS 900u
#define LATE_MS 1000.0
#define FREE_BYTE 0xa5

struct slot {
    bool busy, quarantined;
    uint32_t request, peer; /* peer: the index of the other side's engine */
    uint32_t blocks[BLOCKS_A_REQUEST];
    baton_id_t id;
    double began_ms;
};

static struct {
    baton_t *baton;
    baton_cache_t *cache;
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
    baton_open_params_t me;
    int rank, size, victim;
    baton_mode_t mode;
    uint32_t peers, requests; /* engines of the other side; requests with each */
    struct slot slots[PEERS_MAX * SLOTS];
    uint32_t next[PEERS_MAX], open;
    uint32_t done, failed, expired, wrong, late, lost_good;
    bool releases;           /* what the victim held must be released: its process is gone, and that is known here */
    bool contained, stalled; /* what is promised; the reactor is stuck: nothing new can begin */
} job;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", job.rank, what, baton_errmsg());
    exit(3);
}

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
                uint8_t *at = (uint8_t *)baton_cache_base(job.cache) + x->offset +
                              (int64_t)s->blocks[t / BLOCK_TOKENS] * x->stride.block + p * x->stride.plane +
                              t % BLOCK_TOKENS * x->stride.token;
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

static void begin(struct slot *s)
{
    char key[BATON_KEY_MAX], engine[BATON_ENGINE_NAME_MAX];
    uint32_t p = produces() ? (uint32_t)job.rank : s->peer, d = produces() ? s->peer : (uint32_t)job.rank - job.peers;
    uint32_t before = walk(s, CHECK_FREE);
    int rc;
    if (before > 0) {
        fprintf(stderr, "rank %d: %u bytes were written into free blocks\n", job.rank, before);
        job.wrong++;
        walk(s, FREE);
    }
    s->request = job.next[s->peer]++;
    s->busy = true;
    s->began_ms = now_ms();
    snprintf(key, sizeof key, "r%u.p%u.d%u", s->request, p, d);
    snprintf(engine, sizeof engine, "prefill%u", p);
    if (produces()) {
        walk(s, FILL);
        rc = baton_offer(job.baton,
                         &(baton_offer_params_t){.key = key,
                                                 .blocks = s->blocks,
                                                 .num_blocks = BLOCKS_A_REQUEST,
                                                 .num_tokens = TOKENS,
                                                 .ttl_ms = TTL_MS,
                                                 .user = s},
                         NULL, &s->id);
    } else {
        rc = baton_want(job.baton,
                        &(baton_want_params_t){.key = key,
                                               .engine = engine,
                                               .blocks = s->blocks,
                                               .num_blocks = BLOCKS_A_REQUEST,
                                               .num_tokens = TOKENS,
                                               .timeout_ms = WANT_MS,
                                               .mode = job.mode,
                                               .user = s},
                        &s->id);
    }
    if (rc == BATON_ESTALL && job.contained) {
        s->busy = false;
        job.stalled = true;
        return;
    }
    check(rc, "begin");
    job.open++;
}

static void ended(struct slot *s, const baton_event_t *e)
{
    double took = now_ms() - s->began_ms;
    bool good = e->status == BATON_STATUS_DONE;
    if (good && !produces()) {
        uint32_t bad = walk(s, CHECK);
        if (bad > 0)
            fprintf(stderr, "rank %d: %u bytes of %s are wrong, and it is done\n", job.rank, bad, e->key);
        job.wrong += bad > 0;
    }
    job.done += good;
    job.failed += e->status == BATON_STATUS_FAILED || e->status == BATON_STATUS_CANCELLED;
    job.expired += e->status == BATON_STATUS_EXPIRED;
    if (took > (produces() ? 2 * TTL_MS : WANT_MS) + LATE_MS) {
        fprintf(stderr, "rank %d: %s ended after %.0f ms\n", job.rank, e->key, took);
        job.late++;
    }
    job.stalled |= e->error == BATON_ESTALL;
    if (!good && !touches_victim(s->peer) && !job.contained) {
        fprintf(stderr, "rank %d: %s with rank %d ended as %s: %s\n", job.rank, e->key, rank_of(s->peer),
                baton_errname(e->error), e->detail);
        job.lost_good++;
    }
    s->quarantined = e->quarantined != 0;
}

static void take(const baton_event_t *e)
{
    struct slot *s = e->user;
    if (e->type != BATON_EVENT_QUIET) {
        ended(s, e);
        job.open--;
    }
    if (e->type != BATON_EVENT_QUIET && s->quarantined)
        return; /* its blocks are not ours again: another slot's turn */
    s->busy = s->quarantined = false;
    walk(s, FREE);
}

static bool more(void)
{
    bool left = false;
    for (uint32_t i = 0; i < job.peers * SLOTS && !job.stalled; i++) {
        struct slot *s = &job.slots[i];
        if (!s->busy && job.next[s->peer] < job.requests)
            begin(s);
        left |= job.next[s->peer] < job.requests && !s->quarantined;
    }
    return left || job.open > 0;
}

static void run(void)
{
    struct pollfd fd = {.fd = baton_event_fd(job.baton), .events = POLLIN};
    while (more()) {
        baton_event_t events[16];
        poll(&fd, 1, 50);
        int n = baton_poll(job.baton, events, 16);
        for (int i = 0; i < n; i++)
            take(&events[i]);
    }
}

/* Blocks in quarantine whose peer is known to be gone come back within a while. */
static uint32_t left_in_quarantine(void)
{
    struct pollfd fd = {.fd = baton_event_fd(job.baton), .events = POLLIN};
    uint32_t held = 1;
    for (double until = now_ms() + 2000; held > 0 && now_ms() < until;) {
        baton_event_t events[16];
        poll(&fd, 1, 20);
        int n = baton_poll(job.baton, events, 16);
        for (int i = 0; i < n; i++)
            take(&events[i]);
        held = 0;
        for (uint32_t i = 0; i < job.peers * SLOTS; i++)
            held += job.slots[i].quarantined;
    }
    return held;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void open_all(void)
{
    uint32_t per_peer = SLOTS * BLOCKS_A_REQUEST;
    job.geometry = (baton_geometry_t){.model = "fault",
                                      .dtype = "bf16",
                                      .elem_bytes = 2,
                                      .planes = 2,
                                      .block_tokens = BLOCK_TOKENS,
                                      .head_size = 64,
                                      .num_blocks = job.peers * per_peer,
                                      .heads_total = 1,
                                      .head_count = 1,
                                      .layers_total = LAYERS,
                                      .layer_count = LAYERS};
    check(baton_geometry_layout(&job.geometry, job.tensors, 0), "layout");
    check(baton_open(MPI_COMM_WORLD, &job.me, &job.baton), "open");
    check(baton_cache_create(job.baton, &job.geometry, BATON_MEMORY_HOST, &job.cache), "cache");
    check(baton_start(job.baton), "start");
    memset(baton_cache_base(job.cache), FREE_BYTE, job.geometry.bytes);
    for (uint32_t i = 0; i < job.peers * SLOTS; i++) {
        job.slots[i].peer = i / SLOTS;
        for (uint32_t b = 0; b < BLOCKS_A_REQUEST; b++)
            job.slots[i].blocks[b] = (b * job.peers * SLOTS + i) % job.geometry.num_blocks;
    }
}

/* Survivors meet by plain messages, so that none that is done counts as silent; then a stopped victim is ended. */
static void meet(int victim_pid)
{
    int leader = job.victim == 0 ? 1 : 0, token = 0;
    if (job.rank != leader) {
        MPI_Send(&token, 1, MPI_INT, leader, 77, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, leader, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (int r = 0; r < job.size; r++)
        if (r != leader && r != job.victim)
            MPI_Recv(&token, 1, MPI_INT, r, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    kill(victim_pid, SIGKILL);
    for (int r = 0; r < job.size; r++)
        if (r != leader && r != job.victim)
            MPI_Send(&token, 1, MPI_INT, r, 78, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int level, pids[2 * PEERS_MAX], pid = (int)getpid();
    if (argc != 5)
        return 2;
    job.contained = strcmp(argv[4], "contained") == 0;
    job.releases = strcmp(argv[4], "released") == 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    job.victim = atoi(argv[1]);
    job.mode = strcmp(argv[2], "push") == 0 ? BATON_MODE_PUSH : BATON_MODE_PULL;
    job.requests = (uint32_t)atoi(argv[3]);
    job.peers = (uint32_t)job.size / 2;
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    check(baton_role_from_env(&job.me), "role");
    open_all();
    run();
    if (job.rank == job.victim) { /* the fault did not come: nothing was tried */
        fprintf(stderr, "rank %d: the victim came to its end\n", job.rank);
        baton_exit(4);
    }
    uint32_t held = job.releases ? left_in_quarantine() : 0;
    if (held > 0)
        fprintf(stderr, "rank %d: %u slots stay in quarantine\n", job.rank, held);
    job.lost_good += held;
    baton_stats_t stats;
    baton_stats(job.baton, &stats);
    printf("rank %d: %u done, %u failed, %u expired; %u wrong, %u late, %u lost without need; %u lost peers%s\n",
           job.rank, job.done, job.failed, job.expired, job.wrong, job.late, job.lost_good, (unsigned)stats.peers_lost,
           job.stalled ? "; stuck" : "");
    fflush(stdout);
    meet(pids[job.victim]);
    int closed = baton_close(job.baton);
    if (closed != BATON_EPEER && closed != 0)
        fprintf(stderr, "rank %d: close: %s\n", job.rank, baton_errmsg());
    baton_exit(job.wrong > 0 || job.late > 0 || job.lost_good > 0 || closed != BATON_EPEER);
}
