/* SPDX-License-Identifier: BSD-3-Clause */
/* survey: see survey.h. For one rank the answer takes microseconds, for all ranks of a large engine it takes long. */
#include "core/survey.h"

#include <stdlib.h>
#include <string.h>

#include "core/early.h"
#include "core/state.h"

/* A message that waits until the readers of its engine are known. */
struct kept {
    struct kept *prev, *next;
    uint64_t came_ns;
    uint32_t peer, bytes;
    uint8_t data[];
};

struct readers {
    struct work work; /* first */
    uint32_t engine, known;
    bool *reads;            /* by index in the engine: it reads from me. Filled up to `known` */
    uint32_t *first;        /* by index: where its boxes begin; one entry more than ranks */
    struct plan_box *boxes; /* of all its ranks, in order of index */
    uint32_t num_boxes, room;
    struct kept *words;
};

struct survey {
    uint32_t num_open;         /* readers that are not all known yet */
    struct kept *words;        /* news: their readers are known by now */
    struct readers *readers[]; /* by engine; found out on demand */
};

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

/* Enough for one consumer whose producers cut heads and layers as engines do. */
static uint32_t sources_most(uint32_t n)
{
    return BATON_SPLITS_MAX * (4 * n + 16);
}

int survey_sources(struct core *core, const struct directory_engine *consumer, uint32_t index,
                   const struct directory_engine *producer, struct plan_source **out, struct plan_why *why)
{
    uint32_t most = sources_most(producer->num_ranks);
    struct plan_source *sources = malloc(most * sizeof *sources);
    if (sources == NULL)
        return BATON_ENOMEM;
    int n = plan_sources(&consumer->members[index], index, plan_turn(consumer->name), producer->members,
                         producer->num_ranks, sources, most, why);
    core->works.looks += producer->num_ranks;
    if (n < 0) {
        free(sources);
        return n;
    }
    *out = sources;
    return n;
}

int survey_served(struct core *core, const struct directory_engine *consumer, uint32_t index,
                  const struct directory_engine *producer)
{
    struct plan_source *sources;
    struct plan_why why;
    int n = survey_sources(core, consumer, index, producer, &sources, &why);
    if (n >= 0)
        free(sources);
    return n == BATON_ENOMEM ? n : n > 0;
}

/* ---- my readers -------------------------------------------------------------------------------------------------- */

static void kept_free(struct core *core, struct kept *w)
{
    early_drop(core, w->peer, EARLY_LIVE);
    free(w);
}

static void kept_all_free(struct core *core, struct kept *words)
{
    struct kept *w, *next;
    DL_FOREACH_SAFE(words, w, next)
    {
        kept_free(core, w);
    }
}

static void readers_destroy(struct core *core, struct readers *r)
{
    kept_all_free(core, r->words);
    free(r->reads);
    free(r->first);
    free(r->boxes);
    free(r);
}

int survey_create(struct core *core)
{
    core->survey = calloc(1, sizeof *core->survey + core->c.directory->most * sizeof core->survey->readers[0]);
    return core->survey != NULL ? 0 : BATON_ENOMEM;
}

void survey_destroy(struct core *core)
{
    if (core->survey == NULL)
        return;
    kept_all_free(core, core->survey->words);
    for (uint32_t e = 0; e < core->c.directory->num_engines; e++)
        if (core->survey->readers[e] != NULL)
            readers_destroy(core, core->survey->readers[e]);
    free(core->survey);
}

static bool box_add(struct readers *r, const struct plan_box *box)
{
    if (r->num_boxes == r->room) {
        uint32_t room = 2 * r->room + 16;
        struct plan_box *more = realloc(r->boxes, room * sizeof *more);
        if (more == NULL)
            return false;
        r->boxes = more;
        r->room = room;
    }
    r->boxes[r->num_boxes++] = *box;
    return true;
}

/* Finds out of one rank of the consumer's engine whether it reads from me, and what would be written to it. */
static bool look_at(struct core *core, struct readers *r, uint32_t i)
{
    const struct directory_engine *consumer = core->c.directory->engines[r->engine];
    const struct directory_engine *mine = core->c.directory->engines[core_engine(core)];
    struct plan_source *sources;
    struct plan_why why;
    bool is_room = true;
    r->num_boxes = r->first[i];
    core->works.looks++;
    if (plan_members_share(&consumer->members[i], &mine->members[core_index(core)])) {
        int n = survey_sources(core, consumer, i, mine, &sources, &why);
        if (n == BATON_ENOMEM)
            return false;
        for (int k = 0; is_room && k < n; k++)
            if (sources[k].member == core_index(core))
                is_room = box_add(r, &sources[k].box);
        if (n >= 0)
            free(sources);
        r->reads[i] = n > 0;
    }
    r->first[i + 1] = r->num_boxes;
    return is_room;
}

