/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: traffic at a fixed rate, whether or not it gets through. Every prefill rank offers to every decode rank, and
 * each such pair has RATE requests a second of 1 MiB, none of which waits for an earlier one. Each engine has one rank.
 *
 *   lab_job pull|push RATE SECONDS FOLDER AFFECTED [careless]
 *
 * All ranks and the script that drives them share FOLDER. A rank that is ready writes its process id into
 * FOLDER/ready.RANK and waits for FOLDER/go. It makes calls for SECONDS, waits until each is answered or certainly
 * late, and makes FOLDER/finished.RANK. It closes once all ranks but the affected ones have finished. The script
 * touches FOLDER/mark after the last thing that it does to the world: pauses count from then on.
 *
 * AFFECTED is a list of ranks such as "1,2", or "-". Calls between one of these ranks and one of the others may fail.
 * No other call may; those that fail nevertheless are counted as needless.
 *
 * Each rank prints a line of counts before it closes, and one with the times of its close afterwards. The answer to a
 * call is its terminal event, or GIVEN_UP where that comes first. From the terminal event on, blocks hold a pattern,
 * which is checked when they are next used, and at the end. With "careless", blocks are reused at GIVEN_UP already:
 * that shows that the pattern finds what is written late.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"

#define BLOCK_TOKENS 16u
#define LAYERS 2u
#define PLANES 2u
#define HEADS 8u
#define HEAD_SIZE 128u
#define ELEMENT_BYTES 2u
#define BLOCKS 8u /* of a request: 1 MiB */
#define TOKENS (BLOCKS * BLOCK_TOKENS)
#define BLOCK_WORDS (BLOCK_TOKENS * HEADS * HEAD_SIZE * ELEMENT_BYTES / 8)
#define PEERS_MAX 8u
#define SLOTS 96u /* calls of one pair under way, and free blocks whose pattern is checked */
#define RANKS_MAX (2 * PEERS_MAX)
#define CALL_MS 4000u
#define QUIET_MS 1000.0     /* the default of quiet_ms */
#define SCHEDULING_MS 500.0 /* what a busy machine may add */
#define RETURN_MS 6000.0    /* within which calls that were given up must end: BATON_PEER_MS and a second */
#define MEETING_MS 15000.0  /* how long a rank that finished waits for the others */
#define FREE_WORD UINT64_C(0xa5a5a5a5a5a5a5a5)
#define REASONS BATON_REASONS

enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_GIVEN_UP };

struct slot {
    enum slot_state state;
    bool late; /* counted as late already */
    uint32_t peer, request, blocks[BLOCKS];
    uint64_t freed; /* when it became free, as a number: the slot that has been free longest is used next */
    baton_id_t id;
    double began_ms;
};

struct pair {
    uint32_t next;     /* request */
    double flowed_ms;  /* when a request was last done */
    double longest_ms; /* pause since the mark */
    struct slot slots[SLOTS];
};

static struct {
    baton_t *baton;
    baton_cache_t *cache;
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
    baton_open_params_t me;
    baton_mode_t mode;
    const char *folder;
    double rate, start_ms, seconds;
    uint32_t rank, size, producers, peers; /* peers: engines of the other side */
    bool affected[RANKS_MAX], careless;
    struct pair pairs[PEERS_MAX];
    uint64_t freed;
    uint32_t open, held; /* calls without an answer; calls given up that have not ended */
    uint32_t calls, refused, skipped, done, failed, given_up, late, unanswered, wrong, touched, astray, needless;
    uint32_t reasons[REASONS];
    double slowest_ms, turn_ms; /* the slowest answer; the longest turn of the loop */
} job;

/* By the real-time clock, which files' times have too. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "lab: rank %u: %s: %s: %s\n", job.rank, what, baton_errname(rc), baton_errmsg());
    exit(3);
}

static bool produces(void)
{
    return job.me.role == BATON_ROLE_PREFILL;
}

static uint32_t rank_of(uint32_t peer)
{
    return produces() ? job.producers + peer : peer;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* When the file was last touched; 0: it is not there. */
