/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overload: one producer and one consumer that try, all the time, to have ten times more calls open than the limits
 * allow. The limits are small (see `limits`; the environment may set others).
 *
 *   job overload SECONDS pull|push [KIB]      KIB: by how much a rank may grow, where MPI itself does (default: 1024)
 *
 * Both ranks count through the same numbers, each of which is a key. A refused number is tried again before any later
 * one, and at most one number more than the limit is under way. So both sides always work at the lowest numbers that
 * are not done, and some of these meet. A call may be refused by its return value or, if room for its table is lacking
 * later, by its event.
 *
 * Each rank prints one line. Its exit status is 0 only if every refusal was told, every accepted call ended in exactly
 * one event, every number was done in the end and in time, no byte was wrong, nothing was written into free blocks, and
 * private memory did not grow after the start.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "with_clock.h"

#define BLOCK_TOKENS 4u
#define BLOCKS_MOST 1024u /* of a request: the tables of about 32 middle-sized requests fill the smallest arena */
#define OVER 10u          /* tries to open this many times the limit */
#define DEADLINE_MS 30000u
#define LATE_MS 1000.0
#define GROWTH_KIB_MOST 1024
#define REASONS 32

static const char *const limits[][2] = {
    {"BATON_REQUESTS", "64"},
    {"BATON_LEASES", "32"},
    {"BATON_TABLE_BYTES", "64K"},
    {"BATON_TUNE", "waiting=32,tombstones=256,rma_bytes=1M,copy_bytes=1M,resend_ms=100"},
};

static struct {
    uint32_t most; /* limit of open calls */
    baton_id_t last_id;
    uint32_t next, open; /* the first number without a slot; calls accepted and not ended */
    unsigned long accepted, told, events, done, late; /* told: refused by the return value; late: by the event */
    unsigned long failed[REASONS];
    unsigned long wrong, astray, bad; /* wrong: bytes; astray: events and ids; bad: wrong ends */
    double slowest_ms;
    long growth_kib;
} load;

