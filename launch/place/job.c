/* SPDX-License-Identifier: BSD-3-Clause */
/* job: see job.h. */
#include "place/job.h"

#include <stdlib.h>
#include <string.h>

static int by_ranks(const void *x, const void *y)
{
    const struct job_pair *p = x, *q = y;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    return p->b < q->b ? -1 : p->b > q->b;
}

/* Sorts, with the lower rank first, and joins the equal ones. Returns how many are left. */
static uint32_t tidy(struct job_pair *pairs, uint32_t num)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < num; i++)
        if (pairs[i].a > pairs[i].b)
            pairs[i] = (struct job_pair){pairs[i].b, pairs[i].a, pairs[i].bytes};
    if (num > 0) /* qsort takes no NULL */
        qsort(pairs, num, sizeof *pairs, by_ranks);
    for (uint32_t i = 0; i < num; i++) {
        if (pairs[i].a == pairs[i].b)
            continue;
        if (n > 0 && by_ranks(&pairs[i], &pairs[n - 1]) == 0)
            pairs[n - 1].bytes += pairs[i].bytes;
        else
            pairs[n++] = pairs[i];
    }
    return n;
}

/* In order of pair, so that each rank's flows come in order of peer: first the lower ones, then the higher. */
static void fill_flows(struct job *j, const struct job_pair *pairs, uint32_t num, uint32_t *at)
{
    for (uint32_t i = 0; i < num; i++)
        j->flows[at[pairs[i].b]++] = (struct job_flow){pairs[i].a, pairs[i].bytes};
    for (uint32_t i = 0; i < num; i++)
        j->flows[at[pairs[i].a]++] = (struct job_flow){pairs[i].b, pairs[i].bytes};
}

int job_init(struct job *j, const struct job_team *teams, uint32_t num_teams, struct job_pair *pairs,
             uint32_t num_pairs)
{
    uint32_t ranks = num_teams > 0 ? teams[num_teams - 1].first + teams[num_teams - 1].count : 0;
    uint32_t num = tidy(pairs, num_pairs);
    *j = (struct job){.num_ranks = ranks, .num_teams = num_teams};
    j->teams = calloc(num_teams + 1, sizeof *j->teams);
    j->team_of = calloc(ranks + 1, sizeof *j->team_of);
    j->first_flow = calloc((size_t)ranks + 2, sizeof *j->first_flow);
    j->flows = calloc(2 * (size_t)num + 1, sizeof *j->flows);
    uint32_t *at = calloc((size_t)ranks + 1, sizeof *at);
    int rc = j->teams && j->team_of && j->first_flow && j->flows && at ? 0 : -1;
    if (rc == 0) {
        memcpy(j->teams, teams, num_teams * sizeof *teams);
        for (uint32_t t = 0; t < num_teams; t++)
            for (uint32_t i = 0; i < teams[t].count; i++)
                j->team_of[teams[t].first + i] = t;
        for (uint32_t i = 0; i < num; i++) {
            j->first_flow[pairs[i].a + 1]++;
            j->first_flow[pairs[i].b + 1]++;
        }
        for (uint32_t r = 0; r < ranks; r++)
            j->first_flow[r + 1] += j->first_flow[r];
        memcpy(at, j->first_flow, ranks * sizeof *at);
        fill_flows(j, pairs, num, at);
    }
    free(at);
    return rc;
}

void job_fini(struct job *j)
{
    free(j->teams);
    free(j->team_of);
    free(j->first_flow);
    free(j->flows);
    *j = (struct job){0};
}
