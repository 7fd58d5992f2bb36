/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * members: engines that come and go, and come again by the same name. Each rank has a directory of its own, and hears
 * of each coming and going at a time of its own: soon, late or never, in any order.
 *
 * What must be true: the ranks of an engine are of one life; no number is known twice; a want ends when its rank hears
 * that the engine went; a rank knows nothing of those who have gone and with whom it has nothing open.
 */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_MS 200u      /* nobody comes or goes by plan after that */
#define FORGOTTEN_MS 100u /* after the last news of an engine, and the end of what was open, it is forgotten */

/* ---- what a rank knows ------------------------------------------------------------------------------------------- */

static bool is_known(const struct storm_rank *r, uint32_t member)
{
    return r->view[member].rank != DIRECTORY_NONE;
}

const struct storm_life *storm_find(const struct storm_rank *r, uint32_t name, uint32_t *index)
{
    char text[BATON_ENGINE_NAME_MAX];
    snprintf(text, sizeof text, "e%u", name);
    *index = directory_find(r->directory, text);
    if (*index == DIRECTORY_NONE || r->directory->engines[*index]->state != DIRECTORY_WHOLE)
        return NULL;
    return storm_life_of(r->storm, r->member_at[r->directory->engines[*index]->ranks[0]]);
}

uint64_t storm_gone_ns(const struct storm *s, const struct storm_rank *r, uint32_t life)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < s->lives[life].num_ranks; i++) {
        const uint64_t left_ns = r->view[s->lives[life].ranks[i]].left_ns;
        first = left_ns != 0 && (first == 0 || left_ns < first) ? left_ns : first;
    }
    return first;
}

bool storm_is_whole(const struct storm_rank *r, uint32_t life)
{
    const struct storm_life *l = &r->storm->lives[life];
    for (uint32_t i = 0; i < l->num_ranks; i++)
        if (!is_known(r, l->ranks[i]))
            return false;
    return storm_gone_ns(r->storm, r, life) == 0;
}

/* The ranks of an engine are of one life, whatever came first. */
static void check_engine(const struct storm_rank *r, uint32_t engine)
{
    const struct directory_engine *e = r->directory->engines[engine];
    uint32_t life = DIRECTORY_NONE;
    for (uint32_t i = 0; i < e->num_ranks; i++) {
        const uint32_t member = e->ranks[i] != DIRECTORY_NONE ? r->member_at[e->ranks[i]] : DIRECTORY_NONE;
        if (member == DIRECTORY_NONE)
            continue;
        if (life != DIRECTORY_NONE && life != r->storm->ranks[member].life)
            storm_fail(r->storm, "rank %u: engine %s has ranks of two lives", r->rank, e->name);
        life = r->storm->ranks[member].life;
    }
}

/* Enters it into the rank's directory. 0, or an error of directory_join. */
static int meet(struct storm_rank *r, uint32_t member)
{
    struct storm *s = r->storm;
    struct plan_why why;
    uint32_t rank;
    const int rc = directory_join(r->directory, s->ranks[member].row, &rank, &why);
    if (rc != 0)
        return rc;
    r->view[member].rank = rank;
    r->view[member].since_ns = s->now;
    r->member_at[rank] = member;
    r->path[rank] = s->path[r->rank * s->num_ranks + member];
    check_engine(r, r->directory->engine_of[rank]);
    return 0;
}

/* Two ranks find each other's words once both know each other. */
static void meet_words(struct storm_rank *a, struct storm_rank *b)
{
    if (a == b || !is_known(a, b->rank) || !is_known(b, a->rank) || a->view[b->rank].left_ns != 0 ||
        b->view[a->rank].left_ns != 0)
        return;
    storm_words_join(a->storm, a, b);
    storm_words_join(a->storm, b, a);
}

