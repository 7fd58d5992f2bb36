/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: see pages.h. */
#include "metrics/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lockfile.h"
#include "base/number.h"

#define CLAIM_END METRICS_MARK "reader" /* is no rank, and swept as pages are */
#define CLAIM_BYTES (METRICS_NAME_BYTES + sizeof CLAIM_END)

/* ---- which page it is -------------------------------------------------------------------------------------------- */

/* The number, if it stands alone behind a mark. */
static bool take_behind(const char **at, char mark, uint32_t most, uint32_t *out)
{
    const char *digits = *at + 1;
    if (**at != mark || !number_take(&digits, most, out))
        return false;
    *at = digits;
    return true;
}

/* JOB@RANK or JOB@RANK.CONTEXT. */
static bool take_name(const char *path, const char *job, struct pages_rank *out)
{
    const char *name = strrchr(path, '/');
    name = name != NULL ? name + 1 : path;
    const size_t length = strcspn(name, METRICS_MARK);
    const char *at = name + length;
    *out = (struct pages_rank){.number = 0};
    if (length >= sizeof out->job || !take_behind(&at, METRICS_MARK[0], INT32_MAX, &out->number))
        return false;
    if (*at != '\0' && (!take_behind(&at, '.', METRICS_SAME_RANK - 1, &out->context) || *at != '\0'))
        return false;
    memcpy(out->job, name, length);
    return metrics_name_is_good(out->job) && (job == NULL || strcmp(out->job, job) == 0);
}

static int compare_places(const void *one, const void *other)
{
    const struct pages_rank *a = *(struct pages_rank *const *)one, *b = *(struct pages_rank *const *)other;
    int order = strcmp(a->job, b->job);
    if (order == 0)
        order = (a->number > b->number) - (a->number < b->number);
    if (order == 0)
        order = (a->context > b->context) - (a->context < b->context);
    return order != 0 ? order : (a->user > b->user) - (a->user < b->user);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static bool make_room(struct pages *p)
{
    if (p->num < p->room)
        return true;
    const uint32_t room = p->room > 0 ? 2 * p->room : 16;
    struct pages_rank **more = room <= PAGES_MOST ? realloc(p->ranks, room * sizeof(struct pages_rank *)) : NULL;
    if (more == NULL)
        return false;
    p->ranks = more;
    p->room = room;
    return true;
}

struct pages_rank *pages_entry(struct pages *p, const char *job, uint32_t number, uint32_t context, uint32_t user)
{
    for (uint32_t i = p->num; i > 0; i--) /* a file has all samples of a rank of one family together */
        if (p->ranks[i - 1]->number == number && p->ranks[i - 1]->context == context && p->ranks[i - 1]->user == user &&
            strcmp(p->ranks[i - 1]->job, job) == 0)
            return p->ranks[i - 1];
    struct pages_rank *entry = make_room(p) ? calloc(1, sizeof *entry) : NULL;
    if (entry == NULL) {
        snprintf(p->why, sizeof p->why, "ranks are missing here: there are more than %d, or no memory", PAGES_MOST);
        return NULL;
    }
    snprintf(entry->job, sizeof entry->job, "%s", job);
    entry->number = number;
    entry->context = context;
    entry->user = user;
    p->ranks[p->num++] = entry;
    return entry;
}

void pages_sort(struct pages *p)
{
    if (p->num > 0)
        qsort(p->ranks, p->num, sizeof(struct pages_rank *), compare_places);
}

static void keep(struct pages *p, bool (*keeps)(const struct pages_rank *r, const char *job), const char *job)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < p->num; i++)
        if (keeps(p->ranks[i], job))
            p->ranks[num++] = p->ranks[i];
        else
            free(p->ranks[i]);
    p->num = num;
}

static bool is_there_or_of(const struct pages_rank *r, const char *job)
{
    return r->is_there || (job != NULL && strcmp(r->job, job) == 0);
}

void pages_drop_gone(struct pages *p, const char *but)
{
    keep(p, is_there_or_of, but);
}

static bool is_none(const struct pages_rank *r, const char *job)
{
    (void)r, (void)job;
    return false;
}

void pages_forget(struct pages *p)
{
    keep(p, is_none, NULL);
}

