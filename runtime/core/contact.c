/* SPDX-License-Identifier: BSD-3-Clause */
/* contact: see contact.h. */
#include "core/contact.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/contact_inside.h"
#include "core/state.h"
#include "wire/card.h"
#include "wire/table.h"

#define BACKOFF_MOST 40 /* times backoff_ms */

static void contact_read(struct core *core, struct contact *c);

/* ---- reading its card -------------------------------------------------------------------------------------------- */

static void on_pause(struct core *core, struct timer *t)
{
    contact_read(core, (struct contact *)((char *)t - offsetof(struct contact, timer)));
}

static void contact_pause(struct core *core, struct contact *c, uint64_t pause_ns)
{
    op_remove(&core->ops, &c->op);
    c->state = CONTACT_NEEDED;
    timer_arm(&core->timers, &c->timer, core->now + pause_ns, on_pause);
}

static void contact_retry(struct core *core, struct contact *c, uint64_t pause_ns)
{
    contact_pause(core, c, pause_ns);
    if (c->is_target && c->waits.first == NULL) /* it was read for hashes, and whoever wants those asks again */
        timer_stop(&core->timers, &c->timer);
}

static uint64_t contact_backoff(const struct core *core, const struct contact *c)
{
    uint64_t factor = c->attempts < 7 ? UINT64_C(1) << c->attempts : BACKOFF_MOST;
    return (factor < BACKOFF_MOST ? factor : BACKOFF_MOST) * core->c.settings->backoff_ms * NS_PER_MS;
}

static void on_silence(struct core *core, struct timer *t)
{
    struct contact *c = (struct contact *)((char *)t - offsetof(struct contact, timer));
    count_add(&core->stats.handshake_retries, 1);
    log_line(core->c.log, LOG_WARN, "rank %u did not give its card in %llu ms (attempt %u)", c->peer,
             (unsigned long long)core->c.settings->handshake_ms, c->attempts);
    contact_retry(core, c, contact_backoff(core, c));
}