/* Its directory, which has itself. */
static void appear(struct storm *s, struct storm_rank *r)
{
    for (uint32_t i = 0; i < STORM_RANKS_MAX; i++)
        r->view[i].rank = r->member_at[i] = DIRECTORY_NONE;
    if (directory_create(s->most_ranks, &r->directory) != 0)
        storm_fail(s, "no directory");
}

static void enter(struct storm *s, struct storm_rank *r, uint32_t member)
{
    const int rc = meet(r, member);
    if (rc != 0)
        storm_fail(s, "rank %u cannot know rank %u: %s", r->rank, member, baton_strerror(rc));
}

/* The ranks that are there, in a random order where that may differ. */
static uint32_t list_there(struct storm *s, uint32_t out[STORM_RANKS_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->num_ranks; i++) {
        if (s->ranks[i].fate == STORM_CRASHED || s->ranks[i].fate == STORM_AWAITED)
            continue;
        const uint32_t at = s->changes ? storm_luck(s, n + 1) : n;
        out[n++] = out[at];
        out[at] = i;
    }
    return n;
}

void storm_meet_all(struct storm *s)
{
    uint32_t there[STORM_RANKS_MAX], n;
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (s->ranks[i].life < s->num_engines)
            s->ranks[i].fate = STORM_RUNS;
    for (uint32_t i = 0; i < s->num_ranks && !s->failed; i++) {
        struct storm_rank *r = &s->ranks[i];
        if (r->fate == STORM_AWAITED)
            continue;
        appear(s, r);
        n = list_there(s, there);
        for (uint32_t k = 0; k < n; k++)
            enter(s, r, there[k]);
        storm_words(s, r);
    }
    n = list_there(s, there);
    for (uint32_t i = 0; i < n && !s->failed; i++)
        for (uint32_t k = 0; k < i; k++)
            meet_words(&s->ranks[there[i]], &s->ranks[there[k]]);
    for (uint32_t i = 0; i < s->num_ranks && !s->failed; i++)
        if (s->ranks[i].fate == STORM_RUNS)
            storm_begin(s, &s->ranks[i]);
}

/* ---- lives ------------------------------------------------------------------------------------------------------- */

/* Another start of the same engine, or of one that was set up anew. */
static struct storm_kind next_kind(struct storm *s, const struct storm_kind *kind)
{
    struct storm_kind next = *kind;
    if (storm_luck(s, 3) > 0)
        return next;
    next.tp = next.tp <= 2 ? 1 + storm_luck(s, 2) : next.tp;
    next.num_blocks = 8 + storm_luck(s, 24);
    next.verdicts = storm_luck(s, 3);
    return next;
}

/* As many as can be there at a time, one life of each name. */
static uint32_t most_there(const struct storm *s)
{
    uint32_t most[STORM_LIVES_MAX] = {0}, sum = 0;
    for (uint32_t i = 0; i < s->num_lives; i++)
        if (s->lives[i].num_ranks > most[s->lives[i].name])
            most[s->lives[i].name] = s->lives[i].num_ranks;
    for (uint32_t name = 0; name < s->num_engines; name++)
        sum += most[name];
    return sum;
}

void storm_draw_lives(struct storm *s, const struct storm_kind *kinds, uint32_t nodes)
{
    const uint64_t random = s->random; /* all else is drawn as it is without */
    uint32_t lives = 1 + storm_luck(s, 2 * s->num_engines);
    s->random = storm_hash(s->luck);
    while (lives-- > 0 && s->num_lives < STORM_LIVES_MAX) {
        const uint32_t name = storm_luck(s, s->num_engines);
        const struct storm_kind kind = next_kind(s, &kinds[name]);
        if (s->num_ranks + kind.tp * kind.pp > STORM_RANKS_MAX)
            break;
        storm_build_life(s, &kind, name, nodes);
    }
    s->most_ranks = most_there(s) + storm_luck(s, 8); /* and some that are not forgotten yet */
    s->most_ranks = s->most_ranks < STORM_RANKS_MAX ? s->most_ranks : STORM_RANKS_MAX;
    s->random = random;
}

/* ---- when they come and go --------------------------------------------------------------------------------------- */

