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

/* The k-th of n equal shares of a range; each has a core, and where CPUs are few several have the same. */
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

static bool are_wide(const struct machine_seat *seats, uint32_t n, uint32_t cores)
{
    for (uint32_t k = 0; k < n; k++)
        if (seats[k].end_core - seats[k].first_core < cores)
            return false;
    return true;
}

/* ---- a range of cores -------------------------------------------------------------------------------------------- */

struct range {
    uint32_t first, end;
    enum bound bound, last; /* the next bound within it, and the innermost one that counts */
};

/* Whether no bound is left: every cut between cores is one, or none is. */
static bool is_uniform(const struct machine *m, const struct range *r)
{
    return r->bound > r->last || count_runs(m, r->first, r->end, r->bound) == r->end - r->first;
}

static struct range run_at(const struct machine *m, const struct range *r, uint32_t first)
{
    return (struct range){first, run_end(m, first, r->end, r->bound), r->bound + 1, r->last};
}

/* How many seats of so many cores fit into it without crossing a bound. */
static uint32_t room_of(const struct machine *m, const struct range *r, uint32_t needed)
{
    uint32_t room = 0;
    if (is_uniform(m, r))
        return (r->end - r->first) / needed;
    for (uint32_t at = r->first; at < r->end;) {
        struct range run = run_at(m, r, at);
        room += room_of(m, &run, needed);
        at = run.end;
    }
    return room;
}

/* A run of a range. */
struct run {
    struct range range;
    uint32_t room, seats; /* that fit, and that it gets */
};

/* Whether one more seat is better put into `a` than into `b`: it fits there, or the shares there are larger. */
static bool takes_better(const struct run *a, const struct run *b)
{
    if ((a->seats < a->room) != (b->seats < b->room))
        return a->seats < a->room;
    return (uint64_t)(a->range.end - a->range.first) * (b->seats + 1) >
           (uint64_t)(b->range.end - b->range.first) * (a->seats + 1);
}

/* One seat after the other where shares are the largest then, so that the smallest share is as large as can be. */
static void share_out(struct run *runs, uint32_t num, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < num; i++)
            if (takes_better(&runs[i], &runs[best]))
                best = i;
        runs[best].seats++;
    }
}

/* NULL: no memory. */
static struct run *find_runs(const struct machine *m, const struct range *r, uint32_t num, uint32_t needed)
{
    struct run *runs = calloc(num, sizeof *runs);
    for (uint32_t i = 0, at = r->first; runs != NULL && i < num; at = runs[i++].range.end) {
        runs[i].range = run_at(m, r, at);
        runs[i].room = room_of(m, &runs[i].range, needed);
    }
    return runs;
}

/* Into n seats of `needed` cores each if so many fit. False: no memory. */
static bool cut_range(const struct machine *m, const struct range *r, uint32_t needed, uint32_t n,
                      struct machine_seat *seats)
{
    if (is_uniform(m, r)) {
        for (uint32_t k = 0; k < n; k++)
            seats[k] = share(r->first, r->end, k, n);
        return true;
    }
    uint32_t num = count_runs(m, r->first, r->end, r->bound);
    if (n < num) {
        share_runs(m, r->first, r->end, r->bound, n, seats);
        if (are_wide(seats, n, needed) || room_of(m, r, needed) < n)
            return true;
    }
    struct run *runs = find_runs(m, r, num, needed);
    bool good = runs != NULL;
    if (good)
        share_out(runs, num, n);
    for (uint32_t i = 0; good && i < num; seats += runs[i++].seats)
        good = cut_range(m, &runs[i].range, needed, runs[i].seats, seats);
    free(runs);
    return good;
}

/* ---- a machine --------------------------------------------------------------------------------------------------- */

static bool cut_all(const struct machine *m, enum bound last, uint32_t needed, uint32_t n, struct machine_seat *seats)
{
    return cut_range(m, &(struct range){0, m->num_cores, BOUND_PACKAGE, last}, needed, n, seats);
}

static uint32_t cores_needed(const struct machine *m, const struct machine_cut *cut)
{
    uint32_t pus = m->num_pus / m->num_cores;
    if (cut->cores_per_rank > 0)
        return cut->cores_per_rank;
    return pus >= THREADS_PER_RANK ? 1 : THREADS_PER_RANK;
}

/* Whether some GPUs have cores near them that others have too, but not all of the same. GPUs come in order of core. */
static bool gpus_overlap(const struct machine *m)
{
    for (uint32_t i = 1, end = 0; i < m->num_gpus; i++) {
        const struct machine_device *a = &m->gpus[i - 1], *b = &m->gpus[i];
        end = a->end_core > end ? a->end_core : end;
        if (b->first_core < end && (a->first_core != b->first_core || a->end_core != b->end_core))
            return true;
    }
    return false;
}