static void contact_read(struct core *core, struct contact *c)
{
    const struct directory_row *row = &core->c.directory->rows[c->peer];
    if (op_add(&core->ops, &c->op, OP_CONTACT) != 0) {
        contact_retry(core, c, contact_backoff(core, c));
        return;
    }
    int rc = core->c.port->path.read(core->c.port->path.self, c->peer, row->card_offset, row->card_bytes, c->op.tag);
    if (rc == BATON_EAGAIN) { /* no room: try again soon */
        contact_pause(core, c, NS_PER_MS);
        return;
    }
    if (rc != 0) { /* counts as silence */
        contact_retry(core, c, contact_backoff(core, c));
        c->attempts++;
        return;
    }
    c->state = CONTACT_READING;
    c->attempts++;
    timer_arm(&core->timers, &c->timer, core->now + core->c.settings->handshake_ms * NS_PER_MS, on_silence);
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

/* Whether a card's geometry fits into its regions. */
static int check_geometry(const struct wire_card *card, const struct path_regions *r, struct plan_why *why)
{
    uint64_t *bytes = calloc(r->num, sizeof *bytes);
    if (bytes == NULL) {
        snprintf(why->text, sizeof why->text, "no memory for its regions");
        return BATON_ENOMEM;
    }
    for (uint32_t i = 0; i < r->num; i++)
        bytes[i] = r->region[i].bytes;
    int rc = geometry_check(&card->geometry, bytes, r->num, why);
    free(bytes);
    return rc == 0 || rc == BATON_ENOMEM ? rc : BATON_EMESSAGE;
}

/* Where a card's cache lies, if its geometry fits into that. */
static int regions_of(const struct wire_card *card, struct path_regions **out, struct plan_why *why)
{
    uint32_t num = card->num_regions > 0 ? card->num_regions : 1;
    struct path_regions *r = malloc(sizeof *r + num * sizeof *r->region);
    if (r == NULL) {
        snprintf(why->text, sizeof why->text, "no memory for its regions");
        return BATON_ENOMEM;
    }
    struct path_region *region = (void *)(r + 1);
    *r = (struct path_regions){.is_wrapped = card->num_regions > 0, .num = num, .region = region};
    for (uint32_t i = 0; i < num; i++)
        region[i] = r->is_wrapped ? (struct path_region){card->regions[i].address, card->regions[i].bytes,
                                                         wire_region_is_device(&card->regions[i])}
                                  : (struct path_region){card->pool_offset, card->pool_bytes, false};
    int rc = check_geometry(card, r, why);
    if (rc == 0)
        *out = r;
    else
        free(r);
    return rc;
}

/* Checks a card field by field and compiles the plan; nothing is kept of one that fails. */
static int card_take(struct core *core, struct contact *c, const uint8_t *data, uint32_t bytes, struct plan_why *why)
{
    const struct directory_row *row = &core->c.directory->rows[c->peer];
    struct wire_card card;
    struct path_regions *regions = NULL;
    int rc = wire_card_decode(data, bytes, &card);
    snprintf(why->text, sizeof why->text, rc == BATON_EMESSAGE ? "its card is malformed" : "no memory for its card");
    if (rc != 0)
        return rc;
    if (card.member != row->number || !card.has_geometry || card.board_offset % 8 != 0) {
        snprintf(why->text, sizeof why->text, "its card contradicts its directory row");
        rc = BATON_EMESSAGE;
    }
    if (rc == 0)
        rc = regions_of(&card, &regions, why);
    const baton_geometry_t *src = c->is_target ? core->c.geometry : &card.geometry;
    const baton_geometry_t *dst = c->is_target ? &card.geometry : core->c.geometry;
    if (rc == 0)
        rc = geometry_match(src, dst, why);
    if (rc == 0 && c->num_boxes > 0)
        rc = plan_compile(src, dst, c->boxes, c->num_boxes, &c->plan, why);
    if (rc == 0) {
        c->layout.board_offset = card.board_offset;
        c->layout.board_slots = card.board_slots;
        c->layout.arena_offset = card.arena_offset;
        c->layout.arena_bytes = card.arena_bytes;
        c->layout.regions = regions;
        regions = NULL;
    }
    free(regions);
    wire_card_free(&card);
    return rc;
}

int contact_on_card(struct core *core, struct contact *c, const struct port_event *e, struct plan_why *why)
{
    if (e->kind != PORT_READ || c->state != CONTACT_READING)
        return BATON_EAGAIN;
    int rc = e->error != 0 ? e->error : card_take(core, c, e->data, e->bytes, why);
    if (rc == BATON_EGEOMETRY)
        return rc;
    if (rc == 0) {
        timer_stop(&core->timers, &c->timer);
        op_remove(&core->ops, &c->op);
        c->state = CONTACT_GOOD;
        return 0;
    }
    count_add(&core->stats.handshake_retries, 1);
    log_line(core->c.log, LOG_WARN, "rank %u's card was not taken: %s: %s", c->peer, baton_strerror(rc), why->text);
    contact_retry(core, c, contact_backoff(core, c));
    return BATON_EAGAIN;
}

void contact_refuse(struct core *core, struct contact *c, const struct plan_why *why)
{
    contact_rest(core, c);
    c->state = CONTACT_REFUSED;
    c->why = *why;
}

void contact_rest(struct core *core, struct contact *c)
{
    if (c->state == CONTACT_GOOD || c->state == CONTACT_REFUSED)
        return;
    timer_stop(&core->timers, &c->timer);
    op_remove(&core->ops, &c->op);
    c->state = CONTACT_NEEDED;
    c->attempts = 0;
}

/* ---- who waits for it -------------------------------------------------------------------------------------------- */

void contact_want(struct core *core, struct contact *c)
{
    if (c->state == CONTACT_NEEDED && !c->timer.armed)
        contact_read(core, c);
}

void contact_wait(struct core *core, struct contact *c, struct queued *who)
{
    queue_join(&c->waits, who);
    contact_want(core, c);
}

void contact_leave(struct core *core, struct contact *c, struct queued *who)
{
    if (who->in == NULL)
        return;
    queue_leave(who);
    if (c->waits.first == NULL)
        contact_rest(core, c);
}

struct queued *contact_take(struct contact *c)
{
    return queue_take(&c->waits);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

struct link *contact_link(const struct contact *c)
{
    return c->link;
}

uint32_t contact_peer(const struct contact *c)
{
    return c->peer;
}

bool contact_is_good(const struct contact *c)
{
    return c->state == CONTACT_GOOD;
}

const char *contact_refusal(const struct contact *c)
{
    return c->state == CONTACT_REFUSED ? c->why.text : NULL;
}

const struct plan *contact_plan(const struct contact *c)
{
    return c->plan;
}

const struct peer_layout *contact_layout(const struct contact *c)
{
    return &c->layout;
}

const uint8_t *contact_readers(const struct contact *c)
{
    return c->readers;
}

bool contact_holds(const struct contact *c, const struct peer_table *t)
{
    return t->slot < c->layout.board_slots && t->entries <= WIRE_TABLE_ENTRIES_MAX &&
           within(t->offset, wire_table_bytes(t->entries), c->layout.arena_bytes);
}

void contact_fini(struct core *core, struct contact *c)
{
    timer_stop(&core->timers, &c->timer);
    op_remove(&core->ops, &c->op);
    plan_destroy(c->plan);
    free(c->layout.regions);
}
