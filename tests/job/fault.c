/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: engines of which one rank, the victim, is killed or stopped (by BATON_FAULT in that rank). Every prefill rank
 * offers requests to every decode rank, which wants each of them and looks at every byte. The first requests come at
 * once, the others at a steady pace, so that survivors go on with each other while their calls with the victim wait.
 *
 *   job fault VICTIM pull|push REQUESTS full|contained killed|stopped|continued ENDED_MS
 *
 * Free blocks are looked at when they are next used, before close, and after close.
 *
 * When every call is answered, a stopped victim is killed or continued; a continued one judges its own calls too. Calls
 * that were given up must end within ENDED_MS after the victim died or was continued (0: at close at the latest).
 *
 * Each rank prints one line to stdout. Its exit status is 0 only if all of this holds: every call was answered in time;
 * no accepted byte was wrong; nothing was written into free blocks; every call that does not involve the victim was
 * done, and none of these was given up; close returned in time. Where the promise is "contained", MPI may be stuck in
 * an operation on the victim: then it is enough that all calls are answered in time, and that the survivors leave.
 */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "with_clock.h"
#include "with_tune.h"

#define SLOTS 4u /* requests under way with one peer */
#define PEERS_MAX 16
#define PACE_MS 400.0  /* between two requests with one peer, after the first SLOTS */
#define CALL_MS 4000.0 /* the deadline of each call */
#define TOLERANCE_MS 500.0
#define GAP_MS 1000.0 /* a rank that did not run for so long was stopped */
#define CANARY_MS 300.0
#define MEET_MS 40000.0 /* more than all calls of a slow survivor take */

static const struct job_shape shape = {
    .layers = 2, .planes = 2, .block_tokens = 16, .token_words = 16, .slots = SLOTS, .blocks = 32, .tokens = 500};

static struct {
    uint32_t victim, requests;            /* requests with each peer */
    uint32_t next[PEERS_MAX], open, held; /* held: given up, but not ended */
    uint32_t done, failed, expired, given_up, wrong, late, lost_good;
    bool broken[PEERS_MAX];                          /* a call with that peer failed: no new one begins */
    double started_ms, seen_ms, resumed_ms, held_ms; /* resumed: this rank was stopped until then; 0: never */
    double quiet_ms, peer_ms, ended_ms;
    bool contained, stalled; /* contained: see above; stalled: the reactor is stuck, and no call can begin */
} f;

/* A time as the library reads it: the environment's, or its default. */
static double ms_of(const char *text, double preset)
{
    return text != NULL ? atof(text) : preset;
}