static void plan(struct storm *s, enum storm_action action, uint32_t rank, uint64_t at)
{
    storm_later(s, at, &(struct storm_plan){.action = action, .rank = rank});
}

/* All ranks of a life go: in order, or dead, all at once or one after the other. Returns when the first one does. */
static uint64_t draw_end(struct storm *s, const struct storm_life *life, uint64_t from)
{
    const uint64_t at = from + storm_luck(s, 50000) * STORM_US;
    const uint32_t how = storm_luck(s, 3), spread = storm_luck(s, 2) == 0 ? 500 : 30000;
    const uint32_t first = storm_luck(s, life->num_ranks);
    for (uint32_t i = 0; i < life->num_ranks; i++) {
        const bool dies = how == 0 || (how == 1 && i == first);
        plan(s, dies ? STORM_CRASH : STORM_GO, life->ranks[i],
             at + (i == first ? 0 : storm_luck(s, spread) * STORM_US));
    }
    return at;
}

/* Returns when all have come. */
static uint64_t draw_coming(struct storm *s, const struct storm_life *life, uint64_t at)
{
    const uint32_t spread = storm_luck(s, 2) == 0 ? 200 : 10000;
    for (uint32_t i = 0; i < life->num_ranks; i++)
        plan(s, STORM_COME, life->ranks[i], at + storm_luck(s, spread) * STORM_US);
    return at + spread * STORM_US;
}

/* One life of a name after the other: at once, or after a while. */
static void draw_lives_of(struct storm *s, uint32_t name)
{
    const struct storm_life *last = NULL;
    uint64_t at = storm_luck(s, 40000) * STORM_US;
    for (uint32_t i = 0; i < s->num_lives; i++) {
        if (s->lives[i].name != name)
            continue;
        if (last != NULL) {
            at = draw_end(s, last, at) + (storm_luck(s, 2) == 0 ? storm_luck(s, 500) : storm_luck(s, 40000)) * STORM_US;
            if (at > LAST_MS * STORM_MS)
                return;
            storm_draw_request(s, at);
            at = draw_coming(s, &s->lives[i], at);
        }
        last = &s->lives[i];
    }
    if (storm_luck(s, 3) == 0)
        draw_end(s, last, at);
}

void storm_draw_changes(struct storm *s)
{
    const uint64_t random = s->random;
    s->random = storm_hash(s->luck);
    for (uint32_t name = 0; name < s->num_engines; name++)
        draw_lives_of(s, name);
    s->random = random;
}

/* ---- who hears of it --------------------------------------------------------------------------------------------- */

/* Most news come soon, some late. Those that are lost come when what is known is compared. */
static uint64_t draw_delay(struct storm *s)
{
    const uint32_t how = storm_luck(s, 100);
    return (how < 50 ? storm_luck(s, 200) : how < 85 ? storm_luck(s, 10000) : storm_luck(s, 100000)) * STORM_US;
}

static void tell(struct storm *s, uint32_t to, uint32_t member, bool has_come)
{
    storm_tell(s, to, member, has_come, draw_delay(s));
    if (has_come && storm_luck(s, 10) == 0)
        storm_tell(s, to, member, has_come, draw_delay(s)); /* twice */
}

/* Then no other rank may join it. */
static bool has_lost_a_rank(const struct storm *s, const struct storm_life *life)
{
    for (uint32_t i = 0; i < life->num_ranks; i++)
        if (s->ranks[life->ranks[i]].fate == STORM_CRASHED)
            return true;
    return false;
}

