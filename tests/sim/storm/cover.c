/* SPDX-License-Identifier: BSD-3-Clause */
/* cover: counts which events came in which states, over all seeds. */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 512

static struct pair {
    char name[48];
    uint64_t count;
} pairs[PAIRS_MAX];
static unsigned num_pairs;

static void add(const struct pair *pair)
{
    for (unsigned i = 0; i < num_pairs; i++)
        if (strcmp(pairs[i].name, pair->name) == 0) {
            pairs[i].count += pair->count;
            return;
        }
    if (num_pairs < PAIRS_MAX)
        pairs[num_pairs++] = *pair;
}

static void count(const char *state, const char *event)
{
    struct pair pair = {.count = 1};
    snprintf(pair.name, sizeof pair.name, "%s x %s", state, event);
    add(&pair);
}

bool storm_cover_write(int fd)
{
    FILE *f = fdopen(fd, "w");
    return f != NULL && fwrite(pairs, sizeof pairs[0], num_pairs, f) == num_pairs && fclose(f) == 0;
}

bool storm_cover_read(int fd)
{
    struct pair pair;
    FILE *f = fdopen(fd, "r");
    while (f != NULL && fread(&pair, sizeof pair, 1, f) == 1)
        add(&pair);
    return f != NULL && !ferror(f) && fclose(f) == 0;
}

static const char *offer_name(const struct core *core, const char *key, uint32_t attempt)
{
    static const char *const names[] = {
        [ATTEMPT_AWAITED] = "offer awaited", [ATTEMPT_OFFERED] = "offer live", [ATTEMPT_ENDED] = "offer ended"};
    const struct attempt *a = attempt_find(core, key, attempt);
    if (a == NULL)
        return "offer unknown";
    bool drains = attempt_offer(a) != NULL && attempt_offer(a)->state == OFFER_DRAINING;
    return drains ? "offer draining" : names[attempt_state(a)];
}

static const char *leg_name(const struct leg *leg)
{
    static const char *const pull[LEG_CLOSED + 1] = {"leg handshake", "leg asked",  "leg moving",   "leg doubted", "?",
                                                     "leg checking",  "leg fenced", "leg stopping", "leg closed"};
    static const char *const push[LEG_CLOSED + 1] = {"?",
                                                     "push leg asked",
                                                     "?",
                                                     "?",
                                                     "push leg awaited",
                                                     "push leg checking",
                                                     "push leg fenced",
                                                     "push leg stopping",
                                                     "push leg closed"};
    if (leg == NULL)
        return "leg gone";
    return leg->ask->call->want.mode == BATON_MODE_PUSH ? push[leg->state] : pull[leg->state];
}

static const char *mover_name(const struct mover *m)
{
    static const char *const read[] = {"?", "read waiting", "read table", "read moving", "read proof",
                                       "?", "read ended"};
    static const char *const write[] = {"?",           "write waiting",  "write table", "write moving",
                                        "write proof", "write draining", "write ended"};
    return m->write ? write[m->state] : read[m->state];
}

static void cover_producer(const struct core *core, uint32_t peer, const struct wire_message *m)
{
    const struct wire_name *name = wire_name_of(m);
    static const char *const readers[] = {"reader new", "reader granted", "reader ended"};
    static const char *const pushes[] = {"push card", "push writing", "push written", "push stopping"};
    const char *event = wire_type_name(m->type);
    if (m->type == WIRE_WANT)
        event = m->want.mode == BATON_MODE_PUSH ? "WANT push" : "WANT pull";
    const struct offer *o = offer_find(core, name->key, name->attempt);
    count(offer_name(core, name->key, name->attempt), event);
    const struct reader *r = o != NULL && o->state == OFFER_LIVE ? reader_of(core, o->seats, peer) : NULL;
    if (r != NULL)
        count(reader_push(r) != NULL ? pushes[push_state(reader_push(r))] : readers[reader_state(r)], event);
}

static void cover_consumer(const struct core *core, uint32_t peer, const struct wire_message *m)
{
    struct want *want;
    const struct leg *leg = NULL;
    HASH_FIND(by_id, core->wants->by_id, &m->want_id, sizeof m->want_id, want);
    for (uint32_t i = 0; want != NULL && i < want->ask.num_legs; i++)
        if (leg_rank(leg_at(want->legs, i)) == peer)
            leg = leg_at(want->legs, i);
    bool bad = m->type == WIRE_WRITTEN && m->written.error != 0;
    count(leg_name(leg), bad ? "WRITTEN error" : wire_type_name(m->type));
}

