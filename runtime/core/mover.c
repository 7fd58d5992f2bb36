/* SPDX-License-Identifier: BSD-3-Clause */
/* mover: see mover.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mover_inside.h"
#include "core/peer.h"
#include "wire/table.h"

static void run_remove(struct core *core, struct mover *m)
{
    fair_remove(m->member.queue == &m->flow->moves ? &core->movers->moves : &core->movers->asks, &m->member);
}

/* The layers below this one may move, of the tokens of the chunk that moves now. */
static uint32_t layer_end(const struct mover *m)
{
    return m->reach.done >= m->chunk.end ? UINT32_MAX : m->reach.layer_end;
}

/* How many of the next bytes are in place. */
static uint64_t ahead(const struct mover *m)
{
    uint32_t layers = layer_end(m);
    if (plan_at_end(&m->chunk.transfer, &m->chunk.cursor))
        return 0;
    return layers < UINT32_MAX ? plan_ahead(&m->chunk.transfer, &m->chunk.cursor, layers) : UINT64_MAX;
}

/*
 * Questions and bytes wait for different things, so that a generation is read while others' bytes fill the path. Who
 * has no byte to move does not stand in the line, where it would use up its peer's turns: layers that become ready
 * bring it back.
 */
static void run_add(struct core *core, struct mover *m)
{
    bool moves = m->state == MOVER_MOVING;
    struct fair_queue *queue = moves ? &m->flow->moves : &m->flow->asks;
    if (m->member.queue == queue)
        return;
    run_remove(core, m);
    if (!moves || ahead(m) > 0)
        fair_add(moves ? &core->movers->moves : &core->movers->asks, queue, &m->member);
}

/* ---- bytes in flight --------------------------------------------------------------------------------------------- */

static struct budget *budget_of(struct core *core, uint32_t peer)
{
    return path_is_far(core->c.path[peer]) ? &core->movers->rma : &core->movers->copies;
}

static void on_look(struct core *core, struct timer *t)
{
    uint64_t copies = budget_look(&core->movers->copies, core->c.settings, core->timers.heard_ns);
    uint64_t rma = budget_look(&core->movers->rma, core->c.settings, core->timers.heard_ns);
    uint64_t next = copies < rma ? copies : rma;
    if (next != UINT64_MAX)
        timer_arm(&core->timers, t, next, on_look);
}

static void watch(struct core *core)
{
    if (!core->movers->look.armed && (core->movers->copies.talking != NULL || core->movers->rma.talking != NULL))
        timer_arm(&core->timers, &core->movers->look, core->now + core->c.settings->park_ms * NS_PER_MS, on_look);
}

static void take(struct core *core, struct mover *m, uint64_t bytes)
{
    m->taken += bytes;
    budget_take(budget_of(core, m->peer), &m->flow->share, bytes, core->now);
    watch(core);
}