static enum work_state readers_piece(struct core *core, struct work *work)
{
    struct readers *r = (struct readers *)work;
    if (!look_at(core, r, r->known))
        return WORK_LATER;
    if (++r->known < core->c.directory->engines[r->engine]->num_ranks)
        return WORK_MORE;
    DL_CONCAT(core->survey->words, r->words);
    r->words = NULL;
    core->survey->num_open--;
    return WORK_DONE;
}

bool readers_take_word(struct core *core, uint32_t *peer, struct wire_message *m)
{
    struct kept *w = core->survey->words;
    if (w == NULL)
        return false;
    DL_DELETE(core->survey->words, w);
    uint64_t waited_ms = (core->now - w->came_ns + NS_PER_MS - 1) / NS_PER_MS;
    wire_decode(w->data, w->bytes, m); /* which succeeded when it came */
    uint32_t *left_ms = m->type == WIRE_WANT ? &m->want.time_left_ms : &m->end.time_left_ms;
    if (*left_ms > 0)
        *left_ms = *left_ms > waited_ms ? *left_ms - (uint32_t)waited_ms : 1;
    *peer = w->peer;
    kept_free(core, w);
    return true;
}

static void drop_words(struct core *core, struct kept **list, uint32_t rank)
{
    struct kept *w, *next;
    DL_FOREACH_SAFE(*list, w, next)
    {
        if (w->peer != rank)
            continue;
        DL_DELETE(*list, w);
        kept_free(core, w);
    }
}

void readers_drop_words(struct core *core, uint32_t rank)
{
    struct readers *r = core->survey->readers[core->c.directory->engine_of[rank]];
    drop_words(core, &core->survey->words, rank);
    if (r != NULL)
        drop_words(core, &r->words, rank);
}

void survey_forget(struct core *core, uint32_t engine)
{
    struct readers *r = core->survey->readers[engine];
    if (r == NULL)
        return;
    if (readers_of(core, engine) == NULL) {
        work_end(&core->works, &r->work);
        core->survey->num_open--;
    }
    readers_destroy(core, r);
    core->survey->readers[engine] = NULL;
}

/* Who reads from whom can be found out once all ranks of both engines have come. */
static bool can_begin(const struct core *core, uint32_t engine)
{
    const struct directory *d = core->c.directory;
    return directory_is_complete(d->engines[engine]) && directory_is_complete(d->engines[core_engine(core)]);
}

void readers_begin(struct core *core, uint32_t engine)
{
    uint32_t n = core->c.directory->engines[engine]->num_ranks;
    const bool begins = core->survey->readers[engine] == NULL && can_begin(core, engine);
    struct readers *r = begins ? calloc(1, sizeof *r) : NULL;
    if (r == NULL)
        return;
    r->engine = engine;
    r->reads = calloc(n, sizeof *r->reads);
    r->first = calloc(n + 1, sizeof *r->first);
    if (r->reads == NULL || r->first == NULL) {
        readers_destroy(core, r);
        return;
    }
    core->survey->readers[engine] = r;
    core->survey->num_open++;
    work_begin(core, &core->works, &r->work, readers_piece);
}

bool survey_is_open(const struct core *core)
{
    return core->survey->num_open > 0;
}

const struct readers *readers_of(const struct core *core, uint32_t engine)
{
    const struct readers *r = core->survey->readers[engine];
    return r != NULL && r->known == core->c.directory->engines[engine]->num_ranks ? r : NULL;
}

bool readers_have(const struct readers *r, uint32_t index)
{
    return r->reads[index];
}

const struct plan_box *readers_boxes(const struct readers *r, uint32_t index, uint32_t *num)
{
    *num = r->first[index + 1] - r->first[index];
    return &r->boxes[r->first[index]];
}

bool readers_await(struct core *core, const struct port_event *e)
{
    uint32_t engine = core->c.directory->engine_of[e->peer];
    readers_begin(core, engine);
    struct readers *r = core->survey->readers[engine];
    if (readers_of(core, engine) != NULL)
        return false;
    if (!can_begin(core, engine))
        return true;
    const bool may_keep = early_may_keep(core, e->peer, EARLY_LIVE);
    struct kept *w = r != NULL && may_keep ? malloc(sizeof *w + e->bytes) : NULL;
    if (w == NULL) {
        log_line(core->c.log, LOG_WARN, "a word of rank %u was dropped: %s", e->peer,
                 may_keep ? "no memory for it" : "too many wait until its engine is known");
        return true;
    }
    w->peer = e->peer;
    w->bytes = e->bytes;
    w->came_ns = core->now;
    memcpy(w->data, e->data, e->bytes);
    DL_APPEND(r->words, w);
    early_keep(core, w->peer, EARLY_LIVE);
    return true;
}