static void give_gpus(struct machine_seat *seats, uint32_t n, uint32_t first, uint32_t each)
{
    for (uint32_t k = 0; k < n; k++) {
        seats[k].first_gpu = first + k * each;
        seats[k].num_gpus = each;
    }
}

/*
 * GPUs with the same cores near them share these out, in seats of `least` cores or more; GPUs that are left over have
 * no seat. Where GPUs overlap, all share out all cores, in order. Returns how many seats there are; 0: no memory.
 */
static uint32_t cut_by_gpu(const struct machine *m, const struct machine_cut *cut, uint32_t least, uint32_t n,
                           struct machine_seat *seats)
{
    uint32_t each = cut->gpus_per_rank, needed = cores_needed(m, cut), num = 0;
    bool all = gpus_overlap(m);
    for (uint32_t k = 0, next; k < n; k = next) {
        const struct machine_device *d = &m->gpus[k * each];
        struct range r = {all ? 0 : d->first_core, all ? m->num_cores : d->end_core, BOUND_PACKAGE, BOUND_CACHE};
        for (next = k + 1; next < n && (all || m->gpus[next * each].first_core == d->first_core);)
            next++;
        uint32_t own = least > 0 ? (r.end - r.first) / least : next - k;
        own = own < 1 ? 1 : own < next - k ? own : next - k;
        if (!cut_range(m, &r, needed, own, &seats[num]))
            return 0;
        give_gpus(&seats[num], own, k * each, each);
        num += own;
    }
    return num;
}

/*
 * As many seats as can be that have the cores they need: caches are crossed for one more seat, NUMA nodes are not.
 * 0: no memory.
 */
static uint32_t cut_by_cores(const struct machine *m, uint32_t needed, struct machine_seat *seats)
{
    for (uint32_t n = m->num_cores / needed; n > 1; n--)
        for (enum bound last = BOUND_CACHE; last >= BOUND_NUMA; last--) {
            if (!cut_all(m, last, needed, n, seats))
                return 0;
            if (are_wide(seats, n, needed))
                return n;
        }
    return cut_all(m, BOUND_CACHE, needed, 1, seats) ? 1 : 0;
}

struct machine_seat *machine_seats(const struct machine *m, const struct machine_cut *cut, uint32_t *num)
{
    uint32_t by_gpu = cut->gpus_per_rank > 0 ? m->num_gpus / cut->gpus_per_rank : 0;
    if (by_gpu < cut->slots)
        by_gpu = 0; /* not every rank can have GPUs of its own */
    uint32_t most = by_gpu > 0 ? by_gpu : cut->slots > 0 ? cut->slots : m->num_cores;
    struct machine_seat *seats = calloc(most, sizeof *seats);
    *num = 0;
    if (seats != NULL && by_gpu > 0) {
        *num = cut_by_gpu(m, cut, cut->cores_per_rank, by_gpu, seats);
        if (*num > 0 && *num < cut->slots) /* slots count before cores */
            *num = cut_by_gpu(m, cut, 0, by_gpu, seats);
    } else if (seats != NULL && cut->slots > 0) {
        *num = cut_all(m, BOUND_CACHE, cores_needed(m, cut), most, seats) ? most : 0;
    } else if (seats != NULL) {
        *num = cut_by_cores(m, cores_needed(m, cut), seats);
    }
    if (*num > 0)
        return seats;
    free(seats);
    return NULL;
}

int machine_whole_seats(const struct machine *m, const struct machine_cut *cut, uint32_t *num)
{
    const struct machine_cut own = {.cores_per_rank = cut->cores_per_rank, .gpus_per_rank = cut->gpus_per_rank};
    const bool with_gpus = cut->gpus_per_rank > 0 && m->num_gpus > 0;
    uint32_t all, needed = with_gpus ? cut->cores_per_rank : cores_needed(m, cut);
    struct machine_seat *seats = machine_seats(m, &own, &all);
    *num = 0;
    for (uint32_t i = 0; seats != NULL && i < all; i++)
        *num += seats[i].end_core - seats[i].first_core >= needed && (!with_gpus || seats[i].num_gpus > 0);
    free(seats);
    return seats != NULL ? 0 : -1;
}

int machine_share(const struct machine *m, uint32_t first, uint32_t end, uint32_t n, struct machine_seat *seats)
{
    return cut_range(m, &(struct range){first, end, BOUND_CACHE, BOUND_CACHE}, 1, n, seats) ? 0 : -1;
}