void storm_cover(struct storm_rank *r, const struct port_event *e)
{
    static const char *const events[] = {"?", "message", "table", "generation", "moved", "settled", "quiet", "worked"};
    struct wire_message m;
    struct op *op;
    if (e->kind != PORT_MESSAGE) {
        op = op_find(&r->core->ops, e->tag);
        if (op == NULL)
            count("operation forgotten", events[e->kind]);
        else if (op->kind == OP_CONTACT)
            count(((struct contact *)op)->is_target ? "target" : "source", e->error ? "no card" : "card");
        else if (op->kind == OP_CHECK)
            count("check", events[e->kind]);
        else if (op->kind == OP_TAIL)
            count("tail", events[e->kind]);
        else
            count(mover_name((struct mover *)op), e->error                                      ? "error"
                                                  : e->kind == PORT_MOVED && e->generation != 0 ? "moved, generation"
                                                                                                : events[e->kind]);
        return;
    }
    if (wire_decode(e->data, e->bytes, &m) != 0)
        return;
    if (m.type == WIRE_BEAT) {
        const struct peer *p = r->core->peers->by_rank[e->peer];
        count(p == NULL         ? "peer unknown"
              : p->lost         ? "peer lost"
              : p->business > 0 ? "peer busy"
                                : "peer idle",
              m.beat.ask ? "beat" : "beat back");
    } else if (m.type >= WIRE_INQUIRY) {
        count("neighbour", wire_type_name(m.type));
    } else if (m.type == WIRE_CHECK) {
        cover_producer(r->core, e->peer, &m);
    } else if (m.type >= WIRE_REPORT && m.type <= WIRE_STANDING) {
        count("engine", wire_type_name(m.type));
    } else if (m.type == WIRE_WANT || m.type == WIRE_DONE || m.type == WIRE_CANCEL || m.type == WIRE_RELEASE) {
        cover_producer(r->core, e->peer, &m);
    } else {
        cover_consumer(r->core, e->peer, &m);
    }
}

static const char *call_state(const struct storm_rank *r, const struct storm_call *c)
{
    const struct core *core = r->core;
    uint64_t id = storm_id(r->storm, c);
    struct want *want;
    char key[8];
    if (c->is_want) {
        HASH_FIND(by_id, core->wants->by_id, &id, sizeof id, want);
        return want == NULL                 ? "want gone"
               : want->state == WANT_QUEUED ? "want queued"
               : want->state == WANT_ACTIVE ? "want active"
                                            : "want draining";
    }
    snprintf(key, sizeof key, "k%u", c->key);
    return offer_name(core, key, c->attempt);
}

void storm_cover_call(struct storm_rank *r, const struct storm_call *c, const char *what)
{
    count(call_state(r, c), what);
}

void storm_cover_end(const struct storm_call *c)
{
    static const char *const ends[] = {"?", "done", "failed", "expired", "cancelled"};
    char text[24];
    snprintf(text, sizeof text, "%s%s", ends[c->status],
             c->given_up ? (c->ended ? ", was given up" : ", given up") : "");
    count(c->is_want ? (c->mode == BATON_MODE_PUSH ? "push want" : "pull want") : "offer", text);
}

void storm_cover_rank(const struct storm_rank *r)
{
    baton_stats_t stats;
    core_stats(r->core, &stats);
    for (uint64_t i = 0; i < stats.retries; i++)
        count("leg failed", "another rank");
}

void storm_cover_news(const char *state, const char *news)
{
    count(state, news);
}

/* What a rank has under way with one that goes: legs that read from it or are written to by it, and its readers. */
void storm_cover_left(const struct storm_rank *r, uint32_t rank)
{
    static const char *const readers[] = {"reader none", "reader granted", "reader ended"};
    static const char *const pushes[] = {"push card", "push writing", "push written", "push stopping"};
    const struct core *core = r->core;
    for (struct want *want = core->wants->by_id; want != NULL; want = want->by_id.next) {
        if (want->state == WANT_QUEUED && want->name.engine == core->c.directory->engine_of[rank])
            count("want queued", "LEFT");
        for (uint32_t i = 0; want->legs != NULL && i < want->ask.num_legs; i++)
            if (leg_rank(leg_at(want->legs, i)) == rank)
                count(leg_name(leg_at(want->legs, i)), "LEFT");
    }
    for (struct offer *o = core->offers->by_id; o != NULL; o = o->by_id.next) {
        const struct reader *reader = reader_of(core, o->seats, rank);
        if (reader != NULL)
            count(reader_push(reader) != NULL ? pushes[push_state(reader_push(reader))] : readers[reader_state(reader)],
                  "LEFT");
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

bool storm_cover_report(uint64_t least, bool print)
{
    bool good = true;
    qsort(pairs, num_pairs, sizeof pairs[0], by_name);
    for (unsigned i = 0; i < num_pairs; i++) {
        if (print)
            printf("%10llu  %s\n", (unsigned long long)pairs[i].count, pairs[i].name);
        if (pairs[i].count < least) {
            fprintf(stderr, "baton-sim: \"%s\" was met %llu times only\n", pairs[i].name,
                    (unsigned long long)pairs[i].count);
            good = false;
        }
    }
    return good;
}
