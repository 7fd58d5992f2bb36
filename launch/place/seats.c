/* SPDX-License-Identifier: BSD-3-Clause */
/* seats: how a machine is cut into seats, see machine.h. */
#include <stdbool.h>
#include <stdlib.h>

#include "place/machine.h"

#define THREADS_PER_RANK 2u /* the engine's own, and one for the reactor and the copy workers */

/* The bounds that seats do not cross if they can help it, outermost first. */
enum bound { BOUND_PACKAGE, BOUND_NUMA, BOUND_CACHE };

static uint32_t number_of(const struct machine_core *core, enum bound bound)
{
    return bound == BOUND_PACKAGE ? core->package : bound == BOUND_NUMA ? core->numa : core->cache;
}

/* The end of the run of cores that begins at `first` and has one number. */
static uint32_t run_end(const struct machine *m, uint32_t first, uint32_t end, enum bound bound)
{
    uint32_t i = first + 1;
    while (i < end && number_of(&m->cores[i], bound) == number_of(&m->cores[first], bound))
        i++;
    return i;
}

static uint32_t count_runs(const struct machine *m, uint32_t first, uint32_t end, enum bound bound)
{
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i = run_end(m, i, end, bound))
        n++;
    return n;
}

/* The k-th of n equal shares of a range; each has a core, and where cores are few several have the same. */
static struct machine_seat share(uint32_t first, uint32_t end, uint32_t k, uint32_t n)
{
    uint64_t cores = end - first;
    uint32_t from = first + (uint32_t)(cores * k / n), to = first + (uint32_t)(cores * (k + 1) / n);
    return (struct machine_seat){.first_core = from, .end_core = to > from ? to : from + 1};
}

/* Seats that are larger than a run take whole runs. */
static void share_runs(const struct machine *m, uint32_t first, uint32_t end, enum bound bound, uint32_t n,
                       struct machine_seat *seats)
{
    uint32_t runs = count_runs(m, first, end, bound), at = first, done = 0;
    for (uint32_t k = 0; k < n; k++) {
        seats[k].first_core = at;
        for (uint32_t upto = (uint32_t)((uint64_t)runs * (k + 1) / n); done < upto; done++)
            at = run_end(m, at, end, bound);
        seats[k].end_core = at;
    }
}

/* `last`: the innermost bound that counts. */
static void cut_range(const struct machine *m, uint32_t first, uint32_t end, enum bound bound, enum bound last,
                      uint32_t n, struct machine_seat *seats)
{
    if (bound > last) {
        for (uint32_t k = 0; k < n; k++)
            seats[k] = share(first, end, k, n);
        return;
    }
    uint32_t runs = count_runs(m, first, end, bound), cores = end - first;
    if (runs == cores) { /* every cut between cores is such a bound, and there are none within a core */
        cut_range(m, first, end, last + 1, last, n, seats);
        return;
    }
    if (n < runs) {
        share_runs(m, first, end, bound, n, seats);
        return;
    }
    uint32_t done = 0, left = runs;
    for (uint32_t at = first, next; at < end; at = next, left--) { /* by size, and at least one each */
        next = run_end(m, at, end, bound);
        uint32_t upto = (uint32_t)(((uint64_t)n * (next - first) + cores / 2) / cores);
        upto = upto > done ? upto : done + 1;
        upto = upto < n - (left - 1) ? upto : n - (left - 1);
        cut_range(m, at, next, bound + 1, last, upto - done, &seats[done]);
        done = upto;
    }
}

/* GPUs with the same cores near them share these out. */
static void cut_by_gpu(const struct machine *m, uint32_t each, uint32_t n, struct machine_seat *seats)
{
    for (uint32_t k = 0, next; k < n; k = next) {
        const struct machine_device *d = &m->gpus[k * each];
        for (next = k + 1; next < n && m->gpus[next * each].first_core == d->first_core &&
                           m->gpus[next * each].end_core == d->end_core;)
            next++;
        cut_range(m, d->first_core, d->end_core, BOUND_PACKAGE, BOUND_CACHE, next - k, &seats[k]);
    }
    for (uint32_t k = 0; k < n; k++) {
        seats[k].first_gpu = k * each;
        seats[k].num_gpus = each;
    }
}

static uint32_t cores_needed(const struct machine *m, const struct machine_cut *cut)
{
    uint32_t pus = m->num_pus / m->num_cores;
    if (cut->cores_per_rank > 0)
        return cut->cores_per_rank;
    return pus >= THREADS_PER_RANK ? 1 : THREADS_PER_RANK;
}

static bool are_wide(const struct machine_seat *seats, uint32_t n, uint32_t cores)
{
    for (uint32_t k = 0; k < n; k++)
        if (seats[k].end_core - seats[k].first_core < cores)
            return false;
    return true;
}

/* As many seats as can be that have the cores they need: caches are crossed for one more seat, NUMA nodes are not. */
static uint32_t cut_by_cores(const struct machine *m, uint32_t needed, struct machine_seat *seats)
{
    for (uint32_t n = m->num_cores / needed; n > 1; n--)
        for (enum bound last = BOUND_CACHE; last >= BOUND_NUMA; last--) {
            cut_range(m, 0, m->num_cores, BOUND_PACKAGE, last, n, seats);
            if (are_wide(seats, n, needed))
                return n;
        }
    cut_range(m, 0, m->num_cores, BOUND_PACKAGE, BOUND_CACHE, 1, seats);
    return 1;
}

struct machine_seat *machine_seats(const struct machine *m, const struct machine_cut *cut, uint32_t *num)
{
    uint32_t by_gpu = cut->gpus_per_rank > 0 ? m->num_gpus / cut->gpus_per_rank : 0;
    uint32_t n = cut->slots;
    if (by_gpu < n)
        by_gpu = 0; /* not every rank can have GPUs of its own */
    if (by_gpu > 0)
        n = by_gpu;
    struct machine_seat *seats = calloc(n > 0 ? n : m->num_cores, sizeof *seats);
    if (seats == NULL)
        return NULL;
    if (by_gpu > 0)
        cut_by_gpu(m, cut->gpus_per_rank, n, seats);
    else if (n > 0)
        cut_range(m, 0, m->num_cores, BOUND_PACKAGE, BOUND_CACHE, n, seats);
    else
        n = cut_by_cores(m, cores_needed(m, cut), seats);
    *num = n;
    return seats;
}

void machine_share(const struct machine *m, uint32_t first, uint32_t end, uint32_t n, struct machine_seat *seats)
{
    cut_range(m, first, end, BOUND_CACHE, BOUND_CACHE, n, seats);
}
