/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overload: one producer and one consumer that try, all the time, to have ten times more calls open than the limits
 * allow. The limits are small (see `limits`; the environment may set others).
 *
 *   overload_job SECONDS pull|push [KIB]      KIB: by how much a rank may grow, where MPI itself does (default: 1024)
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
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "baton.h"
#include "with_clock.h"

#define BLOCK_TOKENS 4u
#define TOKEN_WORDS 8u
#define BLOCKS_MOST 1024u /* of a request: the tables of about 32 middle-sized requests fill the smallest arena */
#define OVER 10u          /* tries to open this many times the limit */
#define DEADLINE_MS 30000u
#define LATE_MS 1000.0
#define GROWTH_KIB_MOST 1024
#define FREE_WORD UINT64_C(0xa5a5a5a5a5a5a5a5)
#define REASONS 32

static const char *const limits[][2] = {
    {"BATON_REQUESTS", "64"},
    {"BATON_LEASES", "32"},
    {"BATON_TABLE_BYTES", "64K"},
    {"BATON_TUNE", "waiting=32,tombstones=256,rma_bytes=1M,copy_bytes=1M,resend_ms=100"},
};

enum slot_state { SLOT_FREE, SLOT_WAITS, SLOT_OPEN };

struct slot {
    enum slot_state state;
    uint32_t number, num_blocks, num_tokens;
    uint32_t blocks[BLOCKS_MOST];
    baton_id_t id;
    double began_ms;
};

static struct {
    baton_t *baton;
    baton_cache_t *cache;
    baton_geometry_t geometry;
    baton_tensor_t tensor; /* the only one; the tokens of a block are contiguous */
    baton_open_params_t me;
    baton_mode_t mode;
    int rank;
    uint32_t most, num_slots, num_free; /* limit of open calls; slots; free blocks */
    struct slot *slots;
    uint32_t *free_blocks; /* a stack */
    baton_id_t last_id;
    uint32_t next, open; /* the first number without a slot; calls accepted and not ended */
    unsigned long accepted, told, events, done, late; /* told: refused by the return value; late: by the event */
    unsigned long failed[REASONS];
    unsigned long wrong, astray, bad; /* wrong: bytes; astray: events and ids; bad: wrong ends */
    double slowest_ms;
    long growth_kib;
} job;

static bool produces(void)
{
    return job.me.role == BATON_ROLE_PREFILL;
}

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
        fprintf(stderr, "rank %d: /proc/self/status has no RssAnon\n", job.rank);
        exit(3);
    }
    return strtol(at + strlen("RssAnon:"), NULL, 10);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

enum what { FILL, CHECK, FREE, CHECK_FREE };