static double touched_ms(const char *name, uint32_t rank)
{
    char path[512];
    struct stat s;
    snprintf(path, sizeof path, rank == UINT32_MAX ? "%s/%s" : "%s/%s.%u", job.folder, name, rank);
    return stat(path, &s) == 0 ? (double)s.st_mtim.tv_sec * 1e3 + (double)s.st_mtim.tv_nsec / 1e6 : 0;
}

static void put_down(const char *name)
{
    char part[512], path[512];
    snprintf(part, sizeof part, "%s/.%s.%u", job.folder, name, job.rank);
    snprintf(path, sizeof path, "%s/%s.%u", job.folder, name, job.rank);
    FILE *file = fopen(part, "w");
    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 || rename(part, path) != 0) {
        perror(path);
        exit(3);
    }
}

static bool all_finished(void)
{
    for (uint32_t r = 0; r < job.size; r++)
        if (!job.affected[r] && touched_ms("finished", r) == 0)
            return false;
    return true;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

enum what { FILL, CHECK, FREE, CHECK_FREE };

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* Goes over every word of a slot's blocks. Returns how many are not as they must be. */
static uint32_t walk(const struct slot *s, enum what what)
{
    uint64_t producer = produces() ? job.rank : rank_of(s->peer), consumer = produces() ? rank_of(s->peer) : job.rank;
    uint32_t bad = 0;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t p = 0; p < PLANES; p++)
            for (uint32_t b = 0; b < BLOCKS; b++) {
                const baton_tensor_t *x = &job.tensors[l];
                uint64_t *at = (uint64_t *)((uint8_t *)baton_cache_base(job.cache) + x->offset +
                                            (int64_t)s->blocks[b] * x->stride.block + p * x->stride.plane);
                uint64_t seed =
                    mix(producer << 56 | consumer << 48 | (uint64_t)s->request << 16 | l << 12 | p << 8 | b);
                for (uint64_t i = 0; i < BLOCK_WORDS; i++) {
                    uint64_t right =
                        what == FILL || what == CHECK ? seed + i * UINT64_C(0x9e3779b97f4a7c15) : FREE_WORD;
                    if (what == FILL || what == FREE)
                        at[i] = right;
                    else
                        bad += at[i] != right;
                }
            }
    return bad;
}

static void look_at_free(struct slot *s)
{
    uint32_t bad = walk(s, CHECK_FREE);
    if (bad == 0)
        return;
    fprintf(stderr, "lab: rank %u: %u words were written into free blocks, last used for request %u with rank %u\n",
            job.rank, bad, s->request, rank_of(s->peer));
    job.touched++;
    walk(s, FREE);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/*
 * The longest time to an answer. An offer may grant a want at the end of its time to live: then it has a want's time
 * more.
 */
static double bound_ms(void)
{
    return (produces() ? 2 : 1) * (double)CALL_MS + QUIET_MS + SCHEDULING_MS;
}

static struct slot *free_slot(struct pair *pair)
{
    struct slot *best = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *s = &pair->slots[i];
        if (s->state == SLOT_FREE && (best == NULL || s->freed < best->freed))
            best = s;
    }
    return best;
}

static int call(struct slot *s)
{
    char key[BATON_KEY_MAX], engine[BATON_ENGINE_NAME_MAX];
    uint32_t producer = produces() ? job.rank : s->peer, consumer = produces() ? rank_of(s->peer) : job.rank;
    snprintf(key, sizeof key, "%u to %u: %u", producer, consumer, s->request);
    snprintf(engine, sizeof engine, "prefill%u", producer);
    if (produces())
        return baton_offer(job.baton,
                           &(baton_offer_params_t){.size = sizeof(baton_offer_params_t),
                                                   .key = key,
                                                   .num_tables = 1,
                                                   .tables = {{.blocks = s->blocks, .num_blocks = BLOCKS}},
                                                   .num_tokens = TOKENS,
                                                   .ttl_ms = CALL_MS,
                                                   .user = s},
                           &s->id);
    return baton_want(job.baton,
                      &(baton_want_params_t){.size = sizeof(baton_want_params_t),
                                             .key = key,
                                             .engine = engine,
                                             .num_tables = 1,
                                             .tables = {{.blocks = s->blocks, .num_blocks = BLOCKS}},
                                             .num_tokens = TOKENS,
                                             .timeout_ms = CALL_MS,
                                             .mode = job.mode,
                                             .user = s},
                      &s->id);
}