void storm_come(struct storm *s, struct storm_rank *r)
{
    uint32_t there[STORM_RANKS_MAX], n = list_there(s, there);
    if (r->fate != STORM_AWAITED || has_lost_a_rank(s, storm_life_of(s, r->rank)))
        return;
    storm_say(s, "%u comes, of life %u of e%u", r->rank, r->life, storm_life_of(s, r->rank)->name);
    appear(s, r);
    enter(s, r, r->rank);
    storm_words(s, r);
    for (uint32_t i = 0; i < n; i++)
        tell(s, there[i], r->rank, true);
    for (uint32_t i = 0; i < n; i++) /* most are known when it begins */
        if (storm_luck(s, 3) == 0 || meet(r, there[i]) != 0)
            tell(s, r->rank, there[i], true);
    for (uint32_t i = 0; i < s->num_ranks; i++) /* it hears late of one that has gone */
        if (s->ranks[i].fate == STORM_CRASHED && storm_luck(s, 4) == 0) {
            storm_tell(s, r->rank, i, true, storm_luck(s, 5000) * STORM_US);
            tell(s, r->rank, i, false);
        }
    if (!s->failed)
        storm_begin(s, r);
}

void storm_end(struct storm *s, struct storm_rank *r, bool in_order)
{
    const struct storm_life *life = storm_life_of(s, r->rank);
    uint32_t there[STORM_RANKS_MAX];
    storm_say(s, "%u %s", r->rank, in_order ? "has gone" : "crashes");
    r->fate = STORM_CRASHED;
    r->left_in_order = in_order;
    if (!s->changes)
        return;
    const uint32_t n = list_there(s, there);
    for (uint32_t i = 0; i < n; i++)
        tell(s, there[i], r->rank, false);
    for (uint32_t i = 0; i < life->num_ranks; i++) /* nothing comes of an engine that has lost a rank */
        if (life->ranks[i] != r->rank)
            plan(s, STORM_GO, life->ranks[i], s->now + storm_luck(s, 30000) * STORM_US);
}

void storm_go(struct storm *s, struct storm_rank *r)
{
    if (r->fate == STORM_RUNS && !r->closes) {
        storm_say(s, "%u goes", r->rank);
        r->closes = true;
        storm_turn(s, r, false);
        core_shut(r->core, s->now);
        storm_collect(s, r);
    }
    if (r->fate == STORM_RUNS && (core_is_quiet(r->core) || core_is_given_up(r->core)))
        storm_end(s, r, true);
    else if (r->fate == STORM_RUNS || r->fate == STORM_STOPPED)
        plan(s, STORM_GO, r->rank, s->now + STORM_MS);
}

/* ---- a rank hears that one came ---------------------------------------------------------------------------------- */

static const char *const states[] = {"engine forming", "engine whole", "engine gone"};

static bool is_refused(struct storm_rank *r, const uint8_t row[WIRE_ROW_BYTES])
{
    struct plan_why why;
    uint32_t rank;
    const int rc = directory_join(r->directory, row, &rank, &why);
    return rc == BATON_EEXIST || rc == BATON_EBUSY;
}

/* A number that is known is refused, whoever says it: in a row that came twice, and in one of another engine. */
static void check_number(struct storm_rank *r, uint32_t member)
{
    struct storm *s = r->storm;
    struct wire_row row;
    uint8_t other[WIRE_ROW_BYTES];
    if (wire_row_decode(s->ranks[member].row, &row) != 0)
        storm_fail(s, "rank %u: its row is malformed", member);
    snprintf(row.engine, sizeof row.engine, "stranger");
    row.life = 1;
    wire_row_encode(&row, other);
    if (!is_refused(r, s->ranks[member].row) || !is_refused(r, other))
        storm_fail(s, "rank %u knows two members of one number", r->rank);
}

