/* SPDX-License-Identifier: BSD-3-Clause */
/* bind: see bind.h. */
#include "batonrun/bind.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/number.h"

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static bool is_same(const struct bind_place *a, const struct bind_place *b)
{
    return strcmp(a->cpus, b->cpus) == 0 && strcmp(a->helpers, b->helpers) == 0 && strcmp(a->nic, b->nic) == 0 &&
           strcmp(a->gpus, b->gpus) == 0;
}

/* Each rank's kind: the number of the first rank with an equal place, among such first ranks. */
static uint32_t find_kinds(const struct bind_place *places, uint32_t num, uint32_t *kind, uint32_t *first)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < num; i++) {
        uint32_t k = 0;
        while (k < kinds && !is_same(&places[first[k]], &places[i]))
            k++;
        if (k == kinds)
            first[kinds++] = i;
        kind[i] = k;
    }
    return kinds;
}

/* The length of the shortest list of kinds, of at most `most`, that comes again and again from rank `at` on; and how
   often. */
static uint32_t find_pattern(const uint32_t *kind, uint32_t num, uint32_t at, uint32_t most, uint32_t *times)
{
    uint32_t best = 1;
    *times = 1;
    for (uint32_t length = 1; length <= most && at + length <= num; length++) {
        uint32_t n = 1;
        while (at + (n + 1) * length <= num && memcmp(&kind[at], &kind[at + n * length], length * sizeof *kind) == 0)
            n++;
        if (n > 1 && n * length > best * *times) {
            best = length;
            *times = n;
        }
    }
    return best;
}

#define PATTERN_MAX 256

static void write_all(FILE *out, const struct bind_place *places, uint32_t num, uint32_t *kind, uint32_t *first)
{
    uint32_t kinds = find_kinds(places, num, kind, first);
    for (uint32_t k = 0; k < kinds; k++) {
        const struct bind_place *p = &places[first[k]];
        fprintf(out, "%s%s%s%s/%s%s%s", k > 0 ? "|" : "", p->cpus, p->helpers[0] != '\0' ? "+" : "", p->helpers, p->nic,
                p->gpus[0] != '\0' ? "@" : "", p->gpus);
    }
    for (uint32_t at = 0, times; at < num;) {
        uint32_t length = find_pattern(kind, num, at, PATTERN_MAX, &times);
        for (uint32_t i = 0; i < length; i++)
            fprintf(out, "%c%u", i > 0 ? ',' : at > 0 ? ';' : '#', kind[at + i]);
        if (times > 1)
            fprintf(out, "x%u", times);
        at += length * times;
    }
}

char *bind_join(const struct bind_place *places, uint32_t num)
{
    char *text = NULL;
    size_t bytes;
    uint32_t *kind = calloc(2 * ((size_t)num + 1), sizeof *kind);
    FILE *out = kind != NULL ? open_memstream(&text, &bytes) : NULL;
    if (out != NULL) {
        write_all(out, places, num, kind, kind + num + 1);
        bool good = ferror(out) == 0;
        if (fclose(out) != 0 || !good) {
            free(text);
            text = NULL;
        }
    }
    free(kind);
    return text;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* The kind of a rank, by the lists behind '#'. */
static bool find_kind(const char *at, uint32_t rank, uint32_t *kind)
{
    for (uint64_t passed = 0; *at != '\0'; at++) { /* behind '#' or ';' */
        const char *list = at;
        uint32_t length = 0, times = 1, number;
        do {
            if (!number_take(&at, UINT32_MAX, &number))
                return false;
            length++;
        } while (*at++ == ',');
        at--;
        if (*at == 'x' && (at++, !number_take(&at, UINT32_MAX, &times)))
            return false;
        if (rank < passed + (uint64_t)length * times) {
            uint32_t within = (uint32_t)((rank - passed) % length);
            do
                if (!number_take(&list, UINT32_MAX, kind))
                    return false;
            while (within-- > 0 && *list++ == ',');
            return true;
        }
        passed += (uint64_t)length * times;
        if (*at == '\0')
            return false;
    }
    return false;
}

/* Copies up to one of the characters of `stop`. False: it is too long. */
static bool copy_until(const char **at, const char *stop, char *out, size_t room)
{
    size_t length = strcspn(*at, stop);
    if (length >= room)
        return false;
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length;
    return true;
}

bool bind_find(const char *text, uint32_t rank, struct bind_place *out)
{
    const char *lists = strchr(text, '#'), *at = text;
    uint32_t kind;
    if (lists == NULL || !find_kind(lists + 1, rank, &kind))
        return false;
    for (; kind > 0; kind--) {
        at += strcspn(at, "|#");
        if (*at++ != '|')
            return false;
    }
    out->helpers[0] = out->gpus[0] = '\0';
    if (!copy_until(&at, "+/|#", out->cpus, sizeof out->cpus))
        return false;
    if (*at == '+' && (at++, !copy_until(&at, "/|#", out->helpers, sizeof out->helpers)))
        return false;
    if (*at++ != '/')
        return false;
    if (!copy_until(&at, "@|#", out->nic, sizeof out->nic))
        return false;
    return *at != '@' || (at++, copy_until(&at, "|#", out->gpus, sizeof out->gpus));
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

/* Writes those wanted that this process did not get. Returns 0 or an errno. */
static int compare(const struct cpus *wanted, char *missing, size_t room)
{
    struct cpus got;
    int error = !cpus_init(&got) ? ENOMEM : sched_getaffinity(0, got.bytes, got.set) != 0 ? errno : 0;
    if (error == 0) {
        CPU_XOR_S(got.bytes, got.set, got.set, wanted->set); /* the kernel gives no others than those wanted */
        cpus_write(&got, missing, room);
    }
    cpus_fini(&got);
    return error;
}

int bind_to(const char *list, char *missing, size_t room)
{
    struct cpus cpus;
    missing[0] = '\0';
    int error = !cpus_init(&cpus) ? ENOMEM : !cpus_read(&cpus, list) ? EINVAL : 0;
    if (error == 0 && sched_setaffinity(0, cpus.bytes, cpus.set) != 0)
        error = errno;
    if (error == 0)
        error = compare(&cpus, missing, room);
    cpus_fini(&cpus);
    return error;
}

int bind_try(const char *list, char *missing, size_t room)
{
    struct cpus before;
    missing[0] = '\0';
    int error = !cpus_init(&before) ? ENOMEM : sched_getaffinity(0, before.bytes, before.set) != 0 ? errno : 0;
    if (error == 0) {
        error = bind_to(list, missing, room);
        if (sched_setaffinity(0, before.bytes, before.set) != 0 && error == 0)
            error = errno;
    }
    cpus_fini(&before);
    return error;
}

uint32_t bind_count(const char *list)
{
    struct cpus cpus;
    uint32_t n = 0;
    if (cpus_init(&cpus) && (list != NULL ? cpus_read(&cpus, list) : sched_getaffinity(0, cpus.bytes, cpus.set) == 0))
        n = (uint32_t)CPU_COUNT_S(cpus.bytes, cpus.set);
    cpus_fini(&cpus);
    return n;
}