static void begin(struct pair *pair, uint32_t peer)
{
    struct slot *s = free_slot(pair);
    uint32_t request = pair->next++;
    if (s == NULL) {
        job.skipped++;
        return;
    }
    look_at_free(s);
    s->request = request;
    s->peer = peer;
    if (produces())
        walk(s, FILL);
    s->began_ms = now_ms();
    int rc = call(s);
    if (rc != 0) {
        if (job.refused++ == 0)
            fprintf(stderr, "lab: rank %u: refused: %s: %s\n", job.rank, baton_errname(rc), baton_errmsg());
        walk(s, FREE);
        return;
    }
    s->state = SLOT_OPEN;
    s->late = false;
    job.calls++;
    job.open++;
}

static void hand_back(struct slot *s)
{
    job.held -= s->state == SLOT_GIVEN_UP;
    s->state = SLOT_FREE;
    s->freed = ++job.freed;
    walk(s, FREE);
}

static void note_late(struct slot *s, double took_ms)
{
    if (s->late)
        return;
    s->late = true;
    if (job.late++ < 3)
        fprintf(stderr, "lab: rank %u: request %u with rank %u has no answer after %.0f ms\n", job.rank, s->request,
                rank_of(s->peer), took_ms);
}

/* A pair's pause ends when a request is done, or with the last call. Only the time after the mark counts. */
static void end_pause(struct pair *pair, double now)
{
    double mark = touched_ms("mark", UINT32_MAX), since = pair->flowed_ms > mark ? pair->flowed_ms : mark;
    double last = job.start_ms + job.seconds * 1e3, until = now < last ? now : last;
    if (mark > 0 && until - since > pair->longest_ms)
        pair->longest_ms = until - since;
    pair->flowed_ms = now;
}

static void failed(struct slot *s, const baton_event_t *e)
{
    uint32_t other = rank_of(s->peer), reason = e->error < 0 && e->error > -REASONS ? (uint32_t)-e->error : 0;
    bool needless = job.affected[job.rank] == job.affected[other];
    job.failed++;
    job.needless += needless;
    if (job.reasons[reason]++ < 2 || (needless && job.needless < 5))
        fprintf(stderr, "lab: rank %u: at %.1f s: request %u with rank %u ended after %.0f ms: %s: %s\n", job.rank,
                (now_ms() - job.start_ms) / 1e3, s->request, other, now_ms() - s->began_ms, baton_errname(e->error),
                e->detail);
}

/* A call's answer: the terminal event, or GIVEN_UP before it. */
static void answered(struct slot *s, const baton_event_t *e)
{
    double now = now_ms(), took = now - s->began_ms;
    job.open--;
    if (took > job.slowest_ms)
        job.slowest_ms = took;
    if (took > bound_ms())
        note_late(s, took);
    if (e->status != BATON_STATUS_DONE) {
        failed(s, e);
        return;
    }
    job.done++;
    end_pause(&job.pairs[s->peer], now);
    uint32_t bad = produces() ? 0 : walk(s, CHECK);
    if (bad > 0)
        fprintf(stderr, "lab: rank %u: %u words of request %u of rank %u are wrong, and it is done\n", job.rank, bad,
                s->request, rank_of(s->peer));
    job.wrong += bad > 0;
}

static bool terminal(const baton_event_t *e)
{
    return e->type == BATON_EVENT_OFFER || e->type == BATON_EVENT_WANT;
}