bool storm_on_joined(struct storm *s, struct storm_rank *r, uint32_t member)
{
    if (is_known(r, member))
        check_number(r, member);
    if (is_known(r, member) || r->view[member].left_ns != 0)
        return true;
    const int rc = meet(r, member);
    if (rc == BATON_EGONE) { /* its life has lost a rank */
        storm_cover_news("life has lost a rank", "JOINED");
        return true;
    }
    if (rc != 0) {
        storm_cover_news(rc == BATON_EBUSY ? "no room" : "other life there", "JOINED");
        if (rc != BATON_EBUSY && rc != BATON_EGEOMETRY)
            storm_fail(s, "rank %u cannot know rank %u: %s", r->rank, member, baton_strerror(rc));
        return false;
    }
    const uint32_t rank = r->view[member].rank;
    storm_say(s, "%u hears that %u came: its rank %u", r->rank, member, rank);
    storm_cover_news(states[r->directory->engines[r->directory->engine_of[rank]]->state], "JOINED");
    meet_words(r, &s->ranks[member]);
    storm_step(s, r, &(struct port_event){.kind = PORT_JOINED, .peer = rank}, 1, false);
    return true;
}

/* ---- a rank hears that one went ---------------------------------------------------------------------------------- */

/* No want outlives its engine: it has ended, or waits until its blocks are quiet, for quiet_ms at most (check_time). */
static void check_wants(struct storm_rank *r, uint32_t engine)
{
    for (const struct want *want = r->core->wants->by_id; want != NULL; want = want->by_id.next)
        if (want->name.engine == engine && want->state != WANT_DRAINING)
            storm_fail(r->storm, "rank %u: a want of key %s goes on, though its engine has gone", r->rank,
                       want->name.key);
}

void storm_on_left(struct storm *s, struct storm_rank *r, uint32_t member)
{
    struct storm_view *view = &r->view[member];
    view->left_ns = s->now;
    storm_say(s, "%u hears that %u went", r->rank, member);
    if (!is_known(r, member)) {
        storm_cover_news("member unknown", "LEFT");
        return;
    }
    const uint32_t engine = r->directory->engine_of[view->rank];
    storm_cover_news(states[r->directory->engines[engine]->state], "LEFT");
    storm_cover_left(r, view->rank);
    directory_leave(r->directory, view->rank);
    const struct port_event left = {.kind = PORT_LEFT,
                                    .peer = view->rank,
                                    .error = s->ranks[member].left_in_order ? 0 : BATON_EPEER,
                                    .is_quiet = storm_luck(s, 2) == 0 && storm_is_still(s, r->rank, member)};
    storm_step(s, r, &left, 1, false);
    if (is_known(r, member))
        check_wants(r, engine);
}

/* ---- what is left of it ------------------------------------------------------------------------------------------ */

static const char *leftover_of_rank(const struct core *core, uint32_t rank)
{
    static const struct letters none;
    const struct op *op;
    for (op = core->ops.by_tag; op != NULL; op = op->hh.next) {
        if (op->kind == OP_CONTACT && ((const struct contact *)op)->peer == rank)
            return "a card that is read";
        if ((op->kind == OP_LEG || op->kind == OP_PUSH) && ((const struct mover *)op)->peer == rank)
            return "a transfer";
    }
    for (const struct attempt *a = attempts_next(core, NULL); a != NULL; a = attempts_next(core, a)) {
        if (waiter_word(a, rank) != NULL)
            return "a word";
        for (uint32_t i = 0; i < a->formers.num; i++)
            if (a->formers.of[i].rank == rank)
                return "a tombstone";
    }
    for (const struct unsent *u = core->post->unsent; u != NULL; u = u->next)
        if (u->peer == rank)
            return "a message";
    for (uint32_t i = 0; i < core->offers->num_near; i++)
        if (core->offers->near[i] == rank)
            return "a neighbour";
    if (core->early->of[rank][EARLY_LIVE] + core->early->of[rank][EARLY_ENDED] > 0)
        return "a place for its words";
    if (memcmp(&core->post->of[rank], &none, sizeof none) != 0)
        return "numbers of messages";
    if (core->movers->flows[rank] != NULL)
        return "how fast its bytes come";
    return core->peers->by_rank[rank] != NULL ? "a peer" : checks_know(core, rank) ? "hashes" : NULL;
}

