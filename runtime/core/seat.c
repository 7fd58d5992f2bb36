/* SPDX-License-Identifier: BSD-3-Clause */
/* seat: see seat.h. */
#include "core/seat.h"

#include <string.h>

#include "core/peer.h"
#include "core/state.h"
#include "core/survey.h"

struct reader {
    struct seat *seat;
    struct push *push;
    uint64_t want, until_ns;
    uint32_t asks;
    uint8_t state; /* enum reader_state */
    bool expected, lost;
};

struct seat {
    const char *name; /* of its engine; "": of any */
    uint32_t engine;  /* that has taken it; DIRECTORY_NONE: none, or it has gone since */
    uint32_t open;    /* expected readers that have not ended */
    bool taken, complete;
    uint32_t num_readers;
    struct reader *readers; /* by index in the engine */
};

struct seats {
    const struct port_handoff *handoff; /* NULL: seats are not shared */
    uint32_t slot;
    uint64_t generation;
    int32_t error, error_rank;
    uint32_t error_engine; /* of that rank */
    uint32_t num;
    struct seat of[BATON_CONSUMERS_MAX];
};

/* ---- seats ------------------------------------------------------------------------------------------------------- */

struct seats *seats_create(const char (*names)[BATON_ENGINE_NAME_MAX], uint32_t num)
{
    struct seats *s = reap_new(sizeof *s);
    if (s == NULL)
        return NULL;
    s->error_rank = -1;
    s->num = num;
    for (uint32_t i = 0; i < num; i++)
        s->of[i] = (struct seat){.name = names[i], .engine = DIRECTORY_NONE};
    return s;
}

void seats_share(struct seats *s, const struct port_handoff *handoff, uint32_t slot, uint64_t generation)
{
    s->handoff = handoff;
    s->slot = slot;
    s->generation = generation;
}

void seats_destroy(struct core *core, struct seats *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->num; i++) {
        for (uint32_t k = 0; k < s->of[i].num_readers; k++)
            reader_rest(core, &s->of[i].readers[k]);
        reap_add(&core->reap, s->of[i].readers);
    }
    reap_add(&core->reap, s);
}

static int seat_take(struct core *core, struct seat *seat, uint32_t engine)
{
    const struct readers *readers = readers_of(core, engine);
    uint32_t n = core->c.directory->engines[engine]->num_ranks;
    if (readers == NULL)
        return BATON_EBUSY; /* it has said nothing yet */
    seat->readers = reap_new(n * sizeof *seat->readers);
    if (seat->readers == NULL)
        return BATON_ENOMEM;
    seat->engine = engine;
    seat->taken = true;
    seat->num_readers = n;
    for (uint32_t i = 0; i < n; i++) {
        seat->readers[i].seat = seat;
        seat->readers[i].expected = readers_have(readers, i);
        seat->open += seat->readers[i].expected;
    }
    return 0;
}

/* Whether that engine may take it, or has. */
static bool is_for(const struct core *core, const struct seat *seat, uint32_t engine)
{
    return seat->taken ? seat->engine == engine
                       : seat->name[0] == '\0' || strcmp(seat->name, core->c.directory->engines[engine]->name) == 0;
}

/* A free seat for any engine: where ranks of this node take seats too, that which this one has by words. */
static struct seat *find_free(const struct core *core, struct seats *s, uint32_t engine)
{
    uint32_t i = 0;
    if (s->handoff != NULL) {
        const uint64_t identity = directory_identity(core->c.directory, engine);
        const int bound = s->handoff->bind(s->handoff->self, s->slot, s->generation, identity);
        i = bound >= 0 ? (uint32_t)bound : s->num;
    }
    while (i < s->num && s->handoff == NULL && !is_for(core, &s->of[i], engine))
        i++;
    return i < s->num && is_for(core, &s->of[i], engine) ? &s->of[i] : NULL; /* words may say anything */
}

