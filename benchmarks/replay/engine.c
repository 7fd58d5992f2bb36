/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: see engine.h. Each turn begins requests that may begin, goes on with one piece, and reads events. If there
 * was none of these, it sleeps. Every accepted call has a deadline of Baton's own, so the loop waits for events alone.
 * If these do not come, the process ends.
 */
#include "replay/engine.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "option/output.h"
#include "replay/clock.h"
#include "replay/random.h"

#define COMPLAINTS_MAX 8
#define SHOW_INTERVAL_NS (250 * NS_PER_MS)
#define SLEEP_MAX_NS (200 * NS_PER_MS)
#define LENT_SLEEP_NS UINT64_C(50000) /* between two turns of a reactor that has no thread */
#define RETRY_NS NS_PER_MS            /* after a refusal with nothing outstanding */
#define LEAD_NS (200 * NS_PER_MS)     /* before the first arrival, to be ready for it */
#define PIECE_TOKENS 256              /* of a layer: a MiB or less in most models, which takes 200 us */

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void say(const struct engine *e, const char *format, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "baton-replay: %s rank %u: %s\n", e->name, e->rank_in_engine, text);
}

void engine_complain(struct engine *e, const char *format, ...)
{
    va_list args;
    e->complaints++;
    if (e->complaints > COMPLAINTS_MAX)
        return;
    va_start(args, format);
    say(e, format, args);
    va_end(args);
    if (e->complaints == COMPLAINTS_MAX)
        fprintf(stderr, "baton-replay: %s rank %u: further failures are only counted\n", e->name, e->rank_in_engine);
}

static void complain_of_miss(struct engine *e, const struct pattern_table *t, uint32_t request,
                             const struct pattern_miss *miss, const char *what)
{
    const struct model_extent x = model_extent(e->pattern.geometry, miss->tensor);
    const char *dot = strchr(miss->tensor->name, '.'), *part = dot != NULL ? strchr(dot + 1, '.') : NULL;
    const int digits = 2 * (int)x.elem_bytes;
    char words[96], plane[16];
    if (x.planes == 2)
        snprintf(plane, sizeof plane, "%c", "KV"[miss->place.plane & 1]);
    else
        snprintf(plane, sizeof plane, "%u", miss->place.plane);
    pattern_explain(&e->pattern, t, miss, engine_pattern_request(e, 0), e->trace->count + 1, words, sizeof words);
    engine_complain(e,
                    "%s: request %u, layer %u%s, head %u, token %u, plane %s, channel %u: expected 0x%0*x, found "
                    "0x%0*x, in block %u of group %u%s%s",
                    what, request, miss->place.layer, part != NULL ? part : "", miss->place.head, miss->place.token,
                    plane, miss->place.channel, digits, miss->expected, digits, miss->found, miss->block,
                    miss->tensor->group, words[0] ? "; " : "", words);
}

void engine_count_misses(struct engine *e, const struct pattern_table *t, uint32_t request,
                         const struct pattern_result *r, const char *what)
{
    e->phase.tally.mismatches += r->mismatches;
    if (r->mismatches > 0)
        complain_of_miss(e, t, request, &r->first, what);
}

/* For errors after which the context's state is not known, so that MPI cannot be finalised. */
static void __attribute__((noreturn, format(printf, 2, 3))) leave(const struct engine *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(e, format, args);
    va_end(args);
    fflush(NULL);
    baton_exit(1);
}

static void show_progress(struct engine *e)
{
    const uint64_t now = clock_ns();
    if (!e->shows_progress || now < e->phase.start_ns || now - e->shown_ns < SHOW_INTERVAL_NS)
        return;
    e->shown_ns = now;
    fprintf(stderr, "\r%s run: %u of %u requests begun, %u outstanding here, %.1f s\033[K", e->phase.name,
            e->phase.next, e->trace->count, e->phase.outstanding, (double)(now - e->phase.start_ns) / NS_PER_S);
    fflush(stderr);
}