/* Goes over every word of a slot's blocks. Returns how many are wrong. */
static uint32_t walk(const struct slot *s, enum what what)
{
    uint32_t bad = 0, words = s->num_tokens * TOKEN_WORDS;
    for (uint32_t b = 0, n = 0; b < s->num_blocks; b++) {
        uint64_t *at = (uint64_t *)((uint8_t *)baton_cache_base(job.cache) + s->blocks[b] * job.tensor.stride.block);
        for (uint32_t i = 0; i < BLOCK_TOKENS * TOKEN_WORDS; i++, n++) {
            bool used = n < words && (what == FILL || what == CHECK);
            uint64_t right = used ? mix((uint64_t)s->number << 32 | n) : FREE_WORD;
            if (what == FILL || what == FREE)
                at[i] = right;
            else
                bad += at[i] != right;
        }
    }
    return bad;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* Gives a number its blocks, and makes them ready to be offered or written into. */
static void prepare(struct slot *s)
{
    s->num_blocks = 1 + (uint32_t)(mix(s->number + 1) >> 40) % BLOCKS_MOST;
    s->num_tokens = s->num_blocks * BLOCK_TOKENS - s->number % BLOCK_TOKENS;
    s->state = SLOT_WAITS;
    for (uint32_t i = 0; i < s->num_blocks; i++)
        s->blocks[i] = job.free_blocks[--job.num_free];
    uint32_t bad = walk(s, CHECK_FREE);
    if (bad > 0) {
        fprintf(stderr, "rank %d: %u words were written into free blocks\n", job.rank, bad);
        job.wrong++;
        walk(s, FREE);
    }
    if (produces())
        walk(s, FILL);
}

static void give_blocks(struct slot *s)
{
    walk(s, FREE);
    for (uint32_t i = 0; i < s->num_blocks; i++)
        job.free_blocks[job.num_free++] = s->blocks[i];
    s->num_blocks = 0;
}

/* The lowest number below `end` that is not open. */
static struct slot *to_call(uint32_t end)
{
    struct slot *lowest = NULL, *unused = NULL;
    for (uint32_t i = 0; i < job.num_slots; i++) {
        struct slot *s = &job.slots[i];
        if (s->state == SLOT_WAITS && (lowest == NULL || s->number < lowest->number))
            lowest = s;
        if (s->state == SLOT_FREE)
            unused = s;
    }
    if (lowest == NULL && unused != NULL && job.next < end) {
        lowest = unused;
        lowest->number = job.next++;
    }
    if (lowest != NULL && lowest->num_blocks == 0)
        prepare(lowest);
    return lowest;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool call(struct slot *s)
{
    char key[BATON_KEY_MAX];
    snprintf(key, sizeof key, "number%u", s->number);
    baton_offer_params_t offer = {.size = sizeof offer,
                                  .key = key,
                                  .num_tables = 1,
                                  .tables = {{.blocks = s->blocks, .num_blocks = s->num_blocks}},
                                  .user = s};
    baton_want_params_t want = {.size = sizeof want,
                                .key = key,
                                .num_tables = 1,
                                .tables = {{.blocks = s->blocks, .num_blocks = s->num_blocks}},
                                .user = s};
    offer.num_tokens = want.num_tokens = s->num_tokens;
    offer.ttl_ms = want.timeout_ms = DEADLINE_MS;
    want.engine = "prefill0";
    want.mode = job.mode;
    s->began_ms = now_ms();
    int rc = produces() ? baton_offer(job.baton, &offer, &s->id) : baton_want(job.baton, &want, &s->id);
    if (rc == BATON_EAGAIN) {
        job.told++;
        return false;
    }
    check(job.rank, rc, "call");
    job.astray += s->id <= job.last_id; /* ids of one thread's calls grow, so that none is given twice */
    job.last_id = s->id;
    s->state = SLOT_OPEN;
    job.open++;
    job.accepted++;
    return true;
}

/* Tries to open OVER times more calls than the limit. */
static void call_all(uint32_t end)
{
    struct slot *s = NULL;
    for (uint32_t n = OVER * job.most - job.open; n > 0; n--) {
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
    struct slot *s = e->user;
    char key[BATON_KEY_MAX];
    job.events++;
    snprintf(key, sizeof key, "number%u", s->number);
    if (s->state != SLOT_OPEN || s->id != e->id || e->given_up != 0 || strcmp(key, e->key) != 0 ||
        e->type != (produces() ? BATON_EVENT_OFFER : BATON_EVENT_WANT)) {
        fprintf(stderr, "rank %d: an event of %s, which is no open call\n", job.rank, e->key);
        job.astray++;
        return;
    }
    job.open--;
    bool good = e->status == BATON_STATUS_DONE, refused = e->error == BATON_EAGAIN || e->error == BATON_EBUSY;
    double took = now_ms() - s->began_ms;
    if (good && !produces() && walk(s, CHECK) > 0) {
        fprintf(stderr, "rank %d: %s is done, but its bytes are wrong\n", job.rank, e->key);
        job.wrong++;
    }
    if ((!good && !refused) || took > DEADLINE_MS + LATE_MS) {
        fprintf(stderr, "rank %d: %s ended after %.0f ms: %s: %s\n", job.rank, e->key, took, baton_errname(e->error),
                e->detail);
        job.bad++;
    }
    job.done += good;
    job.slowest_ms = took > job.slowest_ms ? took : job.slowest_ms;
    job.late += refused;
    if (!good && !refused)
        job.failed[-e->error < REASONS ? -e->error : 0]++;
    give_blocks(s);
    s->state = refused ? SLOT_WAITS : SLOT_FREE;
}

static void take_all(int wait_ms)
{
    struct pollfd fd = {.fd = baton_event_fd(job.baton), .events = POLLIN};
    baton_event_t events[16];
    int n;
    poll(&fd, 1, wait_ms);
    while ((n = baton_poll(job.baton, events, 16)) > 0)
        for (int i = 0; i < n; i++)
            take(&events[i]);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void run(double seconds)
{
    double began = now_ms(), warm = began + (seconds > 60 ? 10e3 : seconds * 1e3 / 6);
    double over = began + seconds * 1e3, given_up = over + DEADLINE_MS + 10e3;
    long at_warm = -1;
    uint32_t end = UINT32_MAX, mine = 0, both = 0;
    MPI_Request agreed = MPI_REQUEST_NULL;
    while (job.done < end || agreed != MPI_REQUEST_NULL) {
        double now = now_ms();
        int known = 0;
        if (at_warm < 0 && now >= warm)
            at_warm = private_kib();
        if (mine == 0 && now >= over) { /* the load ends; both sides finish the numbers that either has begun */
            job.growth_kib = private_kib() - at_warm;
            mine = end = job.next;
            MPI_Iallreduce(&mine, &both, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD, &agreed);
        }
        if (agreed != MPI_REQUEST_NULL)
            MPI_Test(&agreed, &known, MPI_STATUS_IGNORE);
        if (known)
            end = both;
        call_all(end);
        take_all(1);
        if (now > given_up) {
            fprintf(stderr, "rank %d: %u calls have no event, %u of %u numbers begun\n", job.rank, job.open, job.next,
                    end);
            job.bad++;
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
    job.most = setting("BATON_REQUESTS");
    if ((produces() || job.mode == BATON_MODE_PUSH) && setting("BATON_LEASES") < job.most)
        job.most = setting("BATON_LEASES");
    job.num_slots = job.most + 1;
    job.num_free = job.num_slots * BLOCKS_MOST;
    baton_geometry_t *g = &job.geometry;
    *g = (baton_geometry_t){.size = sizeof(baton_geometry_t),
                            .model = "overload",
                            .dtype = "u8",
                            .elem_bytes = 1,
                            .num_groups = 1,
                            .groups = {{.block_tokens = BLOCK_TOKENS}},
                            .num_splits = 1};
    g->head_size = TOKEN_WORDS * sizeof(uint64_t);
    g->groups[0].num_blocks = job.num_free;
    g->planes = g->splits[0].heads_total = g->splits[0].head_count = g->layers_total = g->layer_count = 1;
    check(job.rank, baton_geometry_layout(g, &job.tensor, 0), "layout");
    check(job.rank, baton_open(MPI_COMM_WORLD, &job.me, &job.baton), "open");
    check(job.rank, baton_cache_create(job.baton, g, BATON_MEMORY_HOST, &job.cache), "cache");
    check(job.rank, baton_start(job.baton), "start");
    memset(baton_cache_base(job.cache), (int)(FREE_WORD & 0xff), g->bytes);
    job.slots = malloc(job.num_slots * sizeof *job.slots);
    job.free_blocks = malloc(job.num_free * sizeof *job.free_blocks);
    if (job.slots == NULL || job.free_blocks == NULL)
        exit(3);
    memset(job.slots, 0, job.num_slots * sizeof *job.slots); /* touched now, so that it does not count as growth */
    for (uint32_t i = 0; i < job.num_free; i++)
        job.free_blocks[i] = job.num_free - 1 - i;
}

int main(int argc, char **argv)
{
    char reasons[512] = "";
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    int level;
    double seconds = argc == 3 || argc == 4 ? atof(argv[1]) : 0;
    long growth_most = argc == 4 ? atol(argv[3]) : GROWTH_KIB_MOST;
    if (seconds <= 0 || (strcmp(argv[2], "pull") != 0 && strcmp(argv[2], "push") != 0))
        return 2;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    job.mode = strcmp(argv[2], "push") == 0 ? BATON_MODE_PUSH : BATON_MODE_PULL;
    job.me = BATON_INIT(baton_open_params_t);
    check(job.rank, baton_role_from_env(&job.me), "role");
    open_all();
    run(seconds);
    baton_stats(job.baton, &stats);
    for (int i = 0; i < REASONS; i++)
        if (job.failed[i] > 0)
            snprintf(reasons + strlen(reasons), sizeof reasons - strlen(reasons), " %s %lu", baton_errname(-i),
                     job.failed[i]);
    bool good = job.wrong == 0 && job.astray == 0 && job.bad == 0 && job.events == job.accepted &&
                job.done == job.next && job.done > 0 && job.told > 0 && stats.again == job.told &&
                job.growth_kib <= growth_most;
    printf("rank %d, %s %s: %lu accepted, %lu refused by the call, %lu by the event, %lu done of %u, failed:%s; "
           "%lu wrong, %lu astray, %lu bad, %ld missing; slowest %.0f ms; grew by %ld KiB: %s\n",
           job.rank, job.me.engine, argv[2], job.accepted, job.told, job.late, job.done, job.next,
           reasons[0] ? reasons : " none", job.wrong, job.astray, job.bad, (long)(job.accepted - job.events),
           job.slowest_ms, job.growth_kib, good ? "good" : "bad");
    fflush(stdout);
    if (baton_close(job.baton) != 0) {
        fprintf(stderr, "rank %d: close: %s\n", job.rank, baton_errmsg());
        baton_exit(1);
    }
    MPI_Finalize();
    return good ? 0 : 1;
}