static void land(struct core *core, struct mover *m, uint64_t bytes)
{
    budget_land(budget_of(core, m->peer), &m->flow->share, bytes, core->now);
    watch(core);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

/* The last news counts, and comes behind that of others. */
static void news_add(struct core *core, struct mover *m, enum mover_news what, int error, const char *detail)
{
    snprintf(m->detail, sizeof m->detail, "%s", detail);
    m->word = (struct mover_word){what, error, m->detail};
    queue_leave(&m->news);
    queue_join(&core->movers->news, &m->news);
}

/* Tells the owner how it ended. After an error the owner stops it. */
static void tell(struct core *core, struct mover *m, int error, const char *detail)
{
    mover_end(core, m, error == 0);
    news_add(core, m, MOVER_MOVED, error, detail);
}

struct mover *mover_take_news(struct core *core, struct mover_word *word)
{
    struct queued *news = queue_take(&core->movers->news);
    if (news == NULL)
        return NULL;
    struct mover *m = (struct mover *)((char *)news - offsetof(struct mover, news));
    *word = m->word;
    return m;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Up to which token it may move now. */
static uint32_t next_end(const struct mover *m)
{
    uint32_t end = m->reach.done > m->chunk.at ? m->reach.done : m->reach.next;
    return end < m->num_tokens ? end : m->num_tokens;
}

/* Begins to move the tokens up to `end`. 0, or an error with *why. */
static int next_chunk(struct mover *m, uint32_t end, struct plan_why *why)
{
    const struct plan_tables *src = m->write ? m->mine : &m->theirs.all, *dst = m->write ? &m->theirs.all : m->mine;
    int rc = plan_transfer_chunk(&m->chunk.transfer, contact_plan(m->contact), m->chunk.at, end, m->num_tokens, src,
                                 dst, why);
    if (rc != 0)
        return rc == BATON_ETOKENS ? rc : BATON_EMESSAGE; /* mine were checked when they came */
    m->chunk.end = end;
    m->chunk.cursor = (struct plan_cursor){0};
    m->bytes += m->chunk.transfer.bytes;
    return 0;
}

/* Goes on with the tokens that are in place by now; waits for them; or all has landed. */
static void go_on(struct core *core, struct mover *m)
{
    struct plan_why why = {{0}};
    int rc = 0;
    m->state = MOVER_WAITING;
    while (rc == 0 && m->state == MOVER_WAITING && m->chunk.at < m->num_tokens) {
        uint32_t end = next_end(m);
        if (end <= m->chunk.at)
            return;
        if (m->unread) {
            m->state = MOVER_TABLE;
            break;
        }
        rc = next_chunk(m, end, &why);
        if (rc == 0 && m->chunk.transfer.bytes > 0)
            m->state = MOVER_MOVING;
        else
            m->chunk.at = end; /* there is nothing of it in this part */
    }
    if (rc != 0) {
        tell(core, m, rc, why.text);
        return;
    }
    if (m->chunk.at == m->num_tokens)
        m->state = MOVER_PROOF;
    mover_note(core, m, TIMELINE_LAST, m->state == MOVER_PROOF);
    run_add(core, m);
}

static int take_table(struct mover *m, const struct peer_table *table)
{
    if (!contact_holds(m->contact, table))
        return BATON_EMESSAGE;
    m->unread |= table->offset != m->table.offset || table->entries != m->table.entries;
    m->table = *table;
    return 0;
}

int mover_start(struct core *core, struct mover *m, const struct mover_job *job)
{
    m->chunk.began_ns = core->now;
    m->reach = job->reach;
    m->chunk.at = job->held;
    m->num_tokens = job->num_tokens;
    m->mine = job->mine;
    int rc = take_table(m, &job->table);
    if (rc == 0 && job->sent.num > 0)
        rc = tables_decode(&m->theirs, &m->table, job->sent.data, job->sent.num);
    if (rc != 0) /* what was sent has not changed meanwhile, as tables that are read may: the message is wrong */
        return rc == BATON_ESTALE ? BATON_EMESSAGE : rc;
    m->unread = job->sent.num == 0;
    timeline_meet(core_timeline(core), TIMELINE_LEASED, core->now, m->op.tag, m->peer, job->want, m->write);
    go_on(core, m);
    return 0;
}

int mover_ready(struct core *core, struct mover *m, const struct reach *reach, const struct peer_table *table)
{
    if (table != NULL) {
        struct peer_table newer = *table;
        newer.slot = m->table.slot;
        int rc = take_table(m, &newer);
        if (rc != 0)
            return rc;
    }
    m->reach = *reach;
    if (m->state == MOVER_WAITING || m->state == MOVER_MOVING)
        run_add(core, m);
    return 0;
}

/* ---- what happened ----------------------------------------------------------------------------------------------- */

static void on_table(struct core *core, struct mover *m, const struct port_event *e)
{
    bool newer = m->table.offset != m->asked.offset || m->table.entries != m->asked.entries;
    int rc = e->error != 0 ? e->error : tables_decode(&m->theirs, &m->table, e->data, e->bytes);
    if (rc == 0) {
        m->unread = newer;
    } else if (newer && rc == BATON_ESTALE) {
        run_add(core, m); /* at once, in its new place */
        return;
    } else if (rc == BATON_ESTALE && !m->write && m->reach.done < UINT32_MAX) {
        m->state = MOVER_WAITING; /* an offer in chunks has rewritten them meanwhile: READY will name the new ones */
        return;
    } else {
        count_add(&core->stats.stale, rc == BATON_ESTALE);
        tell(core, m, rc, "its block tables could not be read");
        return;
    }
    go_on(core, m);
}

static void on_proof(struct core *core, struct mover *m, const struct port_event *e)
{
    run_remove(core, m); /* it has no more to ask */
    if (m->write) {
        tell(core, m, e->error, "what was written could not be settled");
    } else if (e->error != 0 || e->generation != m->table.generation) {
        char detail[96];
        count_add(&core->stats.stale, 1);
        snprintf(detail, sizeof detail, "generation %" PRIu64 " granted, %" PRIu64 " read again", m->table.generation,
                 e->error != 0 ? 0 : e->generation);
        tell(core, m, BATON_ESTALE, detail);
    } else {
        tell(core, m, 0, "");
    }
}

static void on_moved(struct core *core, struct mover *m, const struct port_event *e)
{
    m->tally.bytes += e->moved;
    m->tally.by[e->path] += e->moved;
    count_add(m->write ? &core->stats.puts : &core->stats.gets, e->runs);
    if (m->state == MOVER_DRAINING && m->tally.bytes == m->taken)
        run_add(core, m);
    if (m->state != MOVER_MOVING) /* an answer of the same step in which it was given up */
        return;
    land(core, m, e->moved);
    if (e->error != 0) {
        tell(core, m, e->error, m->write ? "writing to its blocks failed" : "reading its blocks failed");
        return;
    }
    if (m->tally.bytes == m->bytes) {
        m->chunk.at = m->chunk.end;
        go_on(core, m);
        if (m->state == MOVER_PROOF && !m->write && e->generation != 0) /* the path has read it by itself */
            on_proof(core, m, e);
        return;
    }
    run_add(core, m);
}

/* Asks the port whether anything of a mover that is given up is still under way. True: nothing is. */
static bool is_put_away(struct core *core, struct mover *m)
{
    const struct path *path = &core->c.port->path;
    m->parked = path->park(path->self, m->peer, m->op.tag);
    return m->parked == PATH_PARK_QUIET;
}

/* Whether what is under way can do no harm: it comes from a rank that has ended, or goes to a dead one. */
static bool is_harmless(const struct core *core, const struct mover *m)
{
    if (m->parked == PATH_PARK_SOON || !path_is_far(core->c.path[m->peer]))
        return false; /* copy workers use the plan of it: they are soon done, and that is told */
    return m->write ? peer_is_dead(core, m->peer) : peer_is_ended(core, m->peer);
}

/* Nothing of it is under way. */
static void finish(struct core *core, struct mover *m)
{
    m->parked = PATH_PARK_QUIET;
    m->state = MOVER_ENDED;
    run_remove(core, m);
    op_remove(&core->ops, &m->op);
}

static void quiet(struct core *core, struct mover *m)
{
    finish(core, m);
    news_add(core, m, MOVER_QUIET, 0, "");
}

/*
 * A write that cannot be settled is not known to be quiet, nor is one with an operation whose end nobody tells. It
 * stays so until close, unless its peer has ended.
 */
static void on_drained(struct core *core, struct mover *m, int error)
{
    if ((error == 0 && is_put_away(core, m)) || is_harmless(core, m))
        quiet(core, m);
}

void mover_on_event(struct core *core, struct op *op, const struct port_event *e)
{
    struct mover *m = (struct mover *)op;
    enum port_event_kind proof = m->write ? PORT_SETTLED : PORT_BOARD;
    if (e->kind == PORT_MOVED) {
        on_moved(core, m, e);
    } else if (e->kind == PORT_QUIET && m->parked != PATH_PARK_QUIET &&
               (is_put_away(core, m) || is_harmless(core, m))) { /* of several paths each tells */
        quiet(core, m);
    } else if (m->issued && (e->kind == PORT_READ || e->kind == proof)) {
        m->issued = false;
        core->movers->reading--;
        if (e->kind == PORT_READ && m->state == MOVER_TABLE)
            on_table(core, m, e);
        else if (e->kind == proof && m->state == MOVER_PROOF)
            on_proof(core, m, e);
        else if (e->kind == proof && m->state == MOVER_DRAINING)
            on_drained(core, m, e->error);
    }
}

/* ---- who is served next ------------------------------------------------------------------------------------------ */

/* How many bytes it may move now. */
static uint64_t may_move(struct core *core, const struct mover *m)
{
    const struct settings *set = core->c.settings;
    bool far = path_is_far(core->c.path[m->peer]);
    uint64_t limit = far ? set->rma_bytes : set->copy_bytes * set->copy_workers;
    uint64_t left = budget_left(budget_of(core, m->peer), limit, &m->flow->share);
    return left < set->chunk_bytes ? left : set->chunk_bytes;
}

static int64_t ask(struct core *core, struct mover *m)
{
    const struct path *path = &core->c.port->path;
    if (m->state == MOVER_TABLE)
        return path->read(path->self, m->peer, contact_layout(m->contact)->arena_offset + m->table.offset,
                          (uint32_t)wire_table_bytes(m->table.entries), m->op.tag);
    return m->write ? path->settle(path->self, m->peer, m->op.tag)
                    : path->board(path->self, m->peer, mover_board_at(m), m->op.tag);
}

/* What it has just begun may be done already. */
static void hear_at_once(struct core *core, struct mover *m)
{
    const struct path *path = &core->c.port->path;
    struct port_event event;
    if (path->answer == NULL || !path->answer(path->self, m->peer, m->op.tag, &event))
        return;
    if (event.at_ns > core->now) /* what it took is a part of the call's time */
        core->now = event.at_ns;
    mover_on_event(core, &m->op, &event);
}

/* A mover that asks gets a turn. False: it was refused. */
static bool turn_to_ask(struct core *core, struct mover *m)
{
    if (m->state == MOVER_WAITING) {
        run_remove(core, m);
        go_on(core, m);
        return true;
    }
    int64_t rc = ask(core, m);
    if (rc == BATON_EAGAIN)
        return false;
    if (rc < 0 && m->state == MOVER_DRAINING) {
        run_remove(core, m);
        on_drained(core, m, (int)rc);
    } else if (rc < 0) {
        tell(core, m, (int)rc, "its path refused the operation");
    } else {
        m->issued = true;
        m->asked = m->table;
        core->movers->reading++;
        run_remove(core, m);
        hear_at_once(core, m);
    }
    return true;
}

/* A mover that moves gets a turn, of chunk_bytes at most. False: it was refused. */
static bool turn_to_move(struct core *core, struct mover *m)
{
    const struct path *path = &core->c.port->path;
    uint64_t most = ahead(m), budget = may_move(core, m);
    if (most == 0) { /* its peer took back what it had said to be in place */
        run_remove(core, m);
        return true;
    }
    if (budget == 0)
        return false;
    struct path_leg leg = {.peer = m->peer,
                           .write = m->write,
                           .tag = m->op.tag,
                           .transfer = &m->chunk.transfer,
                           .cursor = &m->chunk.cursor,
                           .theirs = contact_layout(m->contact)->regions,
                           .board = mover_board_behind(m, most == UINT64_MAX)};
    int64_t rc = path->move(path->self, &leg, budget < most ? budget : most);
    if (rc == BATON_EAGAIN)
        return false;
    if (rc < 0) {
        tell(core, m, (int)rc, "its path refused the operation");
        return true;
    }
    mover_note(core, m, TIMELINE_FIRST, m->taken == 0);
    take(core, m, (uint64_t)rc);
    if (ahead(m) == 0)
        run_remove(core, m);
    hear_at_once(core, m);
    return true;
}

static struct mover *mover_of(struct fair_member *t)
{
    return t != NULL ? (struct mover *)((char *)t - offsetof(struct mover, member)) : NULL;
}

/* Gives turns until all that wait were refused. What becomes free within a step is theirs in the next one. */
bool movers_run(struct core *core)
{
    struct mover *m;
    while (core->movers->asks.ready != NULL || core->movers->moves.ready != NULL) {
        while (core->movers->news.first == NULL && (m = mover_of(fair_take(&core->movers->asks))) != NULL)
            if (!turn_to_ask(core, m))
                fair_refuse(&core->movers->asks, &m->member);
        while (core->movers->news.first == NULL && (m = mover_of(fair_take(&core->movers->moves))) != NULL)
            if (!turn_to_move(core, m))
                fair_refuse(&core->movers->moves, &m->member);
        if (core->movers->news.first != NULL)
            return false;
    }
    fair_again(&core->movers->asks);
    fair_again(&core->movers->moves);
    return true;
}

bool movers_wait(const struct core *core)
{
    return fair_any(&core->movers->asks) || fair_any(&core->movers->moves);
}

bool movers_are_busy(const struct core *core)
{
    return movers_wait(core) || core->movers->reading > 0 || budget_held(&core->movers->copies) > 0 ||
           budget_held(&core->movers->rma) > 0;
}

/* ---- giving up --------------------------------------------------------------------------------------------------- */

/* Bytes that were written may still land, so they are settled first. True: nothing was written. */
static bool stop_write(struct core *core, struct mover *m)
{
    if (m->taken == 0) {
        m->state = MOVER_ENDED;
        return is_put_away(core, m);
    }
    bool settling = m->state == MOVER_PROOF && m->issued;
    m->state = MOVER_DRAINING;
    if (m->tally.bytes == m->taken && !settling)
        run_add(core, m);
    return false;
}

static bool stop_read(struct core *core, struct mover *m)
{
    if (m->issued) { /* table and generation land in the port's own memory */
        m->issued = false;
        core->movers->reading--;
    }
    m->state = MOVER_ENDED;
    return is_put_away(core, m); /* else the blocks are not their owner's again before PORT_QUIET */
}

bool mover_stop(struct core *core, struct mover *m)
{
    if (m == NULL)
        return true;
    queue_leave(&m->news); /* its owner wants to know only whether it is quiet */
    if (m->parked != PATH_PARK_QUIET || m->state == MOVER_DRAINING) /* it was stopped before */
        return mover_lose(core, m);
    run_remove(core, m);
    mover_note(core, m, TIMELINE_STOPPED, m->state != MOVER_IDLE && m->state != MOVER_ENDED);
    if (m->state == MOVER_MOVING) /* it holds no budget while it waits */
        budget_drop(budget_of(core, m->peer), &m->flow->share, m->taken - m->tally.bytes);
    bool is_quiet = m->state == MOVER_IDLE || (m->write && m->state == MOVER_ENDED);
    if (!is_quiet)
        is_quiet = m->write && m->state != MOVER_TABLE ? stop_write(core, m) : stop_read(core, m);
    if (is_quiet || mover_lose(core, m))
        op_remove(&core->ops, &m->op); /* what this step still brings of it is counted already */
    return m->op.hh.tbl == NULL;
}

bool mover_lose(struct core *core, struct mover *m)
{
    bool waits = m->parked != PATH_PARK_QUIET || m->state == MOVER_DRAINING;
    if (!waits || !is_harmless(core, m) || (!is_put_away(core, m) && m->parked == PATH_PARK_SOON))
        return false;
    queue_leave(&m->news); /* nothing is told of it any more */
    if (m->issued)
        core->movers->reading--;
    m->issued = false;
    finish(core, m);
    return true;
}

bool mover_is_stray(const struct mover *m)
{
    return m->parked == PATH_PARK_NEVER;
}

/* ---- one mover --------------------------------------------------------------------------------------------------- */

static struct flow *flow_of(struct core *core, uint32_t rank)
{
    if (core->movers->flows[rank] == NULL)
        core->movers->flows[rank] = calloc(1, sizeof *core->movers->flows[rank]);
    return core->movers->flows[rank];
}

struct mover *mover_create(struct core *core, enum op_kind kind, void *owner, struct contact *contact, bool write)
{
    struct flow *flow = flow_of(core, contact_peer(contact));
    struct mover *m = flow != NULL ? reap_new(sizeof *m) : NULL;
    if (m == NULL)
        return NULL;
    m->owner = owner;
    m->contact = contact;
    m->peer = contact_peer(contact);
    m->flow = flow;
    m->write = write;
    m->tally = (struct tally){.peer = m->peer, .write = write};
    if (op_add(&core->ops, &m->op, kind) != 0) {
        reap_add(&core->reap, m);
        return NULL;
    }
    return m;
}

void mover_destroy(struct core *core, struct mover *m)
{
    if (m == NULL)
        return;
    queue_leave(&m->news);
    run_remove(core, m);
    op_remove(&core->ops, &m->op);
    if (m->issued)
        core->movers->reading--;
    tables_fini(&m->theirs);
    reap_add(&core->reap, m);
}

enum op_kind mover_kind(const struct mover *m)
{
    return m->op.kind;
}

void *mover_owner(const struct mover *m)
{
    return m->owner;
}

bool mover_awaits_more(const struct mover *m)
{
    return m->reach.done < UINT32_MAX;
}

const struct tally *mover_tally(const struct mover *m)
{
    return &m->tally;
}

int movers_create(struct core *core)
{
    core->movers = calloc(1, sizeof *core->movers + core->c.directory->most * sizeof core->movers->flows[0]);
    return core->movers != NULL ? 0 : BATON_ENOMEM;
}

void movers_forget(struct core *core, uint32_t rank)
{
    free(core->movers->flows[rank]);
    core->movers->flows[rank] = NULL;
}

void movers_destroy(struct core *core)
{
    for (uint32_t i = 0; core->movers != NULL && i < core->c.directory->num_ranks; i++)
        free(core->movers->flows[i]);
    free(core->movers);
}
