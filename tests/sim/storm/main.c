/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-sim: runs seeded schedules through the protocol core and checks what must always be true.
 *
 *   baton-sim --seeds N --first S     runs seeds S .. S + N - 1; names the first that fails, with the reason
 *   baton-sim --first S --verbose     runs one seed, and prints each of its messages and events
 *   --jobs J                          so many processes share the seeds (default 1)
 *   --cover LEAST                     prints the (state, event) pairs met; each must be met LEAST times
 *   --version                         prints the version of Baton
 *   --help                            prints its options
 */
#include "storm.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- small things ------------------------------------------------------------------------------------------------ */

void storm_fail(struct storm *s, const char *format, ...)
{
    va_list args;
    if (s->failed)
        return;
    s->failed = true;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
}

void storm_say(const struct storm *s, const char *format, ...)
{
    va_list args;
    if (!s->verbose)
        return;
    printf("%9.3f ms  ", (double)s->now / 1e6);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t storm_hash(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint32_t storm_below(struct storm *s, uint32_t below)
{
    s->random = storm_hash(s->random + 1);
    return (uint32_t)(s->random % below);
}

bool storm_chance(struct storm *s, uint32_t of_1000)
{
    return storm_below(s, 1000) < of_1000;
}

uint32_t storm_luck(struct storm *s, uint32_t below)
{
    s->luck = storm_hash(s->luck + 1);
    return (uint32_t)(s->luck % below);
}

uint64_t storm_id(const struct storm *s, const struct storm_call *c)
{
    return (s->changes ? (uint64_t)(STORM_RANKS_MAX - c->rank) << 32 : 0) | c->number;
}

struct storm_call *storm_call_of(struct storm *s, uint64_t id)
{
    const uint64_t number = s->changes ? id & UINT32_MAX : id;
    struct storm_call *c = number >= 1 && number <= s->num_calls ? &s->calls[number - 1] : NULL;
    return c != NULL && storm_id(s, c) == id ? c : NULL;
}

/* ---- one seed ---------------------------------------------------------------------------------------------------- */

/* A time long enough for every deadline, loss, return and last message after the last action. */
static uint64_t patience(const struct storm *s)
{
    const struct settings *set = &s->settings;
    return s->horizon +
           (4 * set->peer_ms + 40 * set->resend_ms + set->tombstone_ms + 4 * set->verdict_ms + 300) * STORM_MS;
}

static void close_all(struct storm *s)
{
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (s->ranks[i].fate == STORM_RUNS)
            core_shut(s->ranks[i].core, s->now);
    storm_run(s, s->now + 500 * STORM_MS);
}

bool storm_seed(struct storm *s, uint64_t seed, bool verbose)
{
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->random = storm_hash(seed);
    s->luck = storm_hash(seed ^ UINT64_C(0x6d656d62657273));
    s->changes = storm_luck(s, 2) == 0;
    s->verbose = verbose;
    s->untouched = -1;
    s->now = STORM_MS;
    storm_build(s);
    if (!s->failed)
        storm_schedule(s);
    storm_run(s, 400 * STORM_MS); /* past the last action */
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (s->ranks[i].fate == STORM_STOPPED)
            storm_fail(s, "rank %u was never resumed", i);
    storm_run(s, patience(s));
    if (!s->failed)
        storm_check_end(s);
    if (!s->failed)
        close_all(s);
    bool good = !s->failed;
    storm_free(s);
    return good;
}

#define JOBS_MAX 256

/* ---- many -------------------------------------------------------------------------------------------------------- */

static int run(uint64_t first, uint64_t seeds, uint64_t stride, bool verbose)
{
    static struct storm s;
    for (uint64_t i = first; i < first + seeds; i += stride) {
        if (storm_seed(&s, i, verbose))
            continue;
        fprintf(stderr, "baton-sim: seed %llu: at %.3f ms: %s\n", (unsigned long long)i, (double)s.now / 1e6, s.why);
        return 1;
    }
    return 0;
}

/* Runs seeds in a process of its own. Returns the descriptor to which this writes its counts at its end, or -1. */
static int begin_job(uint64_t first, uint64_t seeds, uint64_t stride, bool verbose)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int failed = run(first, seeds, stride, verbose);
        _exit(failed | !storm_cover_write(ends[1]));
    }
    close(ends[1]);
    if (pid > 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

#define USAGE                                                                                                          \
    "usage: baton-sim [--seeds N] [--first SEED] [--jobs N] [--cover LEAST] [--verbose] [--version] [--help]\n"

static const char help[] =
    USAGE "\n"
          "Runs seeded schedules through the protocol core, and checks what must always be true.\n"
          "\n"
          "  --seeds N            so many seeds (default 1); the first that fails is named, with the reason\n"
          "  --first SEED         the first of them (default 1)\n"
          "  --jobs N             so many processes share them (default 1)\n"
          "  --cover LEAST        print the pairs of state and event that were met; each must be met LEAST times\n"
          "  --verbose            print each message and event\n"
          "  --version            print the version of Baton\n"
          "  --help               print this\n";

int main(int argc, char **argv)
{
    static const struct option words[] = {
        {"seeds", required_argument, NULL, 's'}, {"first", required_argument, NULL, 'f'},
        {"jobs", required_argument, NULL, 'j'},  {"cover", required_argument, NULL, 'c'},
        {"verbose", no_argument, NULL, 'v'},     {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    uint64_t seeds = 1, first = 1, jobs = 1, least = 0;
    bool verbose = false, cover = false;
    int word, failed = 0;
    while ((word = getopt_long(argc, argv, "", words, NULL)) != -1) {
        uint64_t value = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        switch (word) {
        case 's':
            seeds = value;
            break;
        case 'f':
            first = value;
            break;
        case 'j':
            jobs = value < 1 ? 1 : value > JOBS_MAX ? JOBS_MAX : value;
            break;
        case 'c':
            cover = true;
            least = value;
            break;
        case 'v':
            verbose = true;
            break;
        case 'V':
            printf("baton-sim %s\n", baton_version());
            return fflush(stdout) == 0 ? 0 : 1;
        default: /* --help, or no option of this program */
            fputs(word == 'h' ? help : USAGE, word == 'h' ? stdout : stderr);
            return word == 'h' && fflush(stdout) == 0 ? 0 : 2;
        }
    }
    int counts[JOBS_MAX];
    for (uint64_t j = 1; j < jobs; j++) {
        counts[j] = begin_job(first + j, seeds > j ? seeds - j : 0, jobs, verbose);
        failed |= counts[j] < 0;
    }
    failed |= run(first, seeds, jobs, verbose);
    for (uint64_t j = 1; j < jobs; j++) {
        int status = 0;
        failed |= counts[j] < 0 || !storm_cover_read(counts[j]);
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    }
    if (cover && !storm_cover_report(least, true))
        failed = 1;
    if (!failed)
        printf("%llu seeds from %llu: all good\n", (unsigned long long)seeds, (unsigned long long)first);
    return failed;
}
