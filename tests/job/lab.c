/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lab: traffic at a fixed rate, whether or not it gets through. Every prefill rank offers to every decode rank, and
 * each such pair has RATE requests a second of 1 MiB, none of which waits for an earlier one. Each engine has one rank.
 *
 *   job lab pull|push RATE SECONDS FOLDER AFFECTED [careless]
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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

#define PEERS_MAX 8u
#define SLOTS 96u /* calls of one pair under way, and free blocks whose pattern is checked */
#define RANKS_MAX (2 * PEERS_MAX)
#define CALL_MS 4000u
#define QUIET_MS 1000.0     /* the default of quiet_ms */
#define SCHEDULING_MS 500.0 /* what a busy machine may add */
#define RETURN_MS 6000.0    /* within which calls that were given up must end: BATON_PEER_MS and a second */
#define MEETING_MS 15000.0  /* how long a rank that finished waits for the others */
#define REASONS BATON_REASONS

static const struct job_shape shape = {
    .layers = 2, .planes = 2, .block_tokens = 16, .token_words = 256, .slots = SLOTS, .blocks = 8, .tokens = 128};

struct pair {
    uint32_t next;     /* request */
    double flowed_ms;  /* when a request was last done */
    double longest_ms; /* pause since the mark */
};

static struct {
    const char *folder;
    double rate, start_ms, seconds;
    bool affected[RANKS_MAX], careless;
    struct pair pairs[PEERS_MAX];
    uint32_t open, held; /* calls without an answer; calls given up that have not ended */
    uint32_t calls, refused, skipped, done, failed, given_up, late, unanswered, wrong, touched, astray, needless;
    uint32_t reasons[REASONS];
    double slowest_ms, turn_ms; /* the slowest answer; the longest turn of the loop */
} lab;

/* By the real-time clock, which files' times have too. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* When the file was last touched; 0: it is not there. */
static double touched_ms(const char *name, uint32_t rank)
{
    char path[512];
    struct stat s;
    snprintf(path, sizeof path, rank == UINT32_MAX ? "%s/%s" : "%s/%s.%u", lab.folder, name, rank);
    return stat(path, &s) == 0 ? (double)s.st_mtim.tv_sec * 1e3 + (double)s.st_mtim.tv_nsec / 1e6 : 0;
}

static void put_down(const char *name)
{
    char part[512], path[512];
    snprintf(part, sizeof part, "%s/.%s.%u", lab.folder, name, job.rank);
    snprintf(path, sizeof path, "%s/%s.%u", lab.folder, name, job.rank);
    FILE *file = fopen(part, "w");
    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 || rename(part, path) != 0) {
        perror(path);
        exit(3);
    }
}

