/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink: plays pairs in a process of their own, so that a crash or an endless loop is a failure like any other. Makes
 * a failing pair smaller field by field, each attempt in its own process too, and prints what is left.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "with_pair.h"

#define PAIR_SECONDS 10   /* of processor time, for one pair */
#define SHRINK_SECONDS 30 /* for all attempts together */

uint64_t pairs_setting(const char *name, uint64_t preset)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : preset;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* The text before the next field of an initialiser. */
static const char *before = "";

static void print_number(const char *name, uint32_t v)
{
    if (v == 0)
        return;
    printf("%s.%s = %u", before, name, v);
    before = ", ";
}

static void print_numbers(const char *name, const uint32_t *v, uint32_t n)
{
    while (n > 0 && v[n - 1] == 0)
        n--;
    if (n == 0)
        return;
    printf("%s.%s = {", before, name);
    for (uint32_t i = 0; i < n; i++)
        printf(i + 1 < n ? "%u, " : "%u}", v[i]);
    before = ", ";
}

#define NUMBER(x, field) print_number(#field, (x)->field)
#define NUMBERS(x, field) print_numbers(#field, (x)->field, sizeof(x)->field / sizeof(x)->field[0])

static void print_tensor(const struct pair_tensor *t)
{
    printf(".layer = %u", t->layer);
    before = ", ";
    NUMBER(t, kind);
    NUMBER(t, split);
    NUMBER(t, planes);
    NUMBER(t, head_size);
    NUMBER(t, elem_log);
}

static void print_side(const struct pair_side *s)
{
    before = "";
    NUMBER(s, tp);
    NUMBER(s, pp);
    NUMBERS(s, cut);
    NUMBERS(s, whole);
    NUMBERS(s, second);
    NUMBERS(s, block_tokens);
    NUMBERS(s, late);
    NUMBER(s, spare);
    NUMBER(s, usual);
    NUMBERS(s, nest);
    NUMBERS(s, pad);
    NUMBER(s, reversed);
    NUMBER(s, regions);
    NUMBER(s, holes);
    NUMBER(s, scatter);
    NUMBER(s, places);
}

void pair_print(const struct pair *p)
{
    before = "";
    printf("    {");
    NUMBER(p, layers);
    NUMBER(p, tokens);
    NUMBER(p, held);
    NUMBER(p, window);
    NUMBER(p, planes);
    NUMBER(p, head_size);
    NUMBER(p, elem_log);
    NUMBER(p, num_splits);
    NUMBERS(p, heads);
    NUMBER(p, num_tensors);
    NUMBER(p, walk);
    for (uint32_t i = 0; i < p->num_tensors; i++) {
        printf(i > 0 ? "}, {" : ",\n     .tensor = {{");
        print_tensor(&p->tensor[i]);
    }
    printf("}},\n     .side = {{");
    print_side(&p->side[0]);
    printf("},\n              {");
    print_side(&p->side[1]);
    printf("}}},\n");
}

/* ---- shrinking --------------------------------------------------------------------------------------------------- */

/* Limits the processor time from now on: the process dies when that is used up. */
static void time_bound(time_t seconds)
{
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

/* Whether a pair fails, tried in a process of its own. */
static bool fails(const struct pair *p, bool loud)
{
    int status = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!loud) {
            pair_be_quiet();
            fclose(stderr);
        }
        time_bound(loud ? PAIR_SECONDS : 1);
        pair_check(p);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (loud && WIFSIGNALED(status))
        printf("signal %d\n", WTERMSIG(status));
    return status != 0;
}

/* Takes the candidate if it is another pair and fails too. */
static bool attempt(struct pair *p, struct pair *candidate)
{
    pair_mend(candidate);
    if (memcmp(candidate, p, sizeof *p) == 0 || !fails(candidate, false))
        return false;
    *p = *candidate;
    return true;
}

/* One round over all fields: each to 0, to half, to one less. */
static bool fields_shrink(struct pair *p, time_t until)
{
    bool any = false;
    for (size_t i = 0; i < sizeof *p / sizeof(uint32_t) && time(NULL) < until; i++) {
        uint32_t v;
        memcpy(&v, (uint32_t *)p + i, sizeof v);
        const uint32_t less[] = {0, v / 2, v - 1};
        for (unsigned k = 0; v > 0 && k < sizeof less / sizeof less[0]; k++) {
            struct pair candidate = *p;
            memcpy((uint32_t *)&candidate + i, &less[k], sizeof v);
            if (attempt(p, &candidate)) {
                any = true;
                break;
            }
        }
    }
    return any;
}

/* Drops each tensor in turn, with its layer where that has no other. */
static bool tensors_shrink(struct pair *p)
{
    bool any = false;
    for (uint32_t i = 0; i < p->num_tensors && p->num_tensors > 1; i++) {
        struct pair candidate = *p;
        candidate.num_tensors--;
        candidate.layers = p->layers > 1 && i < p->layers ? p->layers - 1 : p->layers;
        for (uint32_t k = i; k < candidate.num_tensors; k++) {
            candidate.tensor[k] = p->tensor[k + 1];
            candidate.side[0].second[k] = p->side[0].second[k + 1];
            candidate.side[1].second[k] = p->side[1].second[k + 1];
        }
        any |= attempt(p, &candidate);
    }
    return any;
}

static void shrink(struct pair *p)
{
    const time_t until = time(NULL) + SHRINK_SECONDS;
    while ((tensors_shrink(p) | fields_shrink(p, until)) && time(NULL) < until)
        ;
}

/* ---- playing ----------------------------------------------------------------------------------------------------- */

static void report(void (*make)(uint64_t number, struct pair *p), uint64_t number, int status)
{
    struct pair p = {0};
    make(number, &p);
    pair_mend(&p);
    if (WIFSIGNALED(status))
        printf("signal %d\n", WTERMSIG(status));
    printf("pair %llu fails\n", (unsigned long long)number);
    if (pairs_setting("PLAN_SHRINK", 1) == 0)
        return;
    if (!fails(&p, false)) {
        printf("alone it does not fail:\n");
        pair_print(&p);
        return;
    }
    shrink(&p);
    fails(&p, true);
    printf("shrunk, to paste into tests/property/pasted.h:\n");
    pair_print(&p);
}

bool pairs_play(void (*make)(uint64_t number, struct pair *p), uint64_t first, uint64_t count)
{
    uint64_t *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 1;
    if (at == MAP_FAILED)
        return false;
    *at = first;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (; *at < first + count; ++*at) {
            struct pair p = {0};
            make(*at, &p);
            pair_mend(&p);
            time_bound(PAIR_SECONDS);
            pair_check(&p);
        }
        _exit(0);
    }
    bool played = child > 0 && waitpid(child, &status, 0) == child;
    if (played && status != 0)
        report(make, *at, status);
    munmap(at, sizeof *at);
    return played && status == 0;
}