/* A call is given up once at most, and never as done; its terminal event says that it was given up. */
static bool in_order(const struct slot *s, const baton_event_t *e)
{
    bool given_up = s->state == SLOT_GIVEN_UP;
    if (s->state == SLOT_FREE || s->id != e->id)
        return false;
    if (e->type == BATON_EVENT_GIVEN_UP)
        return !given_up && e->status != BATON_STATUS_DONE;
    return terminal(e) && (e->given_up != 0) == given_up && !(given_up && e->status == BATON_STATUS_DONE);
}

static void take(const baton_event_t *e)
{
    struct slot *s = e->user;
    if (!in_order(s, e)) {
        if (!job.careless && job.astray++ < 3)
            fprintf(stderr, "lab: rank %u: an event that must not be: type %d, status %d of %s\n", job.rank, e->type,
                    e->status, e->key);
        return;
    }
    if (s->state == SLOT_OPEN)
        answered(s, e);
    if (!terminal(e)) {
        job.given_up++;
        job.held++;
        s->state = SLOT_GIVEN_UP;
    }
    if (terminal(e) || job.careless)
        hand_back(s);
}

static void turn(void)
{
    struct pollfd fd = {.fd = baton_event_fd(job.baton), .events = POLLIN};
    baton_event_t events[32];
    poll(&fd, 1, 5);
    double now = now_ms();
    int n = baton_poll(job.baton, events, 32);
    for (int i = 0; i < n; i++)
        take(&events[i]);
    double took = now_ms() - now;
    if (took > job.turn_ms)
        job.turn_ms = took;
}

/* A call that has no answer long after its bound counts as unanswered. */
static bool waits_for_answers(void)
{
    double now = now_ms();
    bool waits = false;
    for (uint32_t p = 0; p < job.peers && job.open > 0; p++)
        for (uint32_t i = 0; i < SLOTS; i++) {
            struct slot *s = &job.pairs[p].slots[i];
            if (s->state != SLOT_OPEN)
                continue;
            double took = now - s->began_ms;
            if (took > bound_ms())
                note_late(s, took);
            waits |= took < bound_ms() + RETURN_MS;
        }
    return waits;
}

