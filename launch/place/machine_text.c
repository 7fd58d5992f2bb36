/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine_text: a machine as one line, see machine.h. "C8.0+0.1.0.1:0:32" are 8 cores in cache 0, NUMA node 1 and
 * package 0; the first has hardware threads 0 and 32, and those of each next core are greater by 1. With "0+1" each
 * core has a cache of its own, the first cache 0, the next one cache 1. "*16.2.4.1.8" behind it are 16 such groups of
 * cores in all: 2 are in each NUMA node and 4 in each package, whose numbers follow each other, and caches and hardware
 * threads of each next group are greater by 1 and by 8. "Gcuda0.0.8.1" is a GPU near cores 0 to 7, the second by PCI
 * address, "Nmlx5_0.0.8" a NIC, "Emlx5_0.0.8" one that speaks verbs. "F" and a word are further facts, which come last.
 * Spaces separate them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "place/machine.h"

#define THREADS_MAX 16u /* of a core */
#define TOTAL_MAX 65536u

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* By how much cores that are written as one differ from one to the next. */
struct steps {
    int64_t cache, pus;
};

/* Whether core `i` follows core `i - 1` as that one follows, or may follow, those before it. */
static bool follows(const struct machine *m, uint32_t i, uint32_t first, struct steps *steps)
{
    const struct machine_core *a = &m->cores[i - 1], *b = &m->cores[i];
    struct steps by = {(int64_t)b->cache - a->cache, (int64_t)m->pus[b->first_pu] - m->pus[a->first_pu]};
    if (b->numa != a->numa || b->package != a->package || b->num_pus != a->num_pus || by.pus < 0 || by.cache < 0 ||
        by.cache > 1 || (i > first + 1 && (by.pus != steps->pus || by.cache != steps->cache)))
        return false;
    for (uint32_t k = 0; k < b->num_pus; k++)
        if ((int64_t)m->pus[b->first_pu + k] - m->pus[a->first_pu + k] != by.pus)
            return false;
    *steps = by;
    return true;
}

/* Cores that are written as one. */
struct group {
    uint32_t first, num;
    struct steps steps;
};

static struct group group_at(const struct machine *m, uint32_t first)
{
    struct group g = {first, 1, {0, 1}};
    while (first + g.num < m->num_cores && follows(m, first + g.num, first, &g.steps))
        g.num++;
    return g;
}

/*
 * Groups that are written as one: so many in all, so many in each NUMA node and in each package (0: all of them are in
 * one), and by how much each differs from the one before.
 */
struct repetition {
    uint32_t num, a_numa, a_package;
    int64_t cache, pus;
};

/* In which NUMA node or package the k-th group is, counted from the first group's. */
static uint32_t part_of(uint32_t k, uint32_t each)
{
    return each > 0 ? k / each : 0;
}

/* Whether `g` is the k-th group of a repetition that begins with `first`. */
static bool repeats(const struct machine *m, const struct group *first, const struct group *g, uint32_t k,
                    const struct repetition *r)
{
    const struct machine_core *a = &m->cores[first->first], *b = &m->cores[g->first];
    if (g->num != first->num || g->steps.cache != first->steps.cache || g->steps.pus != first->steps.pus ||
        b->num_pus != a->num_pus || b->numa != a->numa + part_of(k, r->a_numa) ||
        b->package != a->package + part_of(k, r->a_package) || b->cache - (int64_t)a->cache != k * r->cache)
        return false;
    for (uint32_t i = 0; i < a->num_pus; i++)
        if (m->pus[b->first_pu + i] - (int64_t)m->pus[a->first_pu + i] != k * r->pus)
            return false;
    return true;
}

static struct repetition repetition_of(const struct machine *m, const struct group *first)
{
    const struct machine_core *a = &m->cores[first->first], *b = a;
    struct repetition r = {.num = 1};
    struct group g = *first;
    for (uint32_t k = 1; g.first + g.num < m->num_cores; k++) {
        g = group_at(m, g.first + g.num);
        b = &m->cores[g.first];
        if (k == 1) {
            r.cache = b->cache - (int64_t)a->cache;
            r.pus = m->pus[b->first_pu] - (int64_t)m->pus[a->first_pu];
        }
        r.a_numa = r.a_numa == 0 && b->numa != a->numa ? k : r.a_numa;
        r.a_package = r.a_package == 0 && b->package != a->package ? k : r.a_package;
        if (r.cache < 0 || r.pus < 0 || !repeats(m, first, &g, k, &r))
            break;
        r.num = k + 1;
    }
    return r;
}