static const char *leftover_of_engine(const struct core *core, uint32_t engine)
{
    for (const struct attempt *a = attempts_next(core, NULL); a != NULL; a = attempts_next(core, a))
        for (uint32_t i = 0; i < a->formers.num_untaken; i++)
            if (a->formers.untaken[i] == engine)
                return "a seat that nobody took";
    for (const struct want *want = core->wants->by_id; want != NULL; want = want->by_id.next)
        if (want->name.engine == engine)
            return "a want";
    return offers_know(core, engine) ? "a seat" : readers_of(core, engine) != NULL ? "its readers" : NULL;
}

/* Another member may have the rank of one that is forgotten, and find nothing there of the old one. */
static void check_forgotten(const struct storm_rank *r, const struct directory_engine *e)
{
    const char *left = leftover_of_engine(r->core, e->index);
    for (uint32_t i = 0; i < e->num_ranks && left == NULL; i++)
        if (e->ranks[i] != DIRECTORY_NONE)
            left = leftover_of_rank(r->core, e->ranks[i]);
    if (left != NULL)
        storm_fail(r->storm, "rank %u has forgotten engine %s, but knows %s of it", r->rank, e->name, left);
}

static bool has_open_call(const struct storm *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->num_calls; i++)
        if (s->calls[i].rank == rank && !s->calls[i].ended)
            return true;
    return false;
}

/* When it was heard that the last of an engine's known ranks went; 0: some have not. */
static uint64_t over_ns(const struct storm_rank *r, const struct directory_engine *e)
{
    uint64_t last = 0;
    if (e->num_left < e->num_joined)
        return 0;
    for (uint32_t i = 0; i < e->num_ranks; i++)
        if (e->ranks[i] != DIRECTORY_NONE && r->view[r->member_at[e->ranks[i]]].left_ns > last)
            last = r->view[r->member_at[e->ranks[i]]].left_ns;
    return last;
}

/* An engine whose ranks have all gone is forgotten, once no call of this rank is open that may have to do with it. */
static void check_memory(struct storm *s, const struct storm_rank *r)
{
    const struct directory_engine *e;
    for (e = r->directory->gone; e != NULL; e = e->next) {
        const uint64_t over = over_ns(r, e);
        if (over != 0 && s->now > over + FORGOTTEN_MS * STORM_MS && e->index != core_engine(r->core) &&
            !r->was_stopped && r->has_stray == 0 && !has_open_call(s, r->rank))
            storm_fail(s, "rank %u does not forget engine %s, which went %llu ms ago", r->rank, e->name,
                       (unsigned long long)((s->now - over) / STORM_MS));
    }
}

void storm_forget(struct storm *s, struct storm_rank *r)
{
    uint32_t engine;
    while (r->directory->gone != NULL && core_take_forgotten(r->core, &engine)) {
        const struct directory_engine *e = r->directory->engines[engine];
        check_forgotten(r, e);
        storm_cover_news("engine gone", "forgotten");
        storm_say(s, "%u forgets %s", r->rank, e->name);
        storm_words_forget(s, r, directory_identity(r->directory, engine));
        for (uint32_t i = 0; i < e->num_ranks; i++) {
            const uint32_t rank = e->ranks[i], member = rank != DIRECTORY_NONE ? r->member_at[rank] : DIRECTORY_NONE;
            if (member == DIRECTORY_NONE)
                continue;
            storm_words_leave(s, r, &s->ranks[member]);
            beside_forget(r->beside, rank);
            r->view[member].rank = r->member_at[rank] = DIRECTORY_NONE;
        }
        directory_forget(r->directory, engine);
    }
    if (r->directory->gone != NULL)
        check_memory(s, r);
}

/* The end is a quiet point: all have heard all, and what was open has ended. */
void storm_check_members(struct storm *s, struct storm_rank *r)
{
    storm_forget(s, r);
    for (uint32_t i = 0; i < s->num_ranks; i++)
        if (s->ranks[i].fate == STORM_CRASHED && is_known(r, i) && r->view[i].left_ns == 0)
            storm_fail(s, "rank %u never heard that rank %u went", r->rank, i);
}