static void run(void)
{
    for (double now = job.start_ms; now < job.start_ms + job.seconds * 1e3; now = now_ms()) {
        for (uint32_t p = 0; p < job.peers; p++)
            while (job.pairs[p].next < (now - job.start_ms) / 1e3 * job.rate)
                begin(&job.pairs[p], p);
        turn();
    }
    for (uint32_t p = 0; p < job.peers; p++)
        end_pause(&job.pairs[p], now_ms());
    while (waits_for_answers())
        turn();
    for (double until = now_ms() + RETURN_MS; job.held > 0 && now_ms() < until;)
        turn();
    put_down("finished");
    for (double until = now_ms() + MEETING_MS; !all_finished() && now_ms() < until;)
        turn();
    job.unanswered = job.open;
    for (uint32_t p = 0; p < job.peers; p++)
        for (uint32_t i = 0; i < SLOTS; i++)
            if (job.pairs[p].slots[i].state == SLOT_FREE)
                look_at_free(&job.pairs[p].slots[i]);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void find_place(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *layout = getenv("BATON_LAYOUT");
    uint32_t consumers;
    job.me = BATON_INIT(baton_open_params_t);
    check(baton_role_from_env(&job.me), "role");
    if (rank == NULL || layout == NULL || sscanf(layout, "%ux1x1 %ux1x1", &job.producers, &consumers) != 2 ||
        job.producers > PEERS_MAX || consumers > PEERS_MAX) {
        fputs("lab_job: start it by batonrun, with engines of one rank\n", stderr);
        exit(2);
    }
    job.rank = (uint32_t)strtoul(rank, NULL, 10);
    job.size = job.producers + consumers;
    job.peers = produces() ? consumers : job.producers;
}

static void open_all(void)
{
    check(baton_open(MPI_COMM_NULL, &job.me, &job.baton), "open");
    job.geometry =
        (baton_geometry_t){.size = sizeof(baton_geometry_t),
                           .model = "lab",
                           .dtype = "bf16",
                           .elem_bytes = ELEMENT_BYTES,
                           .planes = PLANES,
                           .head_size = HEAD_SIZE,
                           .num_groups = 1,
                           .groups = {{.block_tokens = BLOCK_TOKENS, .num_blocks = job.peers * SLOTS * BLOCKS}},
                           .num_splits = 1,
                           .splits = {{.heads_total = HEADS, .head_count = HEADS}},
                           .layers_total = LAYERS,
                           .layer_count = LAYERS};
    check(baton_geometry_layout(&job.geometry, job.tensors, 0), "layout");
    check(baton_cache_create(job.baton, &job.geometry, BATON_MEMORY_HOST, &job.cache), "cache");
    check(baton_start(job.baton), "start");
    for (uint32_t p = 0; p < job.peers; p++)
        for (uint32_t i = 0; i < SLOTS; i++) {
            struct slot *s = &job.pairs[p].slots[i];
            s->peer = p;
            for (uint32_t b = 0; b < BLOCKS; b++) /* scattered */
                s->blocks[b] = (b * SLOTS + i) * job.peers + p;
            walk(s, FREE);
        }
}

static void wait_for_go(void)
{
    put_down("ready");
    for (double until = now_ms() + 60000; touched_ms("go", UINT32_MAX) == 0;) {
        if (now_ms() > until) {
            fprintf(stderr, "lab: rank %u: nobody says go\n", job.rank);
            exit(3);
        }
        usleep(5000);
    }
    job.start_ms = now_ms();
    for (uint32_t p = 0; p < job.peers; p++)
        job.pairs[p].flowed_ms = job.start_ms;
}

/* The longest pause of the affected pairs, or of the others. */
static double pause_ms(bool affected)
{
    double longest = 0;
    for (uint32_t p = 0; p < job.peers; p++)
        if ((job.affected[job.rank] != job.affected[rank_of(p)]) == affected && job.pairs[p].longest_ms > longest)
            longest = job.pairs[p].longest_ms;
    return longest;
}

static void print_counts(void)
{
    printf(
        "counts rank=%u calls=%u done=%u failed=%u given_up=%u held=%u late=%u unanswered=%u wrong=%u touched=%u "
        "astray=%u needless=%u skipped=%u refused=%u answer_ms=%.0f pause_ms=%.0f pause_affected_ms=%.0f turn_ms=%.0f",
        job.rank, job.calls, job.done, job.failed, job.given_up, job.held, job.late, job.unanswered, job.wrong,
        job.touched, job.astray, job.needless, job.skipped, job.refused, job.slowest_ms, pause_ms(false),
        pause_ms(true), job.turn_ms);
    for (int r = 0; r < REASONS; r++)
        if (job.reasons[r] > 0)
            printf(" %s=%u", r > 0 ? baton_errname(-r) + strlen("BATON_") : "unknown", job.reasons[r]);
    printf("\n");
    fflush(stdout);
}

static void read_affected(const char *list)
{
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long rank = strtoul(list, &end, 10);
        if (rank < RANKS_MAX)
            job.affected[rank] = true;
        list = *end == ',' ? end + 1 : end;
    }
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 7) {
        fputs("usage: lab_job pull|push RATE SECONDS FOLDER AFFECTED [careless]\n", stderr);
        return 2;
    }
    job.mode = strcmp(argv[1], "push") == 0 ? BATON_MODE_PUSH : BATON_MODE_PULL;
    job.rate = strtod(argv[2], NULL);
    job.seconds = strtod(argv[3], NULL);
    job.folder = argv[4];
    read_affected(argv[5]);
    job.careless = argc == 7;
    find_place();
    open_all();
    wait_for_go();
    run();
    print_counts();
    double began = now_ms();
    int rc = baton_close(job.baton);
    printf("close rank=%u error=%s began_ms=%.0f ended_ms=%.0f\n", job.rank,
           rc == 0 ? "0" : baton_errname(rc) + strlen("BATON_"), began, now_ms());
    fflush(stdout);
    if (rc == BATON_EPEER)
        baton_exit(0);
    return rc != 0;
}