/* The seat of that engine, taken by it now if one is named for it or free for any. */
static int take(struct core *core, struct seats *s, uint32_t engine, bool has_taken, struct seat **out)
{
    const struct directory_engine *e = core->c.directory->engines[engine];
    *out = NULL;
    for (uint32_t i = 0; i < s->num && *out == NULL; i++)
        if ((s->of[i].taken || s->of[i].name[0] != '\0') && is_for(core, &s->of[i], engine))
            *out = &s->of[i];
    if (*out != NULL && (*out)->taken)
        return 0;
    const bool has_gone = e->state == DIRECTORY_GONE;
    if (e->state != DIRECTORY_WHOLE && !(has_taken && has_gone && directory_is_complete(e)))
        return has_gone ? BATON_EPEER : BATON_EBUSY; /* words would keep a seat for it */
    if (*out == NULL)
        *out = find_free(core, s, engine);
    if (*out == NULL)
        return BATON_ESEAT;
    return (*out)->taken ? 0 : seat_take(core, *out, engine);
}

bool seats_are_complete(const struct seats *s)
{
    for (uint32_t i = 0; i < s->num; i++)
        if (!s->of[i].complete)
            return false;
    return true;
}

uint32_t seats_missing(const struct seats *s)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < s->num; i++)
        missing += s->of[i].taken ? s->of[i].open : 1;
    return missing;
}

int32_t seats_error(const struct seats *s, int32_t *rank)
{
    *rank = s->error_rank;
    return s->error;
}

uint32_t seats_untaken(const struct core *core, const struct seats *s, uint32_t engines[BATON_CONSUMERS_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->num; i++) {
        const bool is_named = !s->of[i].taken && s->of[i].name[0] != '\0';
        const uint32_t engine = is_named ? directory_find(core->c.directory, s->of[i].name) : DIRECTORY_NONE;
        if (engine != DIRECTORY_NONE)
            engines[n++] = engine;
    }
    return n;
}

/* Its readers are forgotten; they must have nothing in hand. */
static void seat_clear(struct core *core, struct seat *seat)
{
    for (uint32_t i = 0; i < seat->num_readers; i++)
        reader_rest(core, &seat->readers[i]);
    reap_add(&core->reap, seat->readers);
    seat->readers = NULL;
    seat->num_readers = 0;
    seat->engine = DIRECTORY_NONE;
}

bool seats_lose(struct core *core, struct seats *s, uint32_t engine)
{
    for (uint32_t i = 0; i < s->num; i++) {
        struct seat *seat = &s->of[i];
        bool has_begun = false, is_written_to = false;
        if (!seat->taken || seat->engine != engine)
            continue;
        for (uint32_t k = 0; k < seat->num_readers; k++) {
            has_begun |= seat->readers[k].state != READER_NONE;
            is_written_to |= seat->readers[k].push != NULL;
        }
        if (!seat->complete && has_begun)
            return false;
        if (is_written_to)
            continue; /* until that is quiet */
        seat_clear(core, seat);
        seat->taken = seat->complete;
        seat->open = 0;
        if (s->handoff != NULL)
            s->handoff->vacate(s->handoff->self, s->slot, s->generation, i, !seat->complete);
    }
    return true;
}

bool seats_know(const struct seats *s, uint32_t engine)
{
    if (s->error != 0 && s->error_engine == engine) /* the offer's end names its rank */
        return true;
    for (uint32_t i = 0; i < s->num; i++)
        if (s->of[i].taken && s->of[i].engine == engine)
            return true;
    return false;
}

struct reader *seats_next(const struct seats *s, const struct reader *r)
{
    const struct seat *seat = r != NULL ? r->seat : s->of, *end = s->of + s->num;
    uint32_t next = r != NULL ? (uint32_t)(r - seat->readers) + 1 : 0;
    while (seat < end && next >= seat->num_readers) {
        seat++;
        next = 0;
    }
    return seat < end ? &seat->readers[next] : NULL;
}

