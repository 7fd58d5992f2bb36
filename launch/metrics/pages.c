/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: see pages.h. */
#include "metrics/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/held.h"

#define CLAIM_PREFIX "baton-collector."

/* ---- which page it is -------------------------------------------------------------------------------------------- */

/* Takes ".NUMBER" off the end of *length bytes. False: there is none. */
static bool take_number(const char *text, size_t *length, uint32_t *out)
{
    size_t at = *length;
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    if (at == *length || at < 2 || text[at - 1] != '.' || *length - at > 9)
        return false;
    *out = (uint32_t)strtoul(text + at, NULL, 10);
    *length = at - 1;
    return true;
}

/*
 * A page's name is JOB.RANK or JOB.RANK.CONTEXT. A job's name may itself end in ".7", so where it is known, what is
 * behind it counts. Else a last number below 8 behind another number is taken for a context's.
 */
static bool take_name(const char *path, const char *job, struct pages_rank *out)
{
    const char *name = strrchr(path, '/');
    uint32_t first = 0, second = 0;
    name = (name != NULL ? name + 1 : path) + strlen(METRICS_PREFIX);
    size_t length = strlen(name), least = job != NULL ? strlen(job) : 1;
    if (!take_number(name, &length, &second))
        return false;
    size_t before = length;
    bool has_two = before > least && take_number(name, &before, &first) && before >= least && second < 8;
    *out = (struct pages_rank){.number = has_two ? first : second, .context = has_two ? second : 0};
    length = has_two ? before : length;
    if (length >= sizeof out->job || (job != NULL && length != least))
        return false;
    memcpy(out->job, name, length);
    return metrics_name_is_good(out->job);
}

static int compare_places(const void *one, const void *other)
{
    const struct pages_rank *a = *(struct pages_rank *const *)one, *b = *(struct pages_rank *const *)other;
    int order = strcmp(a->job, b->job);
    if (order == 0)
        order = (a->number > b->number) - (a->number < b->number);
    return order != 0 ? order : (a->context > b->context) - (a->context < b->context);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

struct pages_rank *pages_entry(struct pages *p, const char *job, uint32_t number, uint32_t context)
{
    for (uint32_t i = p->num; i > 0; i--) /* a file has all samples of a rank of one family together */
        if (p->ranks[i - 1]->number == number && p->ranks[i - 1]->context == context &&
            strcmp(p->ranks[i - 1]->job, job) == 0)
            return p->ranks[i - 1];
    if (p->num == p->room) {
        uint32_t room = p->room > 0 ? 2 * p->room : 16;
        struct pages_rank **more = room <= PAGES_MOST ? realloc(p->ranks, room * sizeof(struct pages_rank *)) : NULL;
        if (more == NULL)
            return NULL;
        p->ranks = more;
        p->room = room;
    }
    struct pages_rank *entry = calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL;
    snprintf(entry->job, sizeof entry->job, "%s", job);
    entry->number = number;
    entry->context = context;
    p->ranks[p->num++] = entry;
    return entry;
}

void pages_sort(struct pages *p)
{
    if (p->num > 0)
        qsort(p->ranks, p->num, sizeof(struct pages_rank *), compare_places);
}

void pages_drop_gone(struct pages *p)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < p->num; i++)
        if (p->ranks[i]->is_there)
            p->ranks[num++] = p->ranks[i];
        else
            free(p->ranks[i]);
    p->num = num;
}

struct look {
    struct pages *pages;
    bool has_room;
    uint32_t foreign; /* pages of other users */
};

static void look_at(void *arg, const char *path)
{
    struct look *l = arg;
    struct pages_rank key;
    if (!take_name(path, l->pages->job, &key))
        return;
    int fd = metrics_view_open(path, l->pages->of_anybody, l->pages->why);
    l->foreign += fd == METRICS_FOREIGN;
    if (fd < 0)
        return;
    struct pages_rank *entry = pages_entry(l->pages, key.job, key.number, key.context);
    if (entry == NULL)
        l->has_room = false;
    else
        entry->is_there = metrics_view_read(fd, &entry->view) || entry->view.body.renewed_ns != 0;
    close(fd);
}

bool pages_look(struct pages *p)
{
    struct look look = {.pages = p, .has_room = true};
    p->why[0] = '\0';
    for (uint32_t i = 0; i < p->num; i++)
        p->ranks[i]->is_there = false;
    metrics_pages_find(p->folder, p->job, look_at, &look);
    for (uint32_t i = 0; i < p->num; i++)
        p->ranks[i]->view.is_alive &= p->ranks[i]->is_there;
    pages_sort(p);
    if (p->num == 0 && p->why[0] == '\0' && look.foreign > 0)
        snprintf(p->why, sizeof p->why, "the pages of metrics on this host (%" PRIu32 ") are other users'",
                 look.foreign);
    return look.has_room;
}

void pages_fini(struct pages *p)
{
    for (uint32_t i = 0; i < p->num; i++)
        free(p->ranks[i]);
    free(p->ranks);
    p->ranks = NULL;
    p->num = p->room = 0;
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

struct removal {
    const char *job;
    bool is_alive; /* some rank is */
    bool removes;
};

static void remove_one(void *arg, const char *path)
{
    struct removal *r = arg;
    struct pages_rank key;
    char why[METRICS_WHY_BYTES];
    int fd = take_name(path, r->job, &key) ? metrics_view_open(path, false, why) : -1;
    if (fd < 0)
        return;
    r->is_alive |= metrics_view_is_alive(fd);
    close(fd);
    if (r->removes)
        held_remove(path);
}

void pages_remove(const char *folder, const char *job)
{
    struct removal removal = {.job = job};
    metrics_pages_find(folder, job, remove_one, &removal);
    removal.removes = !removal.is_alive;
    if (removal.removes)
        metrics_pages_find(folder, job, remove_one, &removal);
}

static void claim_path(const char *folder, const char *job, char path[METRICS_PATH_BYTES])
{
    snprintf(path, METRICS_PATH_BYTES, "%s/" CLAIM_PREFIX "%s", folder, job);
}

int pages_claim(const char *folder, const char *job)
{
    char path[METRICS_PATH_BYTES];
    claim_path(folder, job, path);
    return held_make(path);
}

void pages_unclaim(const char *folder, const char *job, int fd)
{
    char path[METRICS_PATH_BYTES];
    if (fd < 0)
        return;
    close(fd);
    claim_path(folder, job, path);
    held_remove(path);
}

bool pages_are_claimed(const char *folder, const char *job)
{
    char path[METRICS_PATH_BYTES];
    claim_path(folder, job, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool is_claimed = held_is(fd);
    close(fd);
    if (!is_claimed)
        held_remove(path); /* its process was killed */
    return is_claimed;
}
