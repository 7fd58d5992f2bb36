/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine_text: a machine as one line, see machine.h. "C8.0+0.1.0.1:0:32" are 8 cores in cache 0, NUMA node 1 and
 * package 0; the first has hardware threads 0 and 32, and those of each next core are greater by 1. With "0+1" each
 * core has a cache of its own, the first cache 0, the next one cache 1. "Gcuda0.0.8.1" is a GPU near cores 0 to 7,
 * the second by PCI address, "Nmlx5_0.0.8" a NIC, "Emlx5_0.0.8" one that speaks verbs. "F" and a word are further
 * facts, which come last. Spaces separate them.
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

static void write_cores(FILE *out, const struct machine *m)
{
    for (uint32_t i = 0, next; i < m->num_cores; i = next) {
        const struct machine_core *c = &m->cores[i];
        struct steps steps = {0, 1};
        for (next = i + 1; next < m->num_cores && follows(m, next, i, &steps); next++)
            ;
        fprintf(out, "%sC%u.%u+%d.%u.%u.%lld", i > 0 ? " " : "", next - i, c->cache, (int)steps.cache, c->numa,
                c->package, (long long)steps.pus);
        for (uint32_t k = 0; k < c->num_pus; k++)
            fprintf(out, ":%u", m->pus[c->first_pu + k]);
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

/* Room for `more` elements behind `num`; the list grows to a power of two. False: no memory. */
static bool grow(void **list, uint32_t num, uint32_t more, size_t size)
{
    uint32_t room = 1;
    while (room < num + more)
        room *= 2;
    void *wider = realloc(*list, room * size);
    if (wider != NULL)
        *list = wider;
    return wider != NULL;
}

static bool read_cores(struct machine *m, const char **at)
{
    struct machine_core c = {.first_pu = m->num_pus};
    uint32_t count, cache_step, step, pus[THREADS_MAX];
    if (!number_take(at, TOTAL_MAX, &count) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &c.cache) ||
        !skip(at, '+') || !number_take(at, 1, &cache_step) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &c.numa) ||
        !skip(at, '.') || !number_take(at, TOTAL_MAX, &c.package) || !skip(at, '.') ||
        !number_take(at, TOTAL_MAX, &step))
        return false;
    while (c.num_pus < THREADS_MAX && skip(at, ':'))
        if (!number_take(at, TOTAL_MAX, &pus[c.num_pus++]))
            return false;
    if (count == 0 || c.num_pus == 0 || m->num_cores + count > TOTAL_MAX ||
        m->num_pus + (uint64_t)count * c.num_pus > TOTAL_MAX)
        return false;
    if (!grow((void **)&m->cores, m->num_cores, count, sizeof *m->cores) ||
        !grow((void **)&m->pus, m->num_pus, count * c.num_pus, sizeof *m->pus))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        c.first_pu = m->num_pus;
        m->cores[m->num_cores++] = c;
        c.cache += cache_step;
        for (uint32_t k = 0; k < c.num_pus; k++) {
            if (pus[k] + (uint64_t)i * step > TOTAL_MAX)
                return false;
            m->pus[m->num_pus++] = pus[k] + i * step;
        }
    }
    return true;
}

/* A name has no dot and no space. */
static bool read_device(const struct machine *m, const char **at, struct machine_device **devices, uint32_t *num,
                        char kind)
{
    struct machine_device d = {.is_fabric = kind == 'E'};
    size_t length = strcspn(*at, ". ");
    if (length == 0 || length >= sizeof d.name || *num >= TOTAL_MAX)
        return false;
    memcpy(d.name, *at, length);
    *at += length;
    if (!skip(at, '.') || !number_take(at, m->num_cores, &d.first_core) || !skip(at, '.') ||
        !number_take(at, m->num_cores, &d.end_core) || d.first_core >= d.end_core)
        return false;
    if (kind == 'G' && (!skip(at, '.') || !number_take(at, TOTAL_MAX, &d.number)))
        return false;
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