/* Not a page that its rank has made and not written yet. */
static bool was_read(const struct pages_rank *r, const char *job)
{
    (void)job;
    return r->view.body.renewed_ns != 0;
}

struct look {
    struct pages *pages;
    bool has_room;
    bool has_foreign; /* pages or folders of other users */
};

static void look_at(void *arg, const char *path)
{
    struct look *l = arg;
    struct pages_rank key;
    struct stat status;
    if (!take_name(path, l->pages->job, &key))
        return;
    int fd = metrics_view_open(path, l->pages->of_anybody, l->pages->why);
    l->has_foreign |= fd == METRICS_FOREIGN;
    if (fd < 0)
        return;
    key.user = fstat(fd, &status) == 0 ? status.st_uid : 0;
    struct pages_rank *entry = pages_entry(l->pages, key.job, key.number, key.context, key.user);
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
    look.has_foreign |= metrics_pages_find(p->root, p->job, p->of_anybody, look_at, &look) > 0;
    for (uint32_t i = 0; i < p->num; i++)
        p->ranks[i]->view.is_alive &= p->ranks[i]->is_there;
    keep(p, was_read, NULL);
    pages_sort(p);
    if (p->num == 0 && p->why[0] == '\0' && look.has_foreign)
        snprintf(p->why, sizeof p->why, "the pages of metrics on this host are other users'");
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

/* ---- which job it is about --------------------------------------------------------------------------------------- */

struct pages_job pages_job_at(const struct pages *p, uint32_t first)
{
    struct pages_job j = {p->ranks[first]->job, &p->ranks[first], 0};
    while (first + j.num < p->num && strcmp(p->ranks[first + j.num]->job, j.name) == 0)
        j.num++;
    return j;
}

static bool is_alive(const struct pages_job *j)
{
    for (uint32_t i = 0; i < j->num; i++)
        if (j->ranks[i]->view.is_alive)
            return true;
    return false;
}

struct pages_job pages_choose(const struct pages *p, const char *shown, bool *several)
{
    struct pages_job found = {.name = ""}, j;
    int best = -1;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < p->num; i += j.num) {
        j = pages_job_at(p, i);
        const bool is = is_alive(&j);
        const int order = 2 * is + (strcmp(j.name, shown) == 0);
        if (order > best) {
            best = order;
            found = j;
        }
        alive += is;
    }
    *several = alive > 1 && best == 2;
    return found;
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
    r->is_alive |= lockfile_is(fd);
    close(fd);
    if (r->removes)
        lockfile_remove(path);
}

void pages_remove(const char *root, const char *job)
{
    struct removal removal = {.job = job};
    metrics_pages_find(root, job, false, remove_one, &removal);
    removal.removes = !removal.is_alive;
    if (removal.removes)
        metrics_pages_find(root, job, false, remove_one, &removal);
    metrics_folders_tidy(root);
}

static void name_claim(const char *job, char name[CLAIM_BYTES])
{
    snprintf(name, CLAIM_BYTES, "%.*s" CLAIM_END, METRICS_NAME_BYTES - 1, job);
}

int pages_claim(const char *root, const char *job)
{
    char name[CLAIM_BYTES], path[METRICS_PATH_BYTES];
    name_claim(job, name);
    return metrics_folder_hold(root, name, path);
}

/* A claim in a folder of this user: whether it is held, or removed otherwise. */
struct claim {
    char name[CLAIM_BYTES];
    bool is_held;
};

static void look_for_claim(void *arg, const char *folder)
{
    struct claim *c = arg;
    char path[METRICS_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", folder, c->name) >= (int)sizeof path)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool is_held = lockfile_is(fd);
    close(fd);
    if (!is_held)
        lockfile_remove(path); /* its process was killed */
    c->is_held |= is_held;
}

bool pages_are_claimed(const char *root, const char *job)
{
    struct claim claim = {.is_held = false};
    name_claim(job, claim.name);
    metrics_folders_find(root, false, look_for_claim, &claim);
    metrics_folders_tidy(root);
    return claim.is_held;
}

void pages_unclaim(const char *root, const char *job, int fd)
{
    if (fd < 0)
        return;
    close(fd);
    pages_are_claimed(root, job); /* which removes one that nobody holds */
}