static bool touches_victim(uint32_t peer)
{
    return job.rank == f.victim || job_rank_of(peer) == f.victim;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void look_for_canaries(void)
{
    for (uint32_t i = 0; i < job.num_slots; i++)
        if (job.slots[i].state == JOB_FREE)
            f.wrong += job_look(&job.slots[i]) > 0;
}

static void begin(struct job_slot *s)
{
    f.wrong += job_look(s) > 0;
    s->request = f.next[s->peer]++;
    s->began_ms = now_ms();
    if (job_produces())
        job_walk(s, JOB_FILL);
    const int rc = job_call(s, (uint32_t)CALL_MS);
    if (rc == BATON_ESTALL && f.contained) {
        job_free(s);
        f.stalled = true;
        return;
    }
    check((int)job.rank, rc, "begin");
    f.open++;
}

/* The first event of a call: checks whether it came in time and says what it must. */
static void answered(struct job_slot *s, const baton_event_t *e)
{
    /*
     * An offer's deadline is that of the last want that it granted, and that want may have come at the end of the
     * offer's time to live. A rank that was stopped could not answer before it ran again.
     */
    double limit = s->began_ms + (job_produces() ? 2 * CALL_MS : CALL_MS);
    if (limit < f.resumed_ms)
        limit = f.resumed_ms;
    limit += f.quiet_ms + TOLERANCE_MS;
    if (now_ms() > limit) {
        fprintf(stderr, "rank %u: %s was answered after %.0f ms, %.0f too late: %s\n", job.rank, e->key,
                now_ms() - s->began_ms, now_ms() - limit, e->detail);
        f.late++;
    }
    f.open--;
    f.done += e->status == BATON_STATUS_DONE;
    f.failed += e->status == BATON_STATUS_FAILED || e->status == BATON_STATUS_CANCELLED;
    f.expired += e->status == BATON_STATUS_EXPIRED;
    f.broken[s->peer] |= e->status != BATON_STATUS_DONE;
    f.stalled |= e->error == BATON_ESTALL;
    if (e->status != BATON_STATUS_DONE && !touches_victim(s->peer) && !f.contained) {
        fprintf(stderr, "rank %u: %s with rank %u ended as %s: %s\n", job.rank, e->key, job_rank_of(s->peer),
                baton_errname(e->error), e->detail);
        f.lost_good++;
    }
}

/* The victim learns from the clock that it was stopped. */
static void notice_a_stop(void)
{
    double now = now_ms();
    if (job.rank == f.victim && now > f.seen_ms + GAP_MS)
        f.resumed_ms = now;
    f.seen_ms = now;
}

static void take(const baton_event_t *e)
{
    struct job_slot *s = e->user;
    notice_a_stop();
    if (!job_in_order(s, e)) {
        fprintf(stderr, "rank %u: an event of %s out of turn\n", job.rank, e->key);
        f.wrong++;
        return;
    }
    if (s->state == JOB_OPEN)
        answered(s, e);
    else
        f.held--;
    if (!job_is_terminal(e)) {
        s->state = JOB_GIVEN_UP;
        f.held++;
        f.given_up++;
        return; /* its blocks are not ours yet */
    }
    if (e->status == BATON_STATUS_DONE && !job_produces()) {
        uint32_t bad = job_walk(s, JOB_CHECK);
        if (bad > 0)
            fprintf(stderr, "rank %u: %u words of %s are wrong, and it is done\n", job.rank, bad, e->key);
        f.wrong += bad > 0;
    }
    job_free(s);
}

static void turn(int ms)
{
    job_wait(ms);
    notice_a_stop();
    job_take(take);
    notice_a_stop();
}

static bool more(void)
{
    bool left = false;
    for (uint32_t i = 0; i < job.num_slots && !f.stalled && f.resumed_ms == 0; i++) {
        struct job_slot *s = &job.slots[i];
        uint32_t next = f.next[s->peer];
        if (f.broken[s->peer] || next >= f.requests)
            continue;
        left = true;
        if (s->state == JOB_FREE && (next < SLOTS || now_ms() > f.started_ms + (next - SLOTS + 1) * PACE_MS))
            begin(s);
    }
    return left || f.open > 0;
}

static void run(void)
{
    f.started_ms = f.seen_ms = now_ms();
    while (more())
        turn(20);
}

/* At `cause` the victim died or was continued: from then on calls that were given up must end in time. */
static void wait_for_the_held(double cause)
{
    double bound = f.ended_ms > 0 ? f.ended_ms : f.peer_ms;
    while (f.held > 0 && now_ms() < cause + bound)
        turn(20);
    f.held_ms = f.given_up > 0 ? now_ms() - cause : 0;
    if (f.held > 0 && f.ended_ms > 0) {
        fprintf(stderr, "rank %u: %u calls that were given up did not end within %.0f ms\n", job.rank, f.held,
                f.ended_ms);
        f.late += f.held;
    }
    for (double until = now_ms() + CANARY_MS; now_ms() < until;)
        turn(20);
    look_for_canaries();
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Waits for a plain message of a living rank. If MPI itself brings none any more, nothing is tested: the rank ends. */
static void await(MPI_Request *request)
{
    int done = 0;
    for (double until = now_ms() + MEET_MS; !done && now_ms() < until;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done)
            turn(1);
    }
    if (done)
        return;
    fprintf(stderr, "rank %u: plain MPI brings this rank nothing any more\n", job.rank);
    baton_exit(5);
}

/*
 * Survivors meet, by plain messages, when their calls are answered. Then the leader kills or continues the victim;
 * returns when.
 */
static double meet(int victim_pid, const char *fault)
{
    const uint32_t leader = f.victim == 0 ? 1 : 0, size = job.producers + job.consumers;
    MPI_Request request;
    int token = 0;
    double when;
    if (job.rank != leader) {
        MPI_Send(&token, 1, MPI_INT, (int)leader, 77, MPI_COMM_WORLD);
        MPI_Irecv(&when, 1, MPI_DOUBLE, (int)leader, 78, MPI_COMM_WORLD, &request);
        await(&request);
        return when;
    }
    for (uint32_t r = 0; r < size; r++)
        if (r != leader && r != f.victim) {
            MPI_Irecv(&token, 1, MPI_INT, (int)r, 77, MPI_COMM_WORLD, &request);
            await(&request);
        }
    when = now_ms();
    kill(victim_pid, strcmp(fault, "continued") == 0 ? SIGCONT : SIGKILL);
    for (uint32_t r = 0; r < size; r++)
        if (r != leader && r != f.victim)
            MPI_Send(&when, 1, MPI_DOUBLE, (int)r, 78, MPI_COMM_WORLD);
    return when;
}

/* To a terminal, which launchers make of stdout, a write that a signal interrupts writes nothing. */
static void say(const char *line)
{
    for (size_t left = strlen(line); left > 0;) {
        const ssize_t n = write(STDOUT_FILENO, line, left);
        if (n < 0 && errno != EINTR)
            return;
        line += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
}

int job_fault(int argc, char **argv)
{
    int level, pids[2 * PEERS_MAX], pid = (int)getpid();
    if (argc != 7)
        return 2;
    f.contained = strcmp(argv[4], "contained") == 0;
    f.ended_ms = atof(argv[6]);
    f.quiet_ms = ms_of(tuned("quiet_ms"), 1000);
    f.peer_ms = ms_of(getenv("BATON_PEER_MS"), 5000);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    f.victim = (uint32_t)atoi(argv[1]);
    f.requests = (uint32_t)atoi(argv[3]);
    job_init(argv[2]);
    if (job.producers > PEERS_MAX || job.consumers > PEERS_MAX)
        return 2;
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    job_open(MPI_COMM_WORLD, &shape);
    run();
    if (job.rank == f.victim && f.resumed_ms == 0) { /* the fault did not happen: nothing was tested */
        fprintf(stderr, "rank %u: the victim came to its end\n", job.rank);
        baton_exit(4);
    }
    wait_for_the_held(job.rank == f.victim ? f.resumed_ms : meet(pids[f.victim], argv[5]));

    uint32_t held = f.held;
    double before = now_ms(), close_ms;
    int closed = baton_close(job.baton);
    close_ms = now_ms() - before;
    if (closed == BATON_EPEER) /* then no window was freed, and the blocks are still there */
        look_for_canaries();
    bool slow = close_ms > f.peer_ms + 5000 && !f.contained, badly = closed != BATON_EPEER && closed != 0;
    if (slow || badly)
        fprintf(stderr, "rank %u: close after %.0f ms: %s\n", job.rank, close_ms, badly ? baton_errmsg() : "slow");
    char line[512]; /* written at once: launchers mix what ranks write in pieces */
    snprintf(line, sizeof line,
             "rank %u: %u done, %u failed, %u expired, %u given up; %u wrong, %u late, %u lost without need, %s close; "
             "ended %.0f ms later but for %u, closed in %.0f ms%s\n",
             job.rank, f.done, f.failed, f.expired, f.given_up, f.wrong, f.late, f.lost_good,
             slow    ? "slow"
             : badly ? "bad"
                     : "good",
             f.held_ms, held, close_ms, f.stalled ? "; stuck" : "");
    say(line);
    baton_exit(f.wrong > 0 || f.late > 0 || f.lost_good > 0 || slow || badly);
}