static void write_cores(FILE *out, const struct machine *m)
{
    for (uint32_t i = 0; i < m->num_cores;) {
        const struct machine_core *c = &m->cores[i];
        struct group g = group_at(m, i);
        struct repetition r = repetition_of(m, &g);
        fprintf(out, "%sC%u.%u+%d.%u.%u.%lld", i > 0 ? " " : "", g.num, c->cache, (int)g.steps.cache, c->numa,
                c->package, (long long)g.steps.pus);
        for (uint32_t k = 0; k < c->num_pus; k++)
            fprintf(out, ":%u", m->pus[c->first_pu + k]);
        if (r.num > 1)
            fprintf(out, "*%u.%u.%u.%lld.%lld", r.num, r.a_numa, r.a_package, (long long)r.cache, (long long)r.pus);
        i += r.num * g.num;
    }
}

static void write_device(FILE *out, char kind, const struct machine_device *d)
{
    fprintf(out, " %c%s.%u.%u", kind, d->name, d->first_core, d->end_core);
    if (kind == 'G')
        fprintf(out, ".%u", d->number);
}

bool machine_write(const struct machine *m, char text[MACHINE_TEXT_BYTES])
{
    FILE *out = fmemopen(text, MACHINE_TEXT_BYTES, "w");
    if (out == NULL)
        return false;
    write_cores(out, m);
    for (uint32_t i = 0; i < m->num_gpus; i++)
        write_device(out, 'G', &m->gpus[i]);
    for (uint32_t i = 0; i < m->num_nics; i++)
        write_device(out, m->nics[i].is_fabric ? 'E' : 'N', &m->nics[i]);
    if (m->facts[0] != '\0')
        fprintf(out, " F%s", m->facts);
    bool good = fflush(out) == 0 && ferror(out) == 0 && ftell(out) < MACHINE_TEXT_BYTES;
    return fclose(out) == 0 && good;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool skip(const char **at, char c)
{
    bool is = **at == c;
    *at += is;
    return is;
}

static uint32_t room_for(uint32_t num)
{
    uint32_t room = 1;
    while (room < num)
        room *= 2;
    return room;
}

/* Room for `more` elements behind `num`; the list grows to a power of two. False: no memory. */
static bool grow(void **list, uint32_t num, uint32_t more, size_t size)
{
    if (num > 0 && room_for(num) == room_for(num + more))
        return true;
    void *wider = realloc(*list, room_for(num + more) * size);
    if (wider != NULL)
        *list = wider;
    return wider != NULL;
}

/* A group of cores as it is read. */
struct described {
    struct machine_core core; /* the first */
    uint32_t num, cache_step, step, pus[THREADS_MAX];
};

static bool read_group(struct described *d, const char **at)
{
    struct machine_core *c = &d->core;
    *d = (struct described){.num = 0};
    if (!number_take(at, TOTAL_MAX, &d->num) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &c->cache) ||
        !skip(at, '+') || !number_take(at, 1, &d->cache_step) || !skip(at, '.') ||
        !number_take(at, TOTAL_MAX, &c->numa) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &c->package) ||
        !skip(at, '.') || !number_take(at, TOTAL_MAX, &d->step))
        return false;
    while (c->num_pus < THREADS_MAX && skip(at, ':'))
        if (!number_take(at, TOTAL_MAX, &d->pus[c->num_pus++]))
            return false;
    return d->num > 0 && c->num_pus > 0;
}

static bool add_group(struct machine *m, const struct described *d)
{
    struct machine_core c = d->core;
    if (m->num_cores + d->num > TOTAL_MAX || m->num_pus + (uint64_t)d->num * c.num_pus > TOTAL_MAX)
        return false;
    if (!grow((void **)&m->cores, m->num_cores, d->num, sizeof *m->cores) ||
        !grow((void **)&m->pus, m->num_pus, d->num * c.num_pus, sizeof *m->pus))
        return false;
    for (uint32_t i = 0; i < d->num; i++) {
        c.first_pu = m->num_pus;
        m->cores[m->num_cores++] = c;
        c.cache += d->cache_step;
        for (uint32_t k = 0; k < c.num_pus; k++) {
            if (d->pus[k] + (uint64_t)i * d->step > TOTAL_MAX)
                return false;
            m->pus[m->num_pus++] = d->pus[k] + i * d->step;
        }
    }
    return true;
}

