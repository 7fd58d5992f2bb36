/* SPDX-License-Identifier: BSD-3-Clause */
/* link: see link.h. Frames under way are in a heap, ordered by the time when they are due, then by their arrival. */
#include "lab/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct frame {
    uint64_t due_ns, order;
    uint32_t size;
    uint8_t *bytes;
};

struct link {
    struct link_settings settings;
    struct link_counts counts;
    uint64_t random, order;
    uint64_t free_ns; /* when the line will have sent all that entered */
    uint32_t num;
    struct frame heap[LINK_QUEUE_MAX];
};

static const struct link_settings good = {.queue = LINK_QUEUE};

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static bool number(const char *text, double least, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= least && *out <= most;
}

static bool parse_word(const char *word, struct link_settings *s)
{
    double x;
    const char *value = strchr(word, '=');
    size_t name = value != NULL ? (size_t)(value - word) : 0;
    if (value == NULL) {
        s->cut = true;
        return strcmp(word, "cut") == 0;
    }
    value++;
#define NAMED(text) (name == strlen(text) && strncmp(word, text, name) == 0)
    if (NAMED("delay_ms") && number(value, 0, 60000, &x))
        s->delay_ns = (uint64_t)(x * 1e6);
    else if (NAMED("jitter_ms") && number(value, 0, 60000, &x))
        s->jitter_ns = (uint64_t)(x * 1e6);
    else if (NAMED("rate_mbit") && number(value, 0.001, 1e6, &x))
        s->rate = (uint64_t)(x * 1e6);
    else if (NAMED("loss") && number(value, 0, 100, &x))
        s->loss = (uint32_t)(x * LINK_SURE / 100);
    else if (NAMED("duplicate") && number(value, 0, 100, &x))
        s->duplicate = (uint32_t)(x * LINK_SURE / 100);
    else if (NAMED("reorder") && number(value, 0, 100, &x))
        s->reorder = (uint32_t)(x * LINK_SURE / 100);
    else if (NAMED("queue") && number(value, 1, LINK_QUEUE_MAX, &x))
        s->queue = (uint32_t)x;
    else
        return false;
#undef NAMED
    return true;
}

bool link_settings_parse(const char *text, struct link_settings *out, char *bad, size_t bad_size)
{
    struct link_settings s = good;
    char word[64];
    for (;;) {
        text += strspn(text, " \t\r\n");
        size_t size = strcspn(text, " \t\r\n");
        if (size == 0)
            break;
        snprintf(word, sizeof word, "%.*s", (int)(size < sizeof word ? size : sizeof word - 1), text);
        if (size >= sizeof word || !parse_word(word, &s)) {
            snprintf(bad, bad_size, "%s", word);
            return false;
        }
        text += size;
    }
    *out = s;
    return true;
}

/* ---- chance ------------------------------------------------------------------------------------------------------ */

static uint64_t next_random(struct link *l)
{
    uint64_t x = l->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool happens(struct link *l, uint32_t chance)
{
    return next_random(l) % LINK_SURE < chance;
}

/* ---- frames under way -------------------------------------------------------------------------------------------- */

static bool before(const struct frame *a, const struct frame *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void put(struct link *l, struct frame f)
{
    uint32_t i = l->num++;
    for (; i > 0 && before(&f, &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = f;
}

static struct frame take_first(struct link *l)
{
    struct frame first = l->heap[0], last = l->heap[--l->num];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < l->num && before(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (child >= l->num || !before(&l->heap[child], &last))
            break;
        l->heap[i] = l->heap[child];
        i = child;
    }
    l->heap[i] = last;
    return first;
}

/* When a frame that enters now leaves: after those before it have passed the line, and after its delay. */
static uint64_t due_of(struct link *l, uint64_t now_ns, uint32_t size)
{
    const struct link_settings *s = &l->settings;
    uint64_t due = now_ns;
    if (s->rate > 0) {
        if (l->free_ns < now_ns)
            l->free_ns = now_ns;
        l->free_ns += (uint64_t)size * 8 * UINT64_C(1000000000) / s->rate;
        due = l->free_ns;
    }
    due += s->delay_ns;
    if (s->jitter_ns > 0)
        due += next_random(l) % (s->jitter_ns + 1);
    if (happens(l, s->reorder)) {
        l->counts.reordered++;
        due += LINK_OVERTAKEN_NS;
    }
    return due;
}

static void enter(struct link *l, uint64_t now_ns, const void *bytes, uint32_t size)
{
    uint8_t *copy = l->num < l->settings.queue ? malloc(size) : NULL;
    if (copy == NULL) {
        l->counts.full++;
        return;
    }
    memcpy(copy, bytes, size);
    put(l, (struct frame){.due_ns = due_of(l, now_ns, size), .order = l->order++, .size = size, .bytes = copy});
}

/* ---- the link ---------------------------------------------------------------------------------------------------- */

struct link *link_create(uint64_t seed)
{
    struct link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->settings = good;
    l->random = seed;
    return l;
}

void link_destroy(struct link *l)
{
    if (l == NULL)
        return;
    while (l->num > 0)
        free(l->heap[--l->num].bytes);
    free(l);
}

void link_set(struct link *l, const struct link_settings *s)
{
    l->settings = *s;
    l->free_ns = 0;
    while (s->cut && l->num > 0) {
        free(l->heap[--l->num].bytes);
        l->counts.cut++;
    }
}

void link_take(struct link *l, uint64_t now_ns, const void *frame, uint32_t size)
{
    l->counts.taken++;
    if (l->settings.cut) {
        l->counts.cut++;
        return;
    }
    if (size == 0 || size > LINK_FRAME_MAX || happens(l, l->settings.loss)) {
        l->counts.lost++;
        return;
    }
    bool twice = happens(l, l->settings.duplicate);
    enter(l, now_ns, frame, size);
    if (twice) {
        l->counts.duplicated++;
        enter(l, now_ns, frame, size);
    }
}

uint64_t link_due_ns(const struct link *l)
{
    return l->num > 0 ? l->heap[0].due_ns : UINT64_MAX;
}

uint32_t link_give(struct link *l, uint64_t now_ns, uint8_t frame[LINK_FRAME_MAX])
{
    if (link_due_ns(l) > now_ns)
        return 0;
    struct frame f = take_first(l);
    memcpy(frame, f.bytes, f.size);
    free(f.bytes);
    l->counts.given++;
    return f.size;
}

const struct link_counts *link_counts(const struct link *l)
{
    return &l->counts;
}
