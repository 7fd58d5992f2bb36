/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-scale: the protocol core in large worlds of engines of TP 8, in virtual time.
 *
 *   baton-scale --ranks 100,1000,10000 --requests 1000000
 *
 * prints a row for each world, and what a request costs in the largest beside the smallest. Its exit status is 1 if a
 * request fails, or if its cost grows with the world. A rank count is rounded down to a multiple of 16: as many ranks
 * prefill as decode.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "scale.h"

#define WORLDS_MAX 16
#define RANKS_LEAST (2 * SCALE_TP)
#define RANKS_MOST 100000u
#define REQUESTS_MOST 100000000u
#define GROWTH_MOST 1.05              /* of messages, operations and time of a request, from the smallest world */
#define WORLD_BYTES_MOST 320.0        /* of each rank of the world: its row, and places for what is to come */
#define PEER_BYTES_MOST (64.0 * 1024) /* of each rank that a rank has met */

#define USAGE "usage: baton-scale [--ranks N,...] [--requests N] [--seed N] [--version] [--help]\n"

static const char help[] =
    USAGE "\n"
          "Runs requests between engines of TP 8 through a protocol core for each rank, in virtual time.\n"
          "\n"
          "  --ranks N,...   sizes of worlds, from the smallest on (default 100,1000,10000)\n"
          "  --requests N    so many requests in each (default 10000)\n"
          "  --seed N        of who asks whom, when, and for how much (default 1)\n"
          "  --version       print the version of Baton\n"
          "  --help          print this\n";

struct plan {
    uint32_t worlds, ranks[WORLDS_MAX], requests;
    uint64_t seed;
};

static bool read_number(const char *text, uint64_t least, uint64_t most, const char **end, uint64_t *out)
{
    char *behind;
    const uint64_t n = strtoull(text, &behind, 10);
    *end = behind;
    *out = n;
    return behind != text && *text >= '0' && *text <= '9' && n >= least && n <= most;
}

static bool read_ranks(const char *text, struct plan *p)
{
    uint64_t n;
    p->worlds = 0;
    for (const char *end = text;; text = end + 1) {
        if (p->worlds == WORLDS_MAX || !read_number(text, RANKS_LEAST, RANKS_MOST, &end, &n) ||
            (*end != ',' && *end != '\0') || (p->worlds > 0 && n <= p->ranks[p->worlds - 1]))
            return false;
        p->ranks[p->worlds++] = (uint32_t)n;
        if (*end == '\0')
            return true;
    }
}

static bool read_one(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *end;
    return read_number(text, least, most, &end, out) && *end == '\0';
}

static void print_row(const struct scale_row *r)
{
    printf("%6u %9u %9.1f %7.0f %6.1f %6.1f %8.1f %7.1f %8.1f %7.1f %7.1f %8.1f %8.1f %8.1f %6u %8.1f\n", r->ranks,
           r->requests, r->messages, r->message_bytes, r->reads, r->moves, (double)r->p50_ns / 1e3,
           (double)r->p99_ns / 1e3, (double)r->first_p50_ns / 1e3, (double)r->first_p99_ns / 1e3,
           (double)r->start_ns / 1e3, r->cpu_s, 1e6 * r->cpu_s / r->requests, r->peer_bytes / 1024, r->peers,
           (double)r->core_most_bytes / 1024);
    fflush(stdout);
}

static void print_head(void)
{
    puts("engines of TP 8, links of 200 Gbit/s, 5 us each way\n"
         "                  of a request:                    received, us    first contact   start,    CPU s "
         "      us   KiB of            most\n"
         " ranks  requests  messages   bytes  reads  moves      p50     p99      p50     p99      us   in "
         "all  request   a peer  peers   KiB");
    fflush(stdout);
}

static bool grows(const char *what, double small, double large, double most)
{
    if (large <= most * small)
        return false;
    fprintf(stderr, "baton-scale: %s of a request: %g in the smallest world, %g in the largest\n", what, small, large);
    return true;
}

static bool above(const char *what, double found, double most)
{
    if (found <= most)
        return false;
    fprintf(stderr, "baton-scale: %s: %.1f bytes, and %.1f are allowed\n", what, found, most);
    return true;
}

static bool judge(const struct scale_row *small, const struct scale_row *large)
{
    bool bad = grows("messages", small->messages, large->messages, GROWTH_MOST);
    bad |= grows("bytes of messages", small->message_bytes, large->message_bytes, GROWTH_MOST);
    bad |= grows("moves", small->moves, large->moves, GROWTH_MOST);
    bad |= grows("the median time", (double)small->p50_ns, (double)large->p50_ns, GROWTH_MOST);
    bad |= above("what a rank keeps of a peer", large->peer_bytes, PEER_BYTES_MOST);
    if (small == large)
        return !bad;
    const double ranks = large->ranks - small->ranks;
    const double a_rank = (double)(large->start_bytes - small->start_bytes) / ranks;
    printf("a rank keeps %.1f bytes of each rank of the world, and %.1f KiB whatever the world\n", a_rank,
           ((double)small->start_bytes - a_rank * small->ranks) / 1024);
    return !above("what a rank keeps of each rank of the world", a_rank, WORLD_BYTES_MOST) && !bad;
}

static int run(const struct plan *p)
{
    struct scale_row rows[WORLDS_MAX];
    char why[640] = "";
    print_head();
    for (uint32_t i = 0; i < p->worlds; i++) {
        if (!scale_world(p->ranks[i], p->requests, p->seed, &rows[i], why)) {
            fprintf(stderr, "baton-scale: %u ranks: %s\n", p->ranks[i], why);
            return 1;
        }
        print_row(&rows[i]);
    }
    if (!judge(&rows[0], &rows[p->worlds - 1]))
        return 1;
    puts("what a request costs does not grow with the world");
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option words[] = {
        {"ranks", required_argument, NULL, 'r'}, {"requests", required_argument, NULL, 'q'},
        {"seed", required_argument, NULL, 's'},  {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    struct plan p = {.worlds = 3, .ranks = {100, 1000, 10000}, .requests = 10000, .seed = 1};
    uint64_t n = 0;
    int word;
    while ((word = getopt_long(argc, argv, "", words, NULL)) != -1) {
        bool good = true;
        if (word == 'r') {
            good = read_ranks(optarg, &p);
        } else if (word == 'q') {
            good = read_one(optarg, 1, REQUESTS_MOST, &n);
            p.requests = (uint32_t)n;
        } else if (word == 's') {
            good = read_one(optarg, 0, UINT64_MAX, &p.seed);
        } else if (word == 'V') {
            printf("baton-scale %s\n", baton_version());
            return fflush(stdout) == 0 ? 0 : 1;
        } else {
            fputs(word == 'h' ? help : USAGE, word == 'h' ? stdout : stderr);
            return word == 'h' && fflush(stdout) == 0 ? 0 : 2;
        }
        if (!good) {
            fprintf(stderr, "baton-scale: \"%.64s\" is no number, or out of bounds\n" USAGE, optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fputs(USAGE, stderr);
        return 2;
    }
    return run(&p);
}
