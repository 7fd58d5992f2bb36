/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: see link.h. First it is found out which ranks of the two engines serve each other (survey.h), in pieces
 * (work.h). Then the cards of the ranks that serve me are read, all at once. The link is ready when the last one is
 * good. A cache that cannot match refuses the link for good, because cards do not change while their rank lives.
 *
 * With a consumer engine that is to be written to, the contact with each of its ranks is a handshake of its own.
 */
#include "core/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/contact_inside.h"
#include "core/state.h"
#include "core/survey.h"

/* How far it was found out which ranks of the two engines serve each other. */
struct finding {
    uint32_t served_to, readers_to, others_to;
    uint32_t met; /* contacts met among the others */
    bool tells;   /* this rank is the one to tell ranks that nobody of its engine reads */
};

/**
 * One peer engine: as its consumer (contacts: the ranks that serve me; wants queue until all are good), or as its
 * producer in a push (contacts: all its ranks by index, of which those that take from me are wanted, each by itself).
 */
struct link {
    struct work work; /* first; BUILDING */
    struct finding finding;
    uint32_t engine;
    bool lacks; /* see link_lacks. When its contact is good: ESOURCE, with refusal.why */
    enum link_state state;
    uint32_t num_contacts, good;
    struct contact *contacts;
    struct plan_box *boxes;
    bool *served;          /* by index in my engine: whether that rank's cache can be filled from there */
    uint32_t *spare_ranks; /* see link_spares */
    uint32_t num_spare;
    struct contact *spares; /* contacts with those that a leg has turned to */
    uint32_t *idle_ranks;   /* see link_idle */
    uint32_t num_idle;
    struct queue queue; /* wants behind the handshake */
    uint32_t queued;
    uint64_t since_ns; /* when the first of the queue came */
    struct link_refusal refusal;
};

/* One for each engine: its ranks that I read from (source) and that I write to (targets). */
struct links {
    struct link *source, *targets;
};

/* ---- building a link --------------------------------------------------------------------------------------------- */

static void link_destroy(struct core *core, struct link *link)
{
    struct contact *c, *next;
    for (uint32_t i = 0; i < link->num_contacts; i++)
        contact_fini(core, &link->contacts[i]);
    DL_FOREACH_SAFE(link->spares, c, next)
    {
        contact_fini(core, c);
        free(c);
    }
    free(link->contacts);
    free(link->boxes);
    free(link->served);
    free(link->spare_ranks);
    free(link->idle_ranks);
    free(link);
}

/* Parts come in order of member: each member's are neighbours, and become one contact. */
static int contacts_from(struct link *link, const struct directory_engine *engine, const struct plan_source *sources,
                         uint32_t n)
{
    link->contacts = calloc(n ? n : 1, sizeof *link->contacts);
    link->boxes = calloc(n ? n : 1, sizeof *link->boxes);
    if (link->contacts == NULL || link->boxes == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        link->boxes[i] = sources[i].box;
        if (i == 0 || sources[i].member != sources[i - 1].member)
            link->contacts[link->num_contacts++] =
                (struct contact){.link = link, .peer = engine->ranks[sources[i].member], .boxes = &link->boxes[i]};
        link->contacts[link->num_contacts - 1].num_boxes++;
    }
    return 0;
}

/* Whether the rank of index i of my engine reads from that producer rank, as that one's readers say too. */
static bool reads(const struct core *core, const struct link *link, uint32_t i, uint32_t producer)
{
    const struct directory *d = core->c.directory;
    return link->served[i] &&
           plan_members_share(&d->engines[core_engine(core)]->members[i], &d->engines[link->engine]->members[producer]);
}

static void readers_from(const struct core *core, struct contact *c)
{
    const struct directory *d = core->c.directory;
    for (uint32_t i = 0; i < d->engines[core_engine(core)]->num_ranks; i++)
        c->readers[i / 8] |= (uint8_t)((unsigned)reads(core, c->link, i, d->index_of[c->peer]) << (i % 8));
}

/*
 * Ranks of the producer's engine that I do not read are of two kinds. A spare holds a part of what I want: its offer
 * waits for my word too, so that I can turn to it if another rank fails. An idle one holds nothing for any rank of my
 * engine: the first rank of my engine that has a cache tells it that it is not needed.
 */