static void clear_progress(const struct engine *e)
{
    if (e->shown_ns != 0)
        fputs("\r\033[K", stderr);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

uint64_t engine_pattern_request(const struct engine *e, uint32_t request)
{
    return ((uint64_t)e->phase.number << 32) | request;
}

struct pattern_table engine_table(const struct engine *e, const struct slot *s)
{
    struct pattern_table t = {
        .request = engine_pattern_request(e, s->request), .num_tokens = s->num_tokens, .held = s->held};
    memcpy(t.group, s->tables, sizeof t.group);
    return t;
}

/* The pieces of a request: each is some tokens of one layer. */
static struct stream pieces_of(const struct engine *e, const struct slot *s)
{
    const baton_geometry_t *g = e->pattern.geometry;
    return (struct stream){.flags = BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS,
                           .num_tokens = s->num_tokens,
                           .chunk_tokens = PIECE_TOKENS,
                           .layers = {g->layer_first, g->layer_first + g->layer_count}};
}

/* Goes on to the next piece. Returns whether it is the last. */
static bool next_piece(const struct engine *e, struct slot *s)
{
    const struct stream pieces = pieces_of(e, s);
    stream_next(&pieces, &s->step);
    struct stream_step behind = s->step;
    return !stream_next(&pieces, &behind);
}

struct pattern_table engine_piece(const struct engine *e, const struct slot *s)
{
    struct pattern_table t = engine_table(e, s);
    t.only = (struct pattern_piece){s->step.layers, s->step.tokens};
    if (s->step.tokens.end == s->num_tokens)
        t.only.tokens.end = UINT32_MAX; /* with what is behind the last token */
    return t;
}

static struct slot *free_slot(struct engine *e)
{
    for (uint32_t i = 0; i + 1 < e->num_slots; i++)
        if (e->slots[i].state == SLOT_FREE)
            return &e->slots[i];
    return NULL;
}

/* The first request in that state. NULL: none is. */
static struct slot *first_slot(const struct engine *e, enum slot_state state)
{
    struct slot *first = NULL;
    for (uint32_t i = 0; i < e->num_slots; i++)
        if (e->slots[i].state == state && (first == NULL || e->slots[i].request < first->request))
            first = &e->slots[i];
    return first;
}

/* Whether there are enough blocks for a request, and `spare` more of each group. */
static bool has_blocks(const struct engine *e, uint32_t request, uint32_t spare)
{
    for (uint32_t g = 0; g < e->num_groups; g++)
        if (share_blocks(&e->share, request, g) + spare > e->pools[g].num_free)
            return false;
    return true;
}

bool engine_has_spare(const struct engine *e, uint32_t request)
{
    return has_blocks(e, request, 1);
}

/* The tables of a request, without their blocks. They are as an engine's: they have a place for every token that one of
   its layers still looks at. Where a part is held, half of the tables leave out blocks that are not to be moved. */
static uint32_t lay_out(const struct engine *e, struct slot *s)
{
    const bool cut = s->held > 0 && random_mix(e->options->seed + s->request) % 2 == 0;
    uint32_t num_blocks = 0;
    for (uint32_t g = 0; g < e->num_groups; g++) {
        const baton_group_t *group = &e->share.groups[g];
        baton_table_t *t = &s->tables[g];
        t->first_token = model_table_first(group, s->num_tokens);
        t->num_blocks = model_table_blocks(group, s->num_tokens);
        if (cut && group->kind != BATON_KIND_STATE && s->held > t->first_token) {
            const uint32_t gone = (s->held - t->first_token) / group->block_tokens;
            t->first_token += gone * group->block_tokens;
            t->num_blocks -= gone;
        }
        num_blocks += t->num_blocks;
    }
    return num_blocks;
}

static void begin_pieces(const struct engine *e, struct slot *s, enum slot_state state)
{
    const struct stream pieces = pieces_of(e, s);
    s->state = state;
    s->step = stream_begin(&pieces);
}

/* Takes blocks for the slot. The caller has checked that there are enough. */
static void hold(struct engine *e, struct slot *s, uint32_t request, uint32_t num_tokens, bool gate)
{
    *s = (struct slot){.state = SLOT_HELD, .gate = gate, .request = request, .num_tokens = num_tokens};
    s->held = gate ? 0 : e->job->held(e, request, num_tokens);
    const uint32_t num_blocks = lay_out(e, s);
    uint32_t *at = s->blocks = malloc((num_blocks + 1) * sizeof *s->blocks);
    for (uint32_t g = 0; g < e->num_groups; g++) {
        if (at == NULL || pool_take(&e->pools[g], at, s->tables[g].num_blocks) != 0)
            leave(e, "no memory or no blocks for request %u", request);
        s->tables[g].blocks = at;
        at += s->tables[g].num_blocks;
    }
    const enum slot_state state = e->job->prepare(e, s);
    if (state == SLOT_READYING)
        begin_pieces(e, s, state);
    else
        s->state = state;
}

static void give_back(struct engine *e, struct slot *s)
{
    for (uint32_t g = 0; g < e->num_groups; g++)
        if (pool_give(&e->pools[g], s->tables[g].blocks, s->tables[g].num_blocks) != 0)
            leave(e, "the free list is broken at request %u", s->request);
    free(s->blocks);
    *s = (struct slot){0};
}

/* Goes on with a piece of the slot. When all are done, its call can be made, or its blocks are free again. */
static void do_piece(struct engine *e, struct slot *s)
{
    const bool last = next_piece(e, s);
    if (s->state == SLOT_READYING) {
        e->job->ready(e, s, last);
        s->state = last ? SLOT_HELD : s->state;
    } else {
        e->job->check(e, s, last);
        if (last)
            give_back(e, s);
    }
}

/* One piece of what is to be made ready, or else of what is to be checked. Returns whether there was one. */
static bool work(struct engine *e)
{
    struct slot *s = first_slot(e, SLOT_READYING);
    if (s == NULL)
        s = first_slot(e, SLOT_CHECKING);
    if (s == NULL)
        return false;
    do_piece(e, s);
    return true;
}

static void call(struct engine *e, struct slot *s)
{
    char key[BATON_KEY_MAX];
    snprintf(key, sizeof key, "%s-%u-%s", s->gate ? "gate" : "req", s->request, e->phase.name);
    const int rc = e->job->call(e, s, key);
    if (rc == BATON_EAGAIN) {
        e->phase.tally.postponed++;
        return;
    }
    if (rc < 0) {
        e->phase.tally.refused++;
        if (e->job->refused != NULL)
            e->job->refused(e, s);
        engine_complain(e, "request %u was refused: %s: %s", s->request, baton_errname(rc), baton_errmsg());
        e->phase.gate_open |= s->gate;
        begin_pieces(e, s, SLOT_CHECKING);
        return;
    }
    s->state = SLOT_OUT;
    e->phase.outstanding++;
    e->job->accepted(e, s);
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

uint64_t engine_arrival_ns(const struct engine *e, uint32_t request)
{
    if (e->phase.speed == 0)
        return e->phase.start_ns;
    const uint64_t ms = e->trace->requests[request].arrival_ms - e->trace->requests[0].arrival_ms;
    return e->phase.start_ns + (uint64_t)((double)ms * (double)NS_PER_MS / e->phase.speed);
}

static bool has_arrived(const struct engine *e, uint32_t request)
{
    return clock_ns() >= engine_arrival_ns(e, request);
}

/* The first request that can be called for, and whose time has come. */
static struct slot *due_slot(const struct engine *e)
{
    struct slot *s = first_slot(e, SLOT_HELD);
    return s != NULL && (s->gate || has_arrived(e, s->request)) ? s : NULL;
}

static bool all_free(const struct engine *e)
{
    for (uint32_t i = 0; i < e->num_slots; i++)
        if (e->slots[i].state != SLOT_FREE)
            return false;
    return true;
}

/* Gives the next request its place. Returns whether there was one and a place for it. */
static bool begin_next(struct engine *e)
{
    const uint32_t next = e->phase.next;
    if (next >= e->trace->count || (!e->job->may_prepare(e) && !has_arrived(e, next)) || !e->job->may_begin(e, next))
        return false;
    struct slot *s = free_slot(e);
    if (s == NULL || !has_blocks(e, next, 0)) {
        e->phase.waits = e->phase.waits || has_arrived(e, next);
        return false;
    }
    e->phase.times[next].waited = e->phase.waits;
    e->phase.waits = false;
    hold(e, s, next, e->trace->requests[next].tokens, false);
    e->phase.next = share_next(&e->share, next + 1);
    return true;
}

/* Makes the calls whose time has come, until one is postponed, and gives one request its place. Returns whether there
   was any. */
static bool begin(struct engine *e)
{
    bool called = false;
    for (struct slot *s = due_slot(e); s != NULL; s = due_slot(e)) {
        call(e, s);
        if (s->state == SLOT_HELD)
            break;
        called = true;
    }
    return begin_next(e) || called;
}

/* Makes one step of each prefill whose time has come. Returns whether there was one. */
static bool go_on(struct engine *e)
{
    bool any = false;
    for (uint32_t i = 0; i < e->num_slots; i++) {
        struct slot *s = &e->slots[i];
        if (s->due_ns == 0 || clock_ns() < s->due_ns)
            continue;
        e->job->go_on(e, s);
        if (s->state == SLOT_HELD)
            call(e, s);
        any = true;
    }
    return any;
}

void engine_postpone(struct engine *e, struct slot *s)
{
    e->phase.tally.postponed++;
    s->due_ns = clock_ns() + RETRY_NS;
}

void engine_begin_gate(struct engine *e, uint32_t request)
{
    struct slot *s = &e->slots[e->num_slots - 1];
    if (s->state != SLOT_FREE)
        leave(e, "no room for the gate of request %u", request);
    hold(e, s, request, 1, true);
    while (s->state == SLOT_READYING)
        do_piece(e, s);
    call(e, s);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void check_peer(const struct engine *e, const baton_event_t *event)
{
    if (event->error == BATON_EPEER)
        leave(e, "\"%s\" lost its peer, rank %u of %s: %s", event->key, event->peer_rank, event->peer_engine,
              event->detail);
}

/* The slot of the event. It must be out, and the event must have its id. */
static struct slot *slot_of(const struct engine *e, const baton_event_t *event)
{
    struct slot *s = event->user;
    if (s < e->slots || s >= e->slots + e->num_slots || s->state != SLOT_OUT || s->id != event->id)
        leave(e, "an event that belongs to no call: key \"%s\", id %llu", event->key, (unsigned long long)event->id);
    return s;
}

static bool read_event(struct engine *e)
{
    baton_event_t event;
    const int n = baton_poll(e->baton, &event, 1);
    if (n < 0)
        leave(e, "baton_poll: %s: %s", baton_errname(n), baton_errmsg());
    if (n == 0)
        return false;
    struct slot *s = slot_of(e, &event);
    if (event.type == BATON_EVENT_GIVEN_UP) { /* the request has failed; its blocks are not free until it ends */
        engine_complain(e, "request %u was given up: %s: %s", s->request, baton_strerror(event.error), event.detail);
        check_peer(e, &event);
        return true;
    }
    e->job->finish(e, s, &event);
    check_peer(e, &event);
    begin_pieces(e, s, SLOT_CHECKING);
    s->due_ns = 0;
    e->phase.outstanding--;
    if (event.status == BATON_STATUS_DONE)
        e->phase.good_ns = clock_ns();
    return true;
}

/* Every call ends within Baton's deadline for it. If no call succeeded for several such deadlines, the other side is
   gone or stuck, and the rest of the trace would fail, too. */
static void check_stuck(const struct engine *e)
{
    const uint64_t now = clock_ns(), patience_ns = (3 * (uint64_t)e->options->timeout_ms + 10000) * NS_PER_MS;
    if ((e->phase.outstanding > 0 || due_slot(e) != NULL) && now - e->phase.good_ns > patience_ns)
        leave(e, "%u requests are outstanding, and none succeeded for %llu s", e->phase.outstanding,
              (unsigned long long)((now - e->phase.good_ns) / NS_PER_S));
    if (now > e->meet->deadline_ns)
        leave(e, "the %s run did not end before its deadline", e->phase.name);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The time until there is something to do, at most SLEEP_MAX_NS. */
static uint64_t idle_ns(const struct engine *e, uint64_t now)
{
    uint64_t next = now + SLEEP_MAX_NS;
    const struct slot *held = first_slot(e, SLOT_HELD);
    if (e->phase.next < e->trace->count && engine_arrival_ns(e, e->phase.next) > now)
        next = least(next, engine_arrival_ns(e, e->phase.next));
    if (held != NULL && engine_arrival_ns(e, held->request) > now)
        next = least(next, engine_arrival_ns(e, held->request));
    for (uint32_t i = 0; i < e->num_slots; i++)
        if (e->slots[i].due_ns != 0)
            next = least(next, e->slots[i].due_ns);
    return next > now ? next - now : 0;
}

static void sleep_until_event(struct engine *e)
{
    const uint64_t now = clock_ns();
    uint64_t ns = idle_ns(e, now);
    if (e->lends_thread)
        ns = least(ns, LENT_SLEEP_NS);
    else if (e->phase.outstanding == 0 && due_slot(e) != NULL)
        ns = least(ns, RETRY_NS);
    if (e->phase.outstanding == 0 && due_slot(e) == NULL)
        e->phase.good_ns = now; /* no call is open that could succeed */
    struct pollfd fd = {.fd = baton_event_fd(e->baton), .events = POLLIN};
    const struct timespec wait = {.tv_nsec = (long)ns};
    ppoll(&fd, 1, &wait, NULL);
}

/* ---- the phase --------------------------------------------------------------------------------------------------- */

static void reset(struct engine *e, uint32_t phase, const char *phase_name, double speed)
{
    e->phase.number = phase;
    e->phase.name = phase_name;
    e->phase.speed = speed;
    e->phase.waits = false;
    e->phase.next = share_next(&e->share, 0);
    e->phase.gate_open = false;
    e->phase.tally = (struct tally){0};
    e->phase.samples.count = 0;
    e->shown_ns = 0;
    memset(e->phase.verified, 0, e->trace->count * sizeof *e->phase.verified);
    memset(e->phase.moments, 0, e->trace->count * sizeof *e->phase.moments);
    memset(e->phase.times, 0, e->trace->count * sizeof *e->phase.times);
}

/* All blocks of a group as one table, which must be free. */
static struct pattern_table free_table(const struct engine *e, uint32_t group)
{
    struct pattern_table t = {0};
    t.group[group] = (baton_table_t){.blocks = e->pools[group].free, .num_blocks = e->pools[group].num_free};
    return t;
}

static void poison_free(struct engine *e)
{
    for (uint32_t g = 0; g < e->num_groups; g++) {
        const struct pattern_table t = free_table(e, g);
        pattern_poison(&e->pattern, &t, 0, e->job->poison);
    }
}

/* After the last request every block is free, and must hold poison. */
static void check_free(struct engine *e)
{
    for (uint32_t g = 0; g < e->num_groups; g++) {
        struct pattern_result r = {0};
        const struct pattern_table t = free_table(e, g);
        pattern_verify_poison(&e->pattern, &t, e->job->poison, &r);
        engine_count_misses(e, &t, e->trace->count, &r, "written while it was free (found at the run's end)");
    }
    poison_free(e);
}

void engine_run(struct engine *e, uint32_t phase, const char *phase_name, double speed)
{
    reset(e, phase, phase_name, speed);
    e->phase.good_ns = meet_start_ns(e->meet);
    e->phase.start_ns = e->phase.good_ns + (speed > 0 ? LEAD_NS : 0);
    while (e->phase.next < e->trace->count || !all_free(e)) {
        const bool began = begin(e), went_on = go_on(e), worked = work(e);
        if (e->lends_thread && baton_progress(e->baton) < 0)
            leave(e, "baton_progress: %s", baton_errmsg());
        const bool ended = read_event(e);
        show_progress(e);
        check_stuck(e);
        if (!began && !went_on && !worked && !ended)
            sleep_until_event(e);
    }
    e->phase.end_ns = clock_ns();
    clear_progress(e);
    check_free(e);
}

int engine_init(struct engine *e, const struct engine_job *job, const baton_geometry_t *g, struct why *why)
{
    e->job = job;
    e->shows_progress = e->meet->rank == 0 && output_has_terminal();
    e->num_slots = e->options->inflight + 1;
    e->slots = calloc(e->num_slots, sizeof *e->slots);
    e->phase.verified = calloc(e->trace->count, sizeof *e->phase.verified);
    e->phase.moments = calloc(e->trace->count, sizeof *e->phase.moments);
    e->phase.times = calloc(e->trace->count, sizeof *e->phase.times);
    if (e->slots == NULL || e->phase.verified == NULL || e->phase.moments == NULL || e->phase.times == NULL)
        return why_set(why, "no memory for %u requests", e->trace->count);
    const uint64_t seed = e->options->seed + (uint64_t)e->meet->rank;
    for (e->num_groups = 0; e->num_groups < g->num_groups; e->num_groups++) {
        const uint32_t i = e->num_groups;
        if (pool_init(&e->pools[i], g->groups[i].num_blocks, seed + i * (UINT64_C(1) << 32), why) != 0)
            return -1;
    }
    poison_free(e);
    return 0;
}

void engine_fini(struct engine *e)
{
    for (uint32_t g = 0; g < e->num_groups; g++)
        pool_fini(&e->pools[g]);
    free(e->slots);
    free(e->phase.verified);
    free(e->phase.moments);
    free(e->phase.times);
    free(e->phase.samples.at);
}