static long private_kib(void)
{
    char text[4096] = "";
    FILE *f = fopen("/proc/self/status", "r");
    if (f != NULL) {
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
    }
    const char *at = strstr(text, "RssAnon:");
    if (at == NULL) {
        fprintf(stderr, "rank %u: /proc/self/status has no RssAnon\n", job.rank);
        exit(3);
    }
    return strtol(at + strlen("RssAnon:"), NULL, 10);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* Makes blocks ready to be offered or written into, whose number depends on the request's. */
static void prepare(struct job_slot *s)
{
    s->num_blocks = 1 + (uint32_t)((s->request + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BLOCKS_MOST;
    s->num_tokens = s->num_blocks * BLOCK_TOKENS - s->request % BLOCK_TOKENS;
    s->state = JOB_WAITS;
    load.wrong += job_look(s) > 0;
    if (job_produces())
        job_walk(s, JOB_FILL);
}

/* The lowest number below `end` that is not open. */
static struct job_slot *to_call(uint32_t end)
{
    struct job_slot *lowest = NULL, *unused = NULL;
    for (uint32_t i = 0; i < job.num_slots; i++) {
        struct job_slot *s = &job.slots[i];
        if (s->state == JOB_WAITS && (lowest == NULL || s->request < lowest->request))
            lowest = s;
        if (s->state == JOB_FREE)
            unused = s;
    }
    if (lowest == NULL && unused != NULL && load.next < end) {
        lowest = unused;
        lowest->request = load.next++;
        prepare(lowest);
    }
    return lowest;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool call(struct job_slot *s)
{
    s->began_ms = now_ms();
    const int rc = job_call(s, DEADLINE_MS);
    if (rc == BATON_EAGAIN) {
        load.told++;
        return false;
    }
    check((int)job.rank, rc, "call");
    load.astray += s->id <= load.last_id; /* ids of one thread's calls grow, so that none is given twice */
    load.last_id = s->id;
    load.open++;
    load.accepted++;
    return true;
}

/* Tries to open OVER times more calls than the limit. */
static void call_all(uint32_t end)
{
    struct job_slot *s = NULL;
    for (uint32_t n = OVER * load.most - load.open; n > 0; n--) {
        if (s == NULL)
            s = to_call(end);
        if (s == NULL)
            return;
        if (call(s))
            s = NULL;
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void take(const baton_event_t *e)
{
    struct job_slot *s = e->user;
    load.events++;
    if (!job_in_order(s, e) || !job_is_terminal(e)) {
        fprintf(stderr, "rank %u: an event of %s, which is no open call\n", job.rank, e->key);
        load.astray++;
        return;
    }
    load.open--;
    bool good = e->status == BATON_STATUS_DONE, refused = e->error == BATON_EAGAIN || e->error == BATON_EBUSY;
    double took = now_ms() - s->began_ms;
    if (good && !job_produces() && job_walk(s, JOB_CHECK) > 0) {
        fprintf(stderr, "rank %u: %s is done, but its bytes are wrong\n", job.rank, e->key);
        load.wrong++;
    }
    if ((!good && !refused) || took > DEADLINE_MS + LATE_MS) {
        fprintf(stderr, "rank %u: %s ended after %.0f ms: %s: %s\n", job.rank, e->key, took, baton_errname(e->error),
                e->detail);
        load.bad++;
    }
    load.done += good;
    load.slowest_ms = took > load.slowest_ms ? took : load.slowest_ms;
    load.late += refused;
    if (!good && !refused)
        load.failed[-e->error < REASONS ? -e->error : 0]++;
    job_free(s);
    if (refused)
        prepare(s);
}

static void take_all(int wait_ms)
{
    job_wait(wait_ms);
    while (job_take(take) > 0)
        ;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void run(double seconds)
{
    double began = now_ms(), warm = began + (seconds > 60 ? 10e3 : seconds * 1e3 / 6);
    double over = began + seconds * 1e3, given_up = over + DEADLINE_MS + 10e3;
    long at_warm = -1;
    uint32_t end = UINT32_MAX, mine = 0, both = 0;
    MPI_Request agreed = MPI_REQUEST_NULL;
    while (load.done < end || agreed != MPI_REQUEST_NULL) {
        double now = now_ms();
        int known = 0;
        if (at_warm < 0 && now >= warm)
            at_warm = private_kib();
        if (mine == 0 && now >= over) { /* the load ends; both sides finish the numbers that either has begun */
            load.growth_kib = private_kib() - at_warm;
            mine = end = load.next;
            MPI_Iallreduce(&mine, &both, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD, &agreed);
        }
        if (agreed != MPI_REQUEST_NULL)
            MPI_Test(&agreed, &known, MPI_STATUS_IGNORE);
        if (known)
            end = both;
        call_all(end);
        take_all(1);
        if (now > given_up) {
            fprintf(stderr, "rank %u: %u calls have no event, %u of %u numbers begun\n", job.rank, load.open, load.next,
                    end);
            load.bad++;
            return;
        }
    }
    take_all(200); /* no event may come after the last */
}

static uint32_t setting(const char *variable)
{
    char *end;
    unsigned long value = strtoul(getenv(variable), &end, 10);
    if (*end != '\0' || value < 1 || value > 65536) {
        fprintf(stderr, "%s must be a plain number up to 65536 here\n", variable);
        exit(2);
    }
    return (uint32_t)value;
}

static void open_all(void)
{
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        setenv(limits[i][0], limits[i][1], 0);
    load.most = setting("BATON_REQUESTS");
    if ((job_produces() || job.mode == BATON_MODE_PUSH) && setting("BATON_LEASES") < load.most)
        load.most = setting("BATON_LEASES");
    job_open(MPI_COMM_WORLD, &(struct job_shape){.layers = 1,
                                                 .planes = 1,
                                                 .block_tokens = BLOCK_TOKENS,
                                                 .token_words = 8,
                                                 .slots = load.most + 1,
                                                 .blocks = BLOCKS_MOST,
                                                 .tokens = BLOCKS_MOST * BLOCK_TOKENS});
}

int job_overload(int argc, char **argv)
{
    char reasons[512] = "";
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    int level;
    double seconds = argc == 3 || argc == 4 ? atof(argv[1]) : 0;
    long growth_most = argc == 4 ? atol(argv[3]) : GROWTH_KIB_MOST;
    if (seconds <= 0 || (strcmp(argv[2], "pull") != 0 && strcmp(argv[2], "push") != 0))
        return 2;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    job_init(argv[2]);
    open_all();
    run(seconds);
    baton_stats(job.baton, &stats);
    for (int i = 0; i < REASONS; i++)
        if (load.failed[i] > 0)
            snprintf(reasons + strlen(reasons), sizeof reasons - strlen(reasons), " %s %lu", baton_errname(-i),
                     load.failed[i]);
    bool good = load.wrong == 0 && load.astray == 0 && load.bad == 0 && load.events == load.accepted &&
                load.done == load.next && load.done > 0 && load.told > 0 && stats.again == load.told &&
                load.growth_kib <= growth_most;
    printf("rank %u, %s %s: %lu accepted, %lu refused by the call, %lu by the event, %lu done of %u, failed:%s; "
           "%lu wrong, %lu astray, %lu bad, %ld missing; slowest %.0f ms; grew by %ld KiB: %s\n",
           job.rank, job.me.engine, argv[2], load.accepted, load.told, load.late, load.done, load.next,
           reasons[0] ? reasons : " none", load.wrong, load.astray, load.bad, (long)(load.accepted - load.events),
           load.slowest_ms, load.growth_kib, good ? "good" : "bad");
    fflush(stdout);
    if (baton_close(job.baton) != 0) {
        fprintf(stderr, "rank %u: close: %s\n", job.rank, baton_errmsg());
        baton_exit(1);
    }
    MPI_Finalize();
    return good ? 0 : 1;
}