static bool all_finished(void)
{
    for (uint32_t r = 0; r < job.producers + job.consumers; r++)
        if (!lab.affected[r] && touched_ms("finished", r) == 0)
            return false;
    return true;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static void look_at_free(const struct job_slot *s)
{
    lab.touched += job_look(s) > 0;
}

/* The one that has been free longest. */
static struct job_slot *free_slot(uint32_t peer)
{
    struct job_slot *best = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct job_slot *s = &job.slots[peer * SLOTS + i];
        if (s->state == JOB_FREE && (best == NULL || s->freed < best->freed))
            best = s;
    }
    return best;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/*
 * The longest time to an answer. An offer may grant a want at the end of its time to live: then it has a want's time
 * more.
 */
static double bound_ms(void)
{
    return (job_produces() ? 2 : 1) * (double)CALL_MS + QUIET_MS + SCHEDULING_MS;
}

static void begin(struct pair *pair, uint32_t peer)
{
    struct job_slot *s = free_slot(peer);
    uint32_t request = pair->next++;
    if (s == NULL) {
        lab.skipped++;
        return;
    }
    look_at_free(s);
    s->request = request;
    if (job_produces())
        job_walk(s, JOB_FILL);
    s->began_ms = now_ms();
    int rc = job_call(s, CALL_MS);
    if (rc != 0) {
        if (lab.refused++ == 0)
            fprintf(stderr, "lab: rank %u: refused: %s: %s\n", job.rank, baton_errname(rc), baton_errmsg());
        job_free(s);
        return;
    }
    s->is_late = false;
    lab.calls++;
    lab.open++;
}

static void hand_back(struct job_slot *s)
{
    lab.held -= s->state == JOB_GIVEN_UP;
    job_free(s);
}

static void note_late(struct job_slot *s, double took_ms)
{
    if (s->is_late)
        return;
    s->is_late = true;
    if (lab.late++ < 3)
        fprintf(stderr, "lab: rank %u: request %u with rank %u has no answer after %.0f ms\n", job.rank, s->request,
                job_rank_of(s->peer), took_ms);
}

/* A pair's pause ends when a request is done, or with the last call. Only the time after the mark counts. */
static void end_pause(struct pair *pair, double now)
{
    double mark = touched_ms("mark", UINT32_MAX), since = pair->flowed_ms > mark ? pair->flowed_ms : mark;
    double last = lab.start_ms + lab.seconds * 1e3, until = now < last ? now : last;
    if (mark > 0 && until - since > pair->longest_ms)
        pair->longest_ms = until - since;
    pair->flowed_ms = now;
}

static void failed(struct job_slot *s, const baton_event_t *e)
{
    uint32_t other = job_rank_of(s->peer), reason = e->error < 0 && e->error > -REASONS ? (uint32_t)-e->error : 0;
    bool needless = lab.affected[job.rank] == lab.affected[other];
    lab.failed++;
    lab.needless += needless;
    if (lab.reasons[reason]++ < 2 || (needless && lab.needless < 5))
        fprintf(stderr, "lab: rank %u: at %.1f s: request %u with rank %u ended after %.0f ms: %s: %s\n", job.rank,
                (now_ms() - lab.start_ms) / 1e3, s->request, other, now_ms() - s->began_ms, baton_errname(e->error),
                e->detail);
}

/* A call's answer: the terminal event, or GIVEN_UP before it. */
static void answered(struct job_slot *s, const baton_event_t *e)
{
    double now = now_ms(), took = now - s->began_ms;
    lab.open--;
    if (took > lab.slowest_ms)
        lab.slowest_ms = took;
    if (took > bound_ms())
        note_late(s, took);
    if (e->status != BATON_STATUS_DONE) {
        failed(s, e);
        return;
    }
    lab.done++;
    end_pause(&lab.pairs[s->peer], now);
    uint32_t bad = job_produces() ? 0 : job_walk(s, JOB_CHECK);
    if (bad > 0)
        fprintf(stderr, "lab: rank %u: %u words of request %u of rank %u are wrong, and it is done\n", job.rank, bad,
                s->request, job_rank_of(s->peer));
    lab.wrong += bad > 0;
}

static void take(const baton_event_t *e)
{
    struct job_slot *s = e->user;
    if (!job_in_order(s, e)) {
        if (!lab.careless && lab.astray++ < 3)
            fprintf(stderr, "lab: rank %u: an event that must not be: type %d, status %d of %s\n", job.rank, e->type,
                    e->status, e->key);
        return;
    }
    if (s->state == JOB_OPEN)
        answered(s, e);
    if (!job_is_terminal(e)) {
        lab.given_up++;
        lab.held++;
        s->state = JOB_GIVEN_UP;
    }
    if (job_is_terminal(e) || lab.careless)
        hand_back(s);
}

static void turn(void)
{
    job_wait(5);
    double now = now_ms();
    job_take(take);
    double took = now_ms() - now;
    if (took > lab.turn_ms)
        lab.turn_ms = took;
}

/* A call that has no answer long after its bound counts as unanswered. */
static bool waits_for_answers(void)
{
    double now = now_ms();
    bool waits = false;
    for (uint32_t i = 0; i < job.num_slots && lab.open > 0; i++) {
        struct job_slot *s = &job.slots[i];
        if (s->state != JOB_OPEN)
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
    for (double now = lab.start_ms; now < lab.start_ms + lab.seconds * 1e3; now = now_ms()) {
        for (uint32_t p = 0; p < job.peers; p++)
            while (lab.pairs[p].next < (now - lab.start_ms) / 1e3 * lab.rate)
                begin(&lab.pairs[p], p);
        turn();
    }
    for (uint32_t p = 0; p < job.peers; p++)
        end_pause(&lab.pairs[p], now_ms());
    while (waits_for_answers())
        turn();
    for (double until = now_ms() + RETURN_MS; lab.held > 0 && now_ms() < until;)
        turn();
    put_down("finished");
    for (double until = now_ms() + MEETING_MS; !all_finished() && now_ms() < until;)
        turn();
    lab.unanswered = lab.open;
    for (uint32_t i = 0; i < job.num_slots; i++)
        if (job.slots[i].state == JOB_FREE)
            look_at_free(&job.slots[i]);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

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
    lab.start_ms = now_ms();
    for (uint32_t p = 0; p < job.peers; p++)
        lab.pairs[p].flowed_ms = lab.start_ms;
}

/* The longest pause of the affected pairs, or of the others. */
static double pause_ms(bool affected)
{
    double longest = 0;
    for (uint32_t p = 0; p < job.peers; p++)
        if ((lab.affected[job.rank] != lab.affected[job_rank_of(p)]) == affected && lab.pairs[p].longest_ms > longest)
            longest = lab.pairs[p].longest_ms;
    return longest;
}

static void print_counts(void)
{
    printf(
        "counts rank=%u calls=%u done=%u failed=%u given_up=%u held=%u late=%u unanswered=%u wrong=%u touched=%u "
        "astray=%u needless=%u skipped=%u refused=%u answer_ms=%.0f pause_ms=%.0f pause_affected_ms=%.0f turn_ms=%.0f",
        job.rank, lab.calls, lab.done, lab.failed, lab.given_up, lab.held, lab.late, lab.unanswered, lab.wrong,
        lab.touched, lab.astray, lab.needless, lab.skipped, lab.refused, lab.slowest_ms, pause_ms(false),
        pause_ms(true), lab.turn_ms);
    for (int r = 0; r < REASONS; r++)
        if (lab.reasons[r] > 0)
            printf(" %s=%u", r > 0 ? baton_errname(-r) + strlen("BATON_") : "unknown", lab.reasons[r]);
    printf("\n");
    fflush(stdout);
}

static void read_affected(const char *list)
{
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long rank = strtoul(list, &end, 10);
        if (rank < RANKS_MAX)
            lab.affected[rank] = true;
        list = *end == ',' ? end + 1 : end;
    }
}

int job_lab(int argc, char **argv)
{
    if (argc < 6 || argc > 7) {
        fputs("usage: job lab pull|push RATE SECONDS FOLDER AFFECTED [careless]\n", stderr);
        return 2;
    }
    lab.rate = strtod(argv[2], NULL);
    lab.seconds = strtod(argv[3], NULL);
    lab.folder = argv[4];
    read_affected(argv[5]);
    lab.careless = argc == 7;
    job_init(argv[1]);
    if (job.producers > PEERS_MAX || job.consumers > PEERS_MAX)
        return 2;
    job_open(MPI_COMM_NULL, &shape);
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
