/* SPDX-License-Identifier: BSD-3-Clause */
/* samples: a growing array and qsort; see the header. */
#include "bench/samples.h"

#include <math.h>
#include <stdlib.h>

#include "bench/fail.h"

#define MISS 0.025 /* of an interval, on either side */

void samples_add(struct samples *s, uint64_t ns)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->ns = realloc(s->ns, s->room * sizeof *s->ns);
        if (s->ns == NULL)
            fail("out of memory for %zu samples", s->room);
    }
    s->ns[s->count++] = ns;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t samples_quantile(struct samples *s, double q)
{
    if (s->count == 0)
        return 0;
    qsort(s->ns, s->count, sizeof *s->ns, by_size);
    size_t rank = (size_t)ceil(q * (double)s->count);
    return s->ns[rank == 0 ? 0 : rank - 1];
}

double samples_us(struct samples *s, double q)
{
    return (double)samples_quantile(s, q) / 1e3;
}

void samples_fini(struct samples *s)
{
    free(s->ns);
    *s = (struct samples){0};
}

unsigned ways_next(struct ways *w)
{
    return w->turns++ % w->num;
}

size_t ways_count(const struct ways *w)
{
    size_t count = 0;
    for (unsigned way = 0; way < w->num; way++)
        count += w->of[way].count;
    return count;
}

uint64_t ways_best_ns(struct ways *w, unsigned *way)
{
    uint64_t best = 0;
    for (unsigned i = 0; i < w->num; i++) {
        const uint64_t median = samples_quantile(&w->of[i], 0.5);
        if (median == 0 || (best > 0 && median >= best))
            continue;
        best = median;
        if (way != NULL)
            *way = i;
    }
    return best;
}

void ways_reset(struct ways *w)
{
    for (unsigned way = 0; way < w->num; way++)
        samples_fini(&w->of[way]);
    w->turns = 0;
}

/* ---- intervals --------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * How many values may be left out at either end. The median has fewer than k values below it as often as a fair coin
 * shows heads fewer than k times: the sum of binomials (count over 0) to (count over k - 1), by 2^-count.
 */
static size_t left_out(size_t count)
{
    double term = 1, sum = 0;
    size_t k = 0;
    for (size_t i = 0; i < count; i++)
        term /= 2;
    while (k < count / 2) {
        sum += term;
        if (sum > MISS)
            break;
        term *= (double)(count - k) / (double)(k + 1);
        k++;
    }
    return k > 0 ? k - 1 : 0;
}

struct interval interval_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    const size_t out = left_out(count);
    return (struct interval){values[out], (values[(count - 1) / 2] + values[count / 2]) / 2, values[count - 1 - out]};
}