static bool read_repetition(struct repetition *r, const char **at)
{
    uint32_t cache, pus;
    if (!number_take(at, TOTAL_MAX, &r->num) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &r->a_numa) ||
        !skip(at, '.') || !number_take(at, TOTAL_MAX, &r->a_package) || !skip(at, '.') ||
        !number_take(at, TOTAL_MAX, &cache) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &pus))
        return false;
    r->cache = cache;
    r->pus = pus;
    return r->num > 0;
}

static bool read_cores(struct machine *m, const char **at)
{
    struct repetition r = {.num = 1};
    struct described first;
    if (!read_group(&first, at) || (skip(at, '*') && !read_repetition(&r, at)))
        return false;
    for (uint32_t k = 0; k < r.num; k++) {
        struct described d = first;
        int64_t cache = d.core.cache + k * r.cache;
        d.core.numa += part_of(k, r.a_numa);
        d.core.package += part_of(k, r.a_package);
        d.core.cache = (uint32_t)cache;
        for (uint32_t i = 0; i < d.core.num_pus; i++) {
            if (cache > TOTAL_MAX || d.pus[i] + k * r.pus > TOTAL_MAX)
                return false;
            d.pus[i] += (uint32_t)(k * r.pus);
        }
        if (!add_group(m, &d))
            return false;
    }
    return true;
}

/* Takes ".N" off the end of a text of that length. */
static bool take_last(const char *text, size_t *length, uint32_t *number)
{
    size_t dot = *length;
    while (dot > 0 && text[dot - 1] != '.')
        dot--;
    const char *at = text + dot;
    if (dot == 0 || !number_take(&at, TOTAL_MAX, number) || at != text + *length)
        return false;
    *length = dot - 1;
    return true;
}

/* A name has no space, but it may have dots. */
static bool read_device(const struct machine *m, const char **at, struct machine_device **devices, uint32_t *num,
                        char kind)
{
    struct machine_device d = {.is_fabric = kind == 'E'};
    const char *text = *at;
    size_t length = strcspn(text, " ");
    *at += length;
    if ((kind == 'G' && !take_last(text, &length, &d.number)) || !take_last(text, &length, &d.end_core) ||
        !take_last(text, &length, &d.first_core) || length == 0 || length >= sizeof d.name)
        return false;
    if (d.first_core >= d.end_core || d.end_core > m->num_cores || *num >= TOTAL_MAX)
        return false;
    memcpy(d.name, text, length);
    if (!grow((void **)devices, *num, 1, sizeof **devices))
        return false;
    (*devices)[(*num)++] = d;
    return true;
}

/* To the end, without spaces. */
static bool read_facts(struct machine *m, const char **at)
{
    size_t length = strlen(*at);
    if (m->num_cores == 0 || length == 0 || length >= sizeof m->facts || strchr(*at, ' ') != NULL)
        return false;
    memcpy(m->facts, *at, length + 1);
    *at += length;
    return true;
}

static bool read_entry(struct machine *m, const char **at)
{
    char kind = **at;
    *at += kind != '\0';
    switch (kind) {
    case 'C':
        return m->num_gpus + m->num_nics == 0 && read_cores(m, at);
    case 'G':
        return read_device(m, at, &m->gpus, &m->num_gpus, kind);
    case 'N':
    case 'E':
        return read_device(m, at, &m->nics, &m->num_nics, kind);
    case 'F':
        return read_facts(m, at);
    default:
        return false;
    }
}

int machine_parse(struct machine *m, const char *text, struct why *why)
{
    const char *at = text;
    *m = (struct machine){0};
    bool good;
    do
        good = read_entry(m, &at);
    while (good && skip(&at, ' '));
    return good && *at == '\0' ? 0 : why_set(why, "\"%.80s\" describes no machine", text);
}