uint64_t seats_wanted_until(const struct seats *s)
{
    uint64_t until = 0;
    for (const struct reader *r = seats_next(s, NULL); r != NULL; r = seats_next(s, r))
        if (r->state == READER_GRANTED && !r->lost && r->until_ns > until)
            until = r->until_ns;
    return until;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

struct reader *reader_of(const struct core *core, const struct seats *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->num; i++)
        if (s->of[i].taken && s->of[i].engine == core->c.directory->engine_of[rank])
            return &s->of[i].readers[core->c.directory->index_of[rank]];
    return NULL;
}

static struct reader *take_for(struct core *core, struct seats *s, uint32_t rank, bool has_taken, int *error)
{
    struct seat *seat;
    *error = take(core, s, core->c.directory->engine_of[rank], has_taken, &seat);
    return *error == 0 ? &seat->readers[core->c.directory->index_of[rank]] : NULL;
}

struct reader *reader_take(struct core *core, struct seats *s, uint32_t rank, int *error)
{
    return take_for(core, s, rank, false, error);
}

struct reader *reader_took(struct core *core, struct seats *s, uint32_t rank, int *error)
{
    return take_for(core, s, rank, true, error);
}

uint32_t reader_rank(const struct core *core, const struct reader *r)
{
    return core->c.directory->engines[r->seat->engine]->ranks[r - r->seat->readers];
}

enum reader_state reader_state(const struct reader *r)
{
    return (enum reader_state)r->state;
}

bool reader_is_expected(const struct reader *r)
{
    return r->expected;
}

uint64_t reader_want(const struct reader *r)
{
    return r->want;
}

uint32_t reader_asks(const struct reader *r)
{
    return r->asks;
}

struct push *reader_push(const struct reader *r)
{
    return r->push;
}

void reader_set_push(struct reader *r, struct push *push)
{
    r->push = push;
}

int reader_grant(struct core *core, struct reader *r)
{
    if (r->state != READER_NONE)
        return 0;
    uint32_t rank = reader_rank(core, r);
    int rc = peer_begin(core, rank);
    if (rc != 0)
        return rc;
    r->state = READER_GRANTED;
    core->serving += path_is_far(core->c.path[rank]);
    return 0;
}

void reader_note(struct reader *r, const struct word *w)
{
    r->want = w->want;
    r->asks = w->asks;
    r->until_ns = w->until_ns;
}

void reader_note_end(struct reader *r, uint64_t want)
{
    r->want = want;
}

void reader_rest(struct core *core, struct reader *r)
{
    if (r->state != READER_GRANTED)
        return;
    uint32_t rank = reader_rank(core, r);
    r->state = READER_NONE;
    peer_end(core, rank);
    core->serving -= path_is_far(core->c.path[rank]);
}

/* Its end is not waited for any more, nor is a second word of it counted. */
static void count_end(struct core *core, struct seats *s, struct reader *r, int32_t error)
{
    struct seat *seat = r->seat;
    if (error != 0 && s->error == 0) {
        s->error = error;
        s->error_rank = (int32_t)reader_rank(core, r);
        s->error_engine = seat->engine;
    }
    if (r->expected)
        seat->open--;
    if (seat->open == 0)
        seat->complete = true;
}

void reader_undo(struct core *core, struct seats *s, struct reader *r)
{
    struct seat *seat = r->seat;
    if (r->lost) { /* it is waited for again */
        r->lost = false;
        seat->open += r->expected;
        seat->complete = false;
    }
    reader_rest(core, r);
    for (uint32_t i = 0; i < seat->num_readers; i++)
        if (seat->readers[i].state != READER_NONE)
            return;
    if (s->handoff != NULL)
        return;
    reap_add(&core->reap, seat->readers);
    *seat = (struct seat){.name = seat->name, .engine = DIRECTORY_NONE};
}

void reader_end(struct core *core, struct seats *s, struct reader *r, int32_t error)
{
    if (r->state == READER_ENDED)
        return; /* identity, not counting */
    reader_rest(core, r);
    r->state = READER_ENDED;
    if (!r->lost)
        count_end(core, s, r, error);
}

void reader_lose(struct core *core, struct seats *s, struct reader *r)
{
    if (r->lost)
        return;
    r->lost = true;
    count_end(core, s, r, BATON_EPEER);
}
