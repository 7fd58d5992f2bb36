/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: what is to be placed. Ranks belong to teams, which are the TP groups of the engines (one of each pipeline
 * stage), and flows say how many bytes go between two ranks.
 */
#ifndef BATON_PLACE_JOB_H
#define BATON_PLACE_JOB_H

#include <stdint.h>

/** Which side of a transfer an engine is on. */
enum job_side { JOB_PREFILL, JOB_DECODE, JOB_SIDES };

/** Ranks [first, first + count) of one TP group. */
struct job_team {
    uint32_t first, count;
    enum job_side side;
    uint32_t engine; /* of its side */
};

struct job_flow {
    uint32_t peer;
    double bytes; /* both ways together */
};

struct job {
    uint32_t num_ranks, num_teams;
    struct job_team *teams; /* in order of rank */
    uint32_t *team_of;      /* by rank */
    uint32_t *first_flow;   /* by rank, and one more behind the last */
    struct job_flow *flows; /* of each rank, in order of peer; each flow stands at both of its ranks */
};

/** An unordered pair of ranks and the bytes between them. */
struct job_pair {
    uint32_t a, b;
    double bytes;
};

/**
 * Copies the teams, and makes the flows of the pairs, which it sorts; pairs of the same ranks are added up, and those
 * of one rank with itself are left out. 0; -1: no memory.
 */
int job_init(struct job *j, const struct job_team *teams, uint32_t num_teams, struct job_pair *pairs,
             uint32_t num_pairs);
void job_fini(struct job *j);

#endif
