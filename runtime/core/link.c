/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: handshakes. With a producer engine that is wanted: it is found out who serves whom (survey.c), in pieces where
 * the engines are large. Then the cards of just those ranks that serve me are read, all at once; each is decoded, checked and compiled into a plan by itself, and the link is ready when the last one is good. A
 * card that does not come is tried again after a pause, each peer on its own timers, while wants queue behind it. A
 * cache that cannot match refuses the link for good: cards do not change while their rank lives.
 *
 * With a consumer engine that is to be written to, each rank that takes blocks from me is a handshake of its own.
 */
#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_MOST 40 /* times BATON_BACKOFF_MS */

/* ---- building a link --------------------------------------------------------------------------------------------- */

static void contact_read(struct core *core, struct contact *c);

static void contact_fini(struct core *core, struct contact *c)
{
    timer_stop(&core->timers, &c->timer);
    op_remove(&core->ops, &c->op);
    plan_destroy(c->plan);
}

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
static int contacts_from(struct link *link, const struct directory_engine *engine, const struct plan_source *parts,
                         uint32_t n)
{
    link->contacts = calloc(n ? n : 1, sizeof *link->contacts);
    link->boxes = calloc(n ? n : 1, sizeof *link->boxes);
    if (link->contacts == NULL || link->boxes == NULL)
        return BATON_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        link->boxes[i] = parts[i].box;
        if (i == 0 || parts[i].member != parts[i - 1].member)
            link->contacts[link->num_contacts++] =
                (struct contact){.link = link, .peer = engine->ranks[parts[i].member], .boxes = &link->boxes[i]};
        link->contacts[link->num_contacts - 1].num_boxes++;
    }
    return 0;
}

/* Whether the rank of index i of my engine reads from that producer rank, as that one's readers say too. */
static bool reads(const struct core *core, const struct link *link, uint32_t i, uint32_t producer)
{
    const struct directory *d = core->c.directory;
    return link->served[i] &&
           plan_members_share(&d->engines[core->engine].members[i], &d->engines[link->engine].members[producer]);
}

static void readers_from(const struct core *core, struct contact *c)
{
    const struct directory *d = core->c.directory;
    for (uint32_t i = 0; i < d->engines[core->engine].num_ranks; i++)
        c->readers[i / 8] |= (uint8_t)((unsigned)reads(core, c->link, i, d->index_of[c->peer]) << (i % 8));
}

/*
 * The others: ranks that hold a part of what I want, and that I do not read (each waits for my word all the same, so
 * that I can turn to it should another fail); and those that hold nothing for any rank of my engine, which the first of
 * it that has a cache tells that they are not needed.
 */
static void other_from(const struct core *core, struct link *link, uint32_t k)
{
    uint32_t ranks = core->c.directory->engines[core->engine].num_ranks;
    uint32_t rank = core->c.directory->engines[link->engine].ranks[k];
    bool any = false, met = link->met < link->num_contacts && link->contacts[link->met].peer == rank;
    for (uint32_t i = 0; i < ranks && !any; i++)
        any = reads(core, link, i, k);
    link->met += met;
    if (!met && reads(core, link, core->index, k))
        link->spare_ranks[link->num_spare++] = rank;
    else if (!any && link->tells)
        link->idle_ranks[link->num_idle++] = rank;
}

static void link_start(struct core *core, struct link *link);

/* What every rank of the two engines is to every other, one at a time. */
static enum work_state link_piece(struct core *core, struct work *work)
{
    struct link *link = (struct link *)work;
    const struct directory_engine *mine = &core->c.directory->engines[core->engine];
    const struct directory_engine *engine = &core->c.directory->engines[link->engine];
    if (link->served_to < mine->num_ranks) {
        int served = survey_served(core, mine, link->served_to, engine);
        if (served < 0)
            return WORK_LATER;
        link->served[link->served_to++] = served;
        return WORK_MORE;
    }
    core->looks += mine->num_ranks / 8 + 1; /* to compare two members is less than to look at one */
    if (link->readers_to < link->num_contacts) {
        readers_from(core, &link->contacts[link->readers_to++]);
        return WORK_MORE;
    }
    if (link->others_to < engine->num_ranks) {
        other_from(core, link, link->others_to++);
        return WORK_MORE;
    }
    link->state = LINK_IDLE;
    if (link->queue != NULL)
        link_start(core, link);
    return WORK_DONE;
}