static void other_from(const struct core *core, struct link *link, uint32_t k)
{
    uint32_t ranks = core->c.directory->engines[core_engine(core)]->num_ranks;
    uint32_t rank = core->c.directory->engines[link->engine]->ranks[k];
    bool any = false, met = link->finding.met < link->num_contacts && link->contacts[link->finding.met].peer == rank;
    for (uint32_t i = 0; i < ranks && !any; i++)
        any = reads(core, link, i, k);
    link->finding.met += met;
    if (!met && reads(core, link, core_index(core), k))
        link->spare_ranks[link->num_spare++] = rank;
    else if (!any && link->finding.tells)
        link->idle_ranks[link->num_idle++] = rank;
}

/* Its cards are read from now on. */
static void link_start(struct core *core, struct link *link)
{
    link->state = LINK_SHAKING;
    for (uint32_t i = 0; i < link->num_contacts; i++)
        if (link->contacts[i].state == CONTACT_NEEDED)
            contact_want(core, &link->contacts[i]);
}

/* One piece: one rank of mine, one contact, or one other rank of the producer's engine. */
static enum work_state link_piece(struct core *core, struct work *work)
{
    struct link *link = (struct link *)work;
    const struct directory_engine *mine = core->c.directory->engines[core_engine(core)];
    const struct directory_engine *engine = core->c.directory->engines[link->engine];
    if (link->finding.served_to < mine->num_ranks) {
        int served = survey_served(core, mine, link->finding.served_to, engine);
        if (served < 0)
            return WORK_LATER;
        link->served[link->finding.served_to++] = served;
        return WORK_MORE;
    }
    core->works.looks += mine->num_ranks / 8 + 1; /* to compare two members is less than to look at one */
    if (link->finding.readers_to < link->num_contacts) {
        readers_from(core, &link->contacts[link->finding.readers_to++]);
        return WORK_MORE;
    }
    if (link->finding.others_to < engine->num_ranks) {
        other_from(core, link, link->finding.others_to++);
        return WORK_MORE;
    }
    link->state = LINK_IDLE;
    if (link->queue.first != NULL)
        link_start(core, link);
    return WORK_DONE;
}

static bool is_teller(const struct core *core)
{
    const struct directory_engine *mine = core->c.directory->engines[core_engine(core)];
    uint32_t first = 0;
    while (first < mine->num_ranks && mine->members[first].num_boxes == 0)
        first++;
    return core_index(core) == first;
}

/* Nobody holds what is wanted. One rank's card tells whether that engine serves my model at all. */
static int witness_from(const struct core *core, struct link *link, const struct directory_engine *engine)
{
    for (uint32_t i = 0; i < engine->num_ranks; i++) {
        uint32_t k = (core_index(core) + i) % engine->num_ranks; /* so that my engine's ranks ask different ones */
        if (engine->members[k].num_boxes == 0)
            continue;
        int rc = contacts_from(link, engine, &(struct plan_source){.member = k}, 1);
        if (rc != 0)
            return rc;
        link->contacts[0].num_boxes = 0;
        link->lacks = true;
        link->state = LINK_IDLE;
        return 0;
    }
    return BATON_ESOURCE;
}

static int link_create(struct core *core, uint32_t engine, struct link **out, struct plan_why *why)
{
    const struct directory_engine *mine = core->c.directory->engines[core_engine(core)];
    const struct directory_engine *peer = core->c.directory->engines[engine];
    struct plan_source *sources;
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return BATON_ENOMEM;
    link->engine = engine;
    link->finding.tells = is_teller(core);
    link->served = calloc(mine->num_ranks, sizeof *link->served);
    link->spare_ranks = calloc(peer->num_ranks, sizeof *link->spare_ranks);
    link->idle_ranks = calloc(peer->num_ranks, sizeof *link->idle_ranks);
    int rc = link->served != NULL && link->spare_ranks != NULL && link->idle_ranks != NULL ? 0 : BATON_ENOMEM;
    if (rc == 0) {
        int n = survey_sources(core, mine, core_index(core), peer, &sources, why);
        rc = n < 0 ? n : contacts_from(link, peer, sources, (uint32_t)n);
        if (n >= 0)
            free(sources);
        link->refusal.why = *why;
        if (rc == BATON_ESOURCE)
            rc = witness_from(core, link, peer);
    }
    if (rc != 0) {
        link_destroy(core, link);
        return rc;
    }
    *out = link;
    return 0;
}

