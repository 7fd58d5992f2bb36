/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine_text: a machine as one line, see machine.h. "C8:0.8.1.0:0.4.2.1:0.8.1.0:2.8.1.0:0.1.8.2:1.1.8.2" are 8 cores,
 * and of each core, in lists of numbers: its cache, NUMA node, package, how many hardware threads it has, the first of
 * these, the second, and so on. A list is written as runs with commas between them. The run "4.2.3.8" is 4 4 12 12 20
 * 20: from 4 on, each number twice, three of them, each greater by 8 than the one before. "G0.8.1.cuda0" is a GPU near
 * cores 0 to 7, the second by PCI address, "N0.8.0.eth0" a NIC, "E0.8.0.mlx5_0" one that speaks verbs. "F" and a word
 * are further facts, which come last. Spaces separate them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "place/machine.h"

#define THREADS_MAX 16u /* of a core */
#define TOTAL_MAX 65536u

#define LISTS 4u /* before those of hardware threads */

static uint32_t *listed(struct machine_core *c, unsigned list)
{
    uint32_t *const fields[LISTS] = {&c->cache, &c->numa, &c->package, &c->num_pus};
    return fields[list];
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* How often the number that stands at `at` follows itself there, itself included. */
static uint32_t count_equal(const uint32_t *list, uint32_t at, uint32_t num)
{
    uint32_t n = 1;
    while (at + n < num && list[at + n] == list[at])
        n++;
    return n;
}

static void write_list(FILE *out, const uint32_t *list, uint32_t num)
{
    for (uint32_t at = 0, end; at < num; at = end) {
        const uint32_t each = count_equal(list, at, num);
        uint32_t times = 1, step = 0;
        end = at + each;
        if (end < num && list[end] > list[at])
            step = list[end] - list[at];
        for (; step > 0 && end < num && list[end] == list[at] + times * step; times++, end += each)
            if (count_equal(list, end, num) != each)
                break;
        fprintf(out, "%c%u.%u.%u.%u", at == 0 ? ':' : ',', list[at], each, times, times > 1 ? step : 0);
    }
}

/* False: no memory. */
static bool write_cores(FILE *out, const struct machine *m)
{
    uint32_t *list = calloc((size_t)m->num_cores + 1, sizeof *list);
    if (list == NULL)
        return false;
    fprintf(out, "C%u", m->num_cores);
    for (unsigned i = 0; i < LISTS; i++) {
        for (uint32_t c = 0; c < m->num_cores; c++)
            list[c] = *listed(&m->cores[c], i);
        write_list(out, list, m->num_cores);
    }
    for (uint32_t k = 0, n = 1; n > 0; k++) {
        n = 0;
        for (const struct machine_core *c = m->cores; c < m->cores + m->num_cores; c++)
            if (k < c->num_pus)
                list[n++] = m->pus[c->first_pu + k];
        write_list(out, list, n);
    }
    free(list);
    return true;
}

static void write_device(FILE *out, char kind, const struct machine_device *d)
{
    fprintf(out, " %c%u.%u.%u.%s", kind, d->first_core, d->end_core, d->number, d->name);
}

bool machine_write(const struct machine *m, char text[MACHINE_TEXT_BYTES])
{
    FILE *out = fmemopen(text, MACHINE_TEXT_BYTES, "w");
    if (out == NULL)
        return false;
    bool good = write_cores(out, m);
    for (uint32_t i = 0; i < m->num_gpus; i++)
        write_device(out, 'G', &m->gpus[i]);
    for (uint32_t i = 0; i < m->num_nics; i++)
        write_device(out, m->nics[i].is_fabric ? 'E' : 'N', &m->nics[i]);
    if (m->facts[0] != '\0')
        fprintf(out, " F%s", m->facts);
    good = good && fflush(out) == 0 && ferror(out) == 0 && ftell(out) < MACHINE_TEXT_BYTES;
    return fclose(out) == 0 && good;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool skip(const char **at, char c)
{
    bool is = **at == c;
    *at += is;
    return is;
}

static bool read_list(const char **at, uint32_t *list, uint32_t num)
{
    for (uint32_t i = 0; i < num;) {
        uint32_t run[4]; /* the first number, how often each stands there, how many there are, their step */
        for (unsigned k = 0; k < 4; k++)
            if (!skip(at, k > 0 ? '.' : i > 0 ? ',' : ':') || !number_take(at, TOTAL_MAX, &run[k]))
                return false;
        const uint64_t count = (uint64_t)run[1] * run[2];
        if (count == 0 || count > num - i || run[0] + (run[2] - 1) * (uint64_t)run[3] > TOTAL_MAX)
            return false;
        for (uint32_t k = 0; k < count; k++)
            list[i++] = run[0] + k / run[1] * run[3];
    }
    return true;
}

/* Hardware threads, whose numbers by core are known. `list`: room for one of each core. */
static bool read_pus(struct machine *m, const char **at, uint32_t *list)
{
    struct machine_core *const end = m->cores + m->num_cores;
    uint32_t most = 0;
    for (struct machine_core *c = m->cores; c < end; c++) {
        c->first_pu = m->num_pus;
        m->num_pus += c->num_pus;
        most = c->num_pus > most ? c->num_pus : most;
        if (c->num_pus == 0 || c->num_pus > THREADS_MAX || m->num_pus > TOTAL_MAX)
            return false;
    }
    m->pus = calloc(m->num_pus, sizeof *m->pus);
    for (uint32_t k = 0; k < most; k++) {
        uint32_t n = 0;
        for (const struct machine_core *c = m->cores; c < end; c++)
            n += k < c->num_pus;
        if (m->pus == NULL || !read_list(at, list, n))
            return false;
        for (const struct machine_core *c = end; c-- > m->cores;)
            if (k < c->num_pus)
                m->pus[c->first_pu + k] = list[--n];
    }
    return true;
}

static bool read_cores(struct machine *m, const char **at)
{
    if (m->num_cores > 0 || !number_take(at, TOTAL_MAX, &m->num_cores) || m->num_cores == 0)
        return false;
    uint32_t *list = calloc(m->num_cores, sizeof *list);
    m->cores = calloc(m->num_cores, sizeof *m->cores);
    bool good = list != NULL && m->cores != NULL;
    for (unsigned i = 0; good && i < LISTS; i++) {
        good = read_list(at, list, m->num_cores);
        for (uint32_t c = 0; good && c < m->num_cores; c++)
            *listed(&m->cores[c], i) = list[c];
    }
    good = good && read_pus(m, at, list);
    free(list);
    return good;
}

static bool read_device(const struct machine *m, const char **at, struct machine_device **devices, uint32_t *num,
                        bool is_fabric)
{
    struct machine_device d = {.is_fabric = is_fabric};
    if (!number_take(at, TOTAL_MAX, &d.first_core) || !skip(at, '.') || !number_take(at, TOTAL_MAX, &d.end_core) ||
        !skip(at, '.') || !number_take(at, TOTAL_MAX, &d.number) || !skip(at, '.'))
        return false;
    const size_t length = strcspn(*at, " ");
    if (length == 0 || length >= sizeof d.name || d.first_core >= d.end_core || d.end_core > m->num_cores ||
        *num >= TOTAL_MAX)
        return false;
    memcpy(d.name, *at, length);
    *at += length;
    struct machine_device *more = realloc(*devices, (*num + 1) * sizeof *more);
    if (more == NULL)
        return false;
    *devices = more;
    more[(*num)++] = d;
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
        return read_cores(m, at);
    case 'G':
        return read_device(m, at, &m->gpus, &m->num_gpus, false);
    case 'N':
    case 'E':
        return read_device(m, at, &m->nics, &m->num_nics, kind == 'E');
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