static bool is_teller(const struct core *core)
{
    const struct directory_engine *mine = &core->c.directory->engines[core->engine];
    uint32_t first = 0;
    while (first < mine->num_ranks && mine->members[first].num_boxes == 0)
        first++;
    return core->index == first;
}

/* Where nobody holds a part of what is wanted: some rank's card says whether this engine's model is mine at all. */
static int witness_from(const struct core *core, struct link *link, const struct directory_engine *engine)
{
    for (uint32_t i = 0; i < engine->num_ranks; i++) {
        uint32_t k = (core->index + i) % engine->num_ranks; /* not all of mine ask the same one */
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
    const struct directory_engine *mine = &core->c.directory->engines[core->engine];
    const struct directory_engine *peer = &core->c.directory->engines[engine];
    struct plan_source *parts;
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return BATON_ENOMEM;
    link->engine = engine;
    link->tells = is_teller(core);
    link->served = calloc(mine->num_ranks, sizeof *link->served);
    link->spare_ranks = calloc(peer->num_ranks, sizeof *link->spare_ranks);
    link->idle_ranks = calloc(peer->num_ranks, sizeof *link->idle_ranks);
    int rc = link->served != NULL && link->spare_ranks != NULL && link->idle_ranks != NULL ? 0 : BATON_ENOMEM;
    if (rc == 0) {
        int n = survey_sources(core, mine, core->index, peer, &parts, why);
        rc = n < 0 ? n : contacts_from(link, peer, parts, (uint32_t)n);
        if (n >= 0)
            free(parts);
        link->why = *why;
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
    struct link *link = core->links[engine];
    if (link != NULL)
        return link;
    *error = link_create(core, engine, &link, why);
    if (*error != 0)
        return NULL;
    core->links[engine] = link;
    if (!link->lacks)
        work_begin(core, &link->work, link_piece);
    return link;
}

static struct link *targets_create(const struct core *core, uint32_t engine)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->engine = engine;
    link->is_targets = true;
    link->state = LINK_IDLE;
    link->num_contacts = core->c.directory->engines[engine].num_ranks;
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
    struct link *link = core->targets[engine];
    *error = BATON_EMESSAGE;
    if (readers == NULL || readers->first[i] == readers->first[i + 1])
        return NULL;
    *error = BATON_ENOMEM;
    if (link == NULL)
        link = core->targets[engine] = targets_create(core, engine);
    if (link == NULL)
        return NULL;
    struct contact *c = &link->contacts[i];
    *error = 0;
    if (c->link == NULL)
        *c = (struct contact){.link = link,
                              .peer = peer,
                              .boxes = &readers->boxes[readers->first[i]],
                              .num_boxes = readers->first[i + 1] - readers->first[i]};
    return c;
}

/* ---- in the place of one that failed ----------------------------------------------------------------------------- */

struct contact *link_spare(struct core *core, const struct contact *failed, uint32_t rank)
{
    struct link *link = failed->link;
    const struct directory *d = core->c.directory;
    const struct plan_member *member = &d->engines[link->engine].members[d->index_of[rank]];
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

static void link_start(struct core *core, struct link *link)
{
    link->state = LINK_SHAKING;
    for (uint32_t i = 0; i < link->num_contacts; i++)
        if (link->contacts[i].state == CONTACT_NEEDED)
            contact_read(core, &link->contacts[i]);
}

void link_queue(struct core *core, struct link *link, struct want *want)
{
    DL_APPEND(link->queue, want);
    if (link->queued++ == 0)
        link->since_ns = core->now;
    if (link->state == LINK_IDLE)
        link_start(core, link);
}

static void contact_rest(struct core *core, struct contact *c)
{
    if (c->state == CONTACT_GOOD || c->state == CONTACT_REFUSED)
        return;
    timer_stop(&core->timers, &c->timer);
    op_remove(&core->ops, &c->op);
    if (c->state == CONTACT_READING)
        core->reading--;
    c->state = CONTACT_NEEDED;
    c->attempts = 0;
}

void contact_leave(struct core *core, struct contact *c)
{
    contact_rest(core, c);
}

void contact_want(struct core *core, struct contact *c)
{
    if (c->state == CONTACT_NEEDED && !c->timer.armed)
        contact_read(core, c);
}

void link_unqueue(struct core *core, struct link *link, struct want *want)
{
    DL_DELETE(link->queue, want);
    if (--link->queued > 0 || link->state != LINK_SHAKING)
        return;
    link->state = LINK_IDLE; /* what is known stays known, what is under way is given up */
    for (uint32_t i = 0; i < link->num_contacts; i++)
        contact_rest(core, &link->contacts[i]);
}

struct want *link_take(struct link *link)
{
    struct want *want = link->queue;
    if (want == NULL)
        return NULL;
    DL_DELETE(link->queue, want);
    link->queued--;
    return want;
}

static void link_ready(struct core *core, struct link *link)
{
    uint64_t took = core->now - link->since_ns;
    link->state = LINK_READY;
    core->stats.handshakes++;
    core->stats.handshake_ns_sum += took;
    if (took > core->stats.handshake_ns_max)
        core->stats.handshake_ns_max = took;
}

static void link_refuse(struct core *core, struct link *link, int error, uint32_t peer, const struct plan_why *why)
{
    link->state = LINK_REFUSED;
    link->error = error;
    link->error_peer = (int32_t)peer;
    link->why = *why;
    for (uint32_t i = 0; i < link->num_contacts; i++)
        contact_rest(core, &link->contacts[i]);
    log_line(core->c.log, LOG_ERROR, "engine %s cannot be used: %s: %s", core->c.directory->engines[link->engine].name,
             baton_strerror(error), why->text);
}

/* ---- one contact ------------------------------------------------------------------------------------------------- */

static void on_pause(struct core *core, struct timer *t)
{
    contact_read(core, (struct contact *)((char *)t - offsetof(struct contact, timer)));
}

static void contact_retry(struct core *core, struct contact *c, uint64_t pause_ns)
{
    op_remove(&core->ops, &c->op);
    if (c->state == CONTACT_READING)
        core->reading--;
    c->state = CONTACT_NEEDED;
    timer_stop(&core->timers, &c->timer);
    if (c->link->is_targets && c->waiting == NULL) /* it was read for hashes: who wants those asks again */
        return;
    timer_arm(&core->timers, &c->timer, core->now + pause_ns, on_pause);
}

static uint64_t contact_backoff(const struct core *core, const struct contact *c)
{
    uint64_t factor = c->attempts < 7 ? UINT64_C(1) << c->attempts : BACKOFF_MOST;
    return (factor < BACKOFF_MOST ? factor : BACKOFF_MOST) * core->c.settings->backoff_ms * NS_PER_MS;
}

static void on_silence(struct core *core, struct timer *t)
{
    struct contact *c = (struct contact *)((char *)t - offsetof(struct contact, timer));
    core->stats.handshake_retries++;
    log_line(core->c.log, LOG_WARN, "rank %u did not give its card in %llu ms (attempt %u)", c->peer,
             (unsigned long long)core->c.settings->handshake_ms, c->attempts);
    contact_retry(core, c, contact_backoff(core, c));
}

static void contact_read(struct core *core, struct contact *c)
{
    const struct wire_row *row = &core->c.directory->rows[c->peer];
    if (op_add(&core->ops, &c->op, OP_CONTACT) != 0) {
        contact_retry(core, c, contact_backoff(core, c));
        return;
    }
    int rc = core->c.port->read(core->c.port->self, c->peer, row->card_offset, row->card_bytes, c->op.tag);
    if (rc != 0) { /* no room now: soon again; anything else: as if it were silent */
        contact_retry(core, c, rc == BATON_EAGAIN ? NS_PER_MS : contact_backoff(core, c));
        c->attempts += rc != BATON_EAGAIN;
        return;
    }
    c->state = CONTACT_READING;
    c->attempts++;
    core->reading++;
    timer_arm(&core->timers, &c->timer, core->now + core->c.settings->handshake_ms * NS_PER_MS, on_silence);
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

/* Checks a card field by field and compiles the plan; nothing is kept of one that fails. */
static int contact_take(struct core *core, struct contact *c, const uint8_t *data, uint32_t bytes, struct plan_why *why)
{
    const struct wire_row *row = &core->c.directory->rows[c->peer];
    struct wire_card card;
    snprintf(why->text, sizeof why->text, "its card is malformed");
    int rc = wire_card_decode(data, bytes, &card);
    if (rc != 0)
        return rc;
    if (card.incarnation != row->incarnation || !card.has_geometry || card.board_offset % 8 != 0) {
        snprintf(why->text, sizeof why->text, "its card contradicts its directory row");
        rc = BATON_EMESSAGE;
    }
    if (rc == 0) {
        rc = geometry_check(&card.geometry, &card.pool_bytes, 1, why);
        rc = rc != 0 ? BATON_EMESSAGE : 0;
    }
    const baton_geometry_t *src = c->link->is_targets ? core->c.geometry : &card.geometry;
    const baton_geometry_t *dst = c->link->is_targets ? &card.geometry : core->c.geometry;
    if (rc == 0)
        rc = geometry_match(src, dst, why);
    if (rc == 0 && c->num_boxes > 0)
        rc = plan_compile(src, dst, c->boxes, c->num_boxes, &c->plan, why);
    if (rc == 0) {
        c->board_offset = card.board_offset;
        c->board_slots = card.board_slots;
        c->arena_offset = card.arena_offset;
        c->arena_bytes = card.arena_bytes;
        c->pool_offset = card.pool_offset;
        c->pool_bytes = card.pool_bytes;
    }
    wire_card_free(&card);
    return rc;
}

/* The cache of a contact's rank cannot match, and never will. */
static enum link_news contact_refuse(struct core *core, struct contact *c, const struct plan_why *why)
{
    if (!c->is_spare && !c->link->is_targets) {
        link_refuse(core, c->link, BATON_EGEOMETRY, c->peer, why);
        return LINK_SETTLED;
    }
    contact_rest(core, c);
    c->state = CONTACT_REFUSED;
    c->why = *why;
    if (c->is_spare)
        return LINK_SPARE;
    log_line(core->c.log, LOG_ERROR, "rank %u cannot be written to: %s", c->peer, why->text);
    return LINK_TARGET;
}

static enum link_news contact_good(struct core *core, struct contact *c)
{
    struct link *link = c->link;
    timer_stop(&core->timers, &c->timer);
    op_remove(&core->ops, &c->op);
    core->reading--;
    c->state = CONTACT_GOOD;
    if (c->is_spare)
        return LINK_SPARE;
    link->good++;
    if (link->is_targets)
        return LINK_TARGET;
    if (link->lacks)
        link_refuse(core, link, BATON_ESOURCE, c->peer, &link->why);
    else if (link->good == link->num_contacts)
        link_ready(core, link);
    else
        return LINK_NOTHING;
    return LINK_SETTLED;
}

enum link_news link_on_card(struct core *core, struct contact *c, const struct port_event *e)
{
    struct plan_why why = {{0}};
    if (e->kind != PORT_READ || c->state != CONTACT_READING)
        return LINK_NOTHING;
    int rc = e->error != 0 ? e->error : contact_take(core, c, e->data, e->bytes, &why);
    if (rc == BATON_EGEOMETRY)
        return contact_refuse(core, c, &why);
    if (rc == 0)
        return contact_good(core, c);
    core->stats.handshake_retries++;
    log_line(core->c.log, LOG_WARN, "rank %u's card was not taken: %s: %s", c->peer, baton_strerror(rc), why.text);
    contact_retry(core, c, contact_backoff(core, c));
    return LINK_NOTHING;
}

bool contact_holds(const struct contact *c, const struct peer_table *t)
{
    return t->slot < c->board_slots && t->numbers <= WIRE_NUMBERS_MAX &&
           within(t->offset, wire_table_bytes(t->numbers), c->arena_bytes);
}

void links_destroy(struct core *core)
{
    for (uint32_t i = 0; i < core->c.directory->num_engines; i++) {
        if (core->links[i] != NULL)
            link_destroy(core, core->links[i]);
        if (core->targets[i] != NULL)
            link_destroy(core, core->targets[i]);
    }
}