struct link *link_of(struct core *core, uint32_t engine, int *error, struct plan_why *why)
{
    struct link *link = core->links[engine].source;
    if (link != NULL)
        return link;
    *error = link_create(core, engine, &link, why);
    if (*error != 0)
        return NULL;
    core->links[engine].source = link;
    if (!link->lacks)
        work_begin(core, &core->works, &link->work, link_piece);
    return link;
}

static struct link *targets_create(const struct core *core, uint32_t engine)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->engine = engine;
    link->state = LINK_IDLE;
    link->num_contacts = core->c.directory->engines[engine]->num_ranks;
    link->contacts = calloc(link->num_contacts, sizeof *link->contacts);
    if (link->contacts == NULL) {
        free(link);
        return NULL;
    }
    return link;
}

struct contact *target_of(struct core *core, uint32_t peer, int *error)
{
    uint32_t engine = core->c.directory->engine_of[peer], i = core->c.directory->index_of[peer];
    const struct readers *readers = readers_of(core, engine);
    struct link *link = core->links[engine].targets;
    *error = BATON_EMESSAGE;
    uint32_t num_boxes;
    const struct plan_box *boxes = readers != NULL ? readers_boxes(readers, i, &num_boxes) : NULL;
    if (readers == NULL || num_boxes == 0)
        return NULL;
    *error = BATON_ENOMEM;
    if (link == NULL)
        link = core->links[engine].targets = targets_create(core, engine);
    if (link == NULL)
        return NULL;
    struct contact *c = &link->contacts[i];
    *error = 0;
    if (c->link == NULL)
        *c = (struct contact){.link = link, .peer = peer, .is_target = true, .boxes = boxes, .num_boxes = num_boxes};
    return c;
}

/* ---- in the place of one that failed ----------------------------------------------------------------------------- */

struct contact *link_spare(struct core *core, const struct contact *failed, uint32_t rank)
{
    struct link *link = failed->link;
    const struct directory *d = core->c.directory;
    const struct plan_member *member = &d->engines[link->engine]->members[d->index_of[rank]];
    struct contact *c;
    for (uint32_t i = 0; i < failed->num_boxes; i++)
        if (!plan_member_covers(member, &failed->boxes[i]))
            return NULL;
    DL_FOREACH(link->spares, c)
    {
        if (c->peer == rank && c->boxes == failed->boxes)
            return c->state != CONTACT_REFUSED ? c : NULL;
    }
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (struct contact){
        .link = link, .peer = rank, .is_spare = true, .boxes = failed->boxes, .num_boxes = failed->num_boxes};
    readers_from(core, c);
    DL_APPEND(link->spares, c);
    return c;
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

void link_queue(struct core *core, struct link *link, struct queued *want)
{
    queue_join(&link->queue, want);
    if (link->queued++ == 0)
        link->since_ns = core->now;
    if (link->state == LINK_IDLE)
        link_start(core, link);
}

void link_unqueue(struct core *core, struct link *link, struct queued *want)
{
    if (want->in == NULL)
        return;
    queue_leave(want);
    if (--link->queued > 0 || link->state != LINK_SHAKING)
        return;
    link->state = LINK_IDLE; /* cards that came stay known, readings under way are given up */
    for (uint32_t i = 0; i < link->num_contacts; i++)
        contact_rest(core, &link->contacts[i]);
}

struct queued *link_take(struct link *link)
{
    struct queued *want = queue_take(&link->queue);
    link->queued -= want != NULL;
    return want;
}

static void link_ready(struct core *core, struct link *link)
{
    uint64_t took = core->now - link->since_ns;
    link->state = LINK_READY;
    count_add(&core->stats.handshakes, 1);
    count_add(&core->stats.handshake_ns_sum, took);
    if (took > count_of(&core->stats.handshake_ns_max))
        count_set(&core->stats.handshake_ns_max, took);
}

static void link_refuse(struct core *core, struct link *link, int error, uint32_t peer, const struct plan_why *why)
{
    link->state = LINK_REFUSED;
    link->refusal.error = error;
    link->refusal.peer = (int32_t)peer;
    link->refusal.why = *why;
    for (uint32_t i = 0; i < link->num_contacts; i++)
        contact_rest(core, &link->contacts[i]);
    log_line(core->c.log, LOG_ERROR, "engine %s cannot be used: %s: %s", core->c.directory->engines[link->engine]->name,
             baton_strerror(error), why->text);
}

/* The cache of a contact's rank cannot match, and never will. */
static enum link_news on_refusal(struct core *core, struct contact *c, const struct plan_why *why)
{
    if (!c->is_spare && !c->is_target) {
        link_refuse(core, c->link, BATON_EGEOMETRY, c->peer, why);
        return LINK_SETTLED;
    }
    contact_refuse(core, c, why);
    if (c->is_spare)
        return LINK_SPARE;
    log_line(core->c.log, LOG_ERROR, "rank %u cannot be written to: %s", c->peer, why->text);
    return LINK_TARGET;
}

static enum link_news on_good(struct core *core, struct contact *c)
{
    struct link *link = c->link;
    if (c->is_spare)
        return LINK_SPARE;
    link->good++;
    if (c->is_target)
        return LINK_TARGET;
    if (link->lacks)
        link_refuse(core, link, BATON_ESOURCE, c->peer, &link->refusal.why);
    else if (link->good == link->num_contacts)
        link_ready(core, link);
    else
        return LINK_NOTHING;
    return LINK_SETTLED;
}

enum link_news link_on_card(struct core *core, struct contact *c, const struct port_event *e)
{
    struct plan_why why = {{0}};
    int rc = contact_on_card(core, c, e, &why);
    return rc == 0 ? on_good(core, c) : rc == BATON_EGEOMETRY ? on_refusal(core, c, &why) : LINK_NOTHING;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

enum link_state link_state(const struct link *link)
{
    return link->state;
}

const struct link_refusal *link_refusal(const struct link *link)
{
    return &link->refusal;
}

bool link_lacks(const struct link *link)
{
    return link->lacks;
}

uint32_t link_num_contacts(const struct link *link)
{
    return link->num_contacts;
}

struct contact *link_contact(const struct link *link, uint32_t i)
{
    return &link->contacts[i];
}

const uint32_t *link_spares(const struct link *link, uint32_t *num)
{
    *num = link->state != LINK_BUILDING ? link->num_spare : 0;
    return link->spare_ranks;
}

const uint32_t *link_idle(const struct link *link, uint32_t *num)
{
    *num = link->state != LINK_BUILDING ? link->num_idle : 0;
    return link->idle_ranks;
}

int32_t link_missing(const struct link *link)
{
    int32_t missing = -1;
    for (uint32_t i = 0; i < link->num_contacts; i++)
        if (link->contacts[i].state != CONTACT_GOOD)
            missing = (int32_t)link->contacts[i].peer;
    return missing;
}

bool link_pending(const struct core *core, uint32_t engine, uint64_t now, baton_pending_t *out)
{
    const struct link *link = core->links[engine].source;
    if (link == NULL || link->queued == 0)
        return false;
    *out = (baton_pending_t){.ranks_needed = link->num_contacts,
                             .ranks_known = link->good,
                             .wants = link->queued,
                             .waiting_ns = now - link->since_ns};
    memcpy(out->engine, core->c.directory->engines[engine]->name, sizeof out->engine);
    for (uint32_t i = 0; i < link->num_contacts; i++)
        if (link->contacts[i].attempts > out->attempts)
            out->attempts = link->contacts[i].attempts;
    return true;
}

/* ---- all of one core --------------------------------------------------------------------------------------------- */

int links_create(struct core *core)
{
    core->links = calloc(core->c.directory->most, sizeof *core->links);
    return core->links != NULL ? 0 : BATON_ENOMEM;
}

void links_forget(struct core *core, uint32_t engine)
{
    struct links *l = &core->links[engine];
    if (l->source != NULL && l->source->state == LINK_BUILDING)
        work_end(&core->works, &l->source->work);
    if (l->source != NULL)
        link_destroy(core, l->source);
    if (l->targets != NULL)
        link_destroy(core, l->targets);
    *l = (struct links){NULL, NULL};
}

void links_destroy(struct core *core)
{
    for (uint32_t i = 0; core->links != NULL && i < core->c.directory->num_engines; i++)
        links_forget(core, i);
    free(core->links);
}
