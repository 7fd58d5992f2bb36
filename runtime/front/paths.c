/* SPDX-License-Identifier: BSD-3-Clause */
/* paths: see paths.h. */
#include "front/paths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/textbuf.h"
#include "base/settings.h"
#include "front/areas.h"
#include "front/beside.h"
#include "front/cache.h"
#include "front/neighbours.h"
#include "front/runs.h"
#include "front/ways.h"
#include "shm/shm.h"
#include "staged/staged.h"
#include "wire/message.h"

#define PATHS_MOST (BATON_PATHS - 1) /* BATON_PATH_NONE is none */
#define EVENTS_OF_PATH 16            /* a path has room for so many in each turn, whatever the others have to tell */

struct paths {
    struct paths_wish wish;
    const struct ground *ground;
    struct beside *beside;
    const struct net *net; /* beside's */
    struct shm *shm;
    struct staged *staged;
    struct ways *ways;
    struct port port;
    struct path path[PATHS_MOST];
    unsigned num_paths;
    uint8_t *to, *to_out;        /* by rank: which path, PATH_...; and for writes */
    baton_path_t *kinds;         /* by rank: its kind */
    baton_path_t *kinds_out;     /* the same for writes */
    uint32_t peers[BATON_PATHS]; /* by kind */
    struct neighbours near;
    struct areas *areas;
    struct lanes *lanes;     /* theirs */
    _Atomic uint64_t *board; /* mine */
    bool needs_no_net;       /* it never has anything to do: messages and bytes of all ranks go by memory */
};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int make_shm(struct paths *p, struct path *out)
{
    const uint32_t size = p->near.vicinity->most + 1;
    struct shm_segment *segments = calloc(size, sizeof *segments);
    struct shm_memory *memory = calloc(size, sizeof *memory);
    const struct shm_wish wish = {.vicinity = p->near.vicinity,
                                  .segments = segments,
                                  .memory = memory,
                                  .workers = p->wish.settings->copy_workers,
                                  .worker_bytes = p->wish.settings->copy_bytes,
                                  .inline_bytes = p->wish.settings->inline_bytes,
                                  .cpus = p->wish.cpus,
                                  .look = p->wish.look,
                                  .arg = p->wish.arg,
                                  .log = p->wish.log};
    int rc = segments != NULL && memory != NULL ? neighbours_find(&p->near, &p->wish, p->areas, segments, memory)
                                                : error_set(BATON_ENOMEM, "no memory for %u segments", size);
    if (rc == 0) {
        rc = shm_create(&wish, &p->shm);
        if (rc != 0)
            error_set(rc, "the copy workers could not be started");
    }
    free(segments);
    free(memory);
    if (rc == 0)
        shm_path(p->shm, out);
    return rc;
}

static int make_attach(struct paths *p, struct path *out)
{
    shm_attach_path(p->shm, out);
    return 0;
}

static int make_net(struct paths *p, struct path *out)
{
    p->net = beside_net(p->beside);
    *out = p->net->path;
    return 0;
}

/* ---- staging ----------------------------------------------------------------------------------------------------- */

static bool is_device(const struct baton_cache *cache)
{
    return (cache_features(cache) & WIRE_ROW_DEVICE) != 0;
}

static const struct path *segment_path(void *arg, uint32_t peer)
{
    struct paths *p = arg;
    return &p->path[p->ground->peers[peer].mapped != NULL ? PATH_SHM : PATH_NET];
}

_Static_assert(WIRE_MESSAGE_MAX <= LANES_MESSAGE_MAX, "each message fits a lane");

static int send_message(struct paths *p, uint32_t peer, const void *message, uint32_t bytes, enum rings_when when)
{
    return lanes_lead_to(p->lanes, peer) ? lanes_send(p->lanes, peer, message, bytes, when)
                                         : p->net->send(p->net->self, peer, message, bytes);
}

static int send_note(void *arg, uint32_t peer, const void *message, uint32_t bytes)
{
    return send_message(arg, peer, message, bytes, RINGS_NOW);
}

static void sync_windows(void *arg)
{
    struct paths *p = arg;
    if (!p->needs_no_net) /* makes visible what was stored for peers that use the net, and what they stored */
        p->net->sync(p->net->self);
}

static int make_staged(struct paths *p, struct path *out)
{
    const struct baton_cache *cache = p->wish.cache;
    const struct staged_wish wish = {.num_ranks = p->ground->num_peers,
                                     .ground = {p, segment_path, send_note, sync_windows},
                                     .area = p->ground->segment + p->wish.stage_offset,
                                     .area_offset = p->wish.stage_offset,
                                     .area_bytes = p->wish.stage_bytes,
                                     .mine = cache_regions(cache),
                                     .is_writable = cache == NULL || cache->own == NULL || cache->own->is_writable,
                                     .driver = is_device(cache) ? p->wish.driver : NULL,
                                     .lent_ms = p->wish.settings->peer_ms,
                                     .log = p->wish.log};
    int rc = staged_create(&wish, &p->staged);
    if (rc != 0)
        return error_set(rc, "no memory for staging");
    staged_path(p->staged, out);
    return 0;
}

static int make_ways(struct paths *p, struct path *out)
{
    const struct ways_wish wish = {.ground = p->ground,
                                   .net = p->net,
                                   .directory = p->wish.directory,
                                   .near = &p->near,
                                   .mine = cache_regions(p->wish.cache),
                                   .path = p->path,
                                   .staged = p->staged};
    p->ways = ways_create(&wish);
    if (p->ways == NULL)
        return error_set(BATON_ENOMEM, "no memory for the ways between regions");
    ways_path(p->ways, out);
    return 0;
}

static int (*const makers[])(struct paths *p, struct path *out) = {[PATH_SHM] = make_shm,
                                                                   [PATH_ATTACH] = make_attach,
                                                                   [PATH_NET] = make_net,
                                                                   [PATH_STAGED] = make_staged,
                                                                   [PATH_WAYS] = make_ways};
#define MAKERS (sizeof makers / sizeof makers[0])
_Static_assert(MAKERS <= PATHS_MOST, "each path has a value in baton_path_t");

/* ---- the port's path: each call goes to the path of its rank ----------------------------------------------------- */

static const struct path *path_to(void *self, uint32_t peer)
{
    const struct paths *p = self;
    return &p->path[p->to[peer]];
}

static int route_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->read(to->self, peer, offset, bytes, tag);
}

static int route_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->board(to->self, peer, offset, tag);
}

static int64_t route_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    const struct paths *p = self;
    const struct path *to = &p->path[(leg->write ? p->to_out : p->to)[leg->peer]];
    return to->move != NULL ? to->move(to->self, leg, budget) : runs_move(p->net, leg, budget);
}

static int route_settle(void *self, uint32_t peer, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->settle(to->self, peer, tag);
}

static bool route_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    const struct path *to = path_to(self, peer);
    return to->answer != NULL && to->answer(to->self, peer, tag, event);
}

static enum path_park route_park(void *self, uint32_t peer, uint64_t tag)
{
    const struct path *to = path_to(self, peer);
    return to->park(to->self, peer, tag);
}

static bool route_ended(void *self, uint32_t peer)
{
    const struct path *to = path_to(self, peer);
    return to->ended(to->self, peer);
}

/* Staging stands on the other paths: it takes what is its own of events [n, end), and goes on after that. */
static int without_notes(const struct paths *p, struct port_event *events, int n, int end)
{
    for (int k = n; k < end; k++)
        if (!staged_takes(p->staged, &events[k]))
            events[n++] = events[k];
    return n;
}

/* Whether that path may have something to hand out, in whichever turn. */
static bool is_used(const struct paths *p, unsigned i)
{
    return (i != PATH_NET || !p->needs_no_net) && (i != PATH_STAGED || p->peers[BATON_PATH_STAGED] > 0);
}

/* Each path leaves room to those behind it: none can fill the room of every call. */
static int all_progress(void *self, struct port_event *events, int max)
{
    const struct paths *p = self;
    int n = without_notes(p, events, 0, lanes_take(p->lanes, events, max));
    for (unsigned i = 0; i < PATH_STAGED; i++) {
        const int kept = (int)EVENTS_OF_PATH * ((i < PATH_NET && is_used(p, PATH_NET)) + is_used(p, PATH_STAGED));
        const int room = n + kept < max ? max - n - kept : 0;
        if (is_used(p, i))
            n = without_notes(p, events, n, n + p->path[i].progress(p->path[i].self, events + n, room));
    }
    const struct path *staged = &p->path[PATH_STAGED];
    if (beside_is_lent(p->beside))
        return n; /* what it has to do keeps the port busy, which wakes the reactor */
    return n + staged->progress(staged->self, events + n, max - n);
}

static void all_look(void *self)
{
    const struct paths *p = self;
    lanes_look(p->lanes);
    for (unsigned i = 0; i < p->num_paths; i++)
        if (is_used(p, i) && p->path[i].look != NULL)
            p->path[i].look(p->path[i].self);
}

static bool all_have_looked(const void *self)
{
    const struct paths *p = self;
    bool have = lanes_have_looked(p->lanes);
    for (unsigned i = 0; i < p->num_paths && have; i++)
        have = !is_used(p, i) || p->path[i].has_looked == NULL || p->path[i].has_looked(p->path[i].self);
    return have;
}

static bool any_busy(const void *self)
{
    const struct paths *p = self;
    bool is_busy = lanes_are_cut(p->lanes);
    for (unsigned i = 0; i < p->num_paths && !is_busy; i++)
        is_busy = p->path[i].busy(p->path[i].self);
    return is_busy;
}

/* ---- the rest of the port ---------------------------------------------------------------------------------------- */

/*
 * No consumer waits for these: DONE and RELEASE let go of the producer's blocks, as a word does that gives a lease
 * back, and ENDED is the answer.
 */
static enum rings_when when_heard(const void *message, uint32_t bytes)
{
    const enum wire_type type = wire_type_of(message, bytes);
    return type == WIRE_DONE || type == WIRE_RELEASE || type == WIRE_ENDED ? RINGS_LATER : RINGS_NOW;
}

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    return send_message(self, peer, message, bytes, when_heard(message, bytes));
}

static void port_raise(void *self, uint32_t slot, uint64_t generation, bool far)
{
    struct paths *p = self;
    atomic_store_explicit(&p->board[slot], generation, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* before an event that frees the blocks, for readers of this node */
    beside_store(p->beside, far && !p->needs_no_net);
}

static enum port_alive port_alive(void *self, uint32_t peer)
{
    struct paths *p = self;
    return shm_alive(p->shm, peer);
}

static int port_sum(void *self, const struct plan_transfer *transfer, bool source, uint32_t first, uint32_t count,
                    uint64_t *out, uint64_t tag)
{
    struct paths *p = self;
    if (!beside_see(p->beside)) /* the queue of workers hands on what this thread sees */
        return BATON_EAGAIN;
    return is_device(p->wish.cache) ? staged_sum(p->staged, transfer, source, first, count, out, tag)
                                    : shm_sum(p->shm, transfer, source, first, count, out, tag);
}

static int port_zero(void *self, const struct plan_transfer *transfer, uint64_t tag)
{
    struct paths *p = self;
    return is_device(p->wish.cache) ? staged_zero(p->staged, transfer, tag) : shm_zero(p->shm, transfer, tag);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void port_fill(struct paths *p)
{
    p->port = (struct port){.path = {.self = p,
                                     .read = route_read,
                                     .board = route_board,
                                     .move = route_move,
                                     .settle = route_settle,
                                     .answer = route_answer,
                                     .park = route_park,
                                     .ended = route_ended,
                                     .progress = all_progress,
                                     .look = all_look,
                                     .has_looked = all_have_looked,
                                     .busy = any_busy},
                            .self = p,
                            .send = port_send,
                            .raise = port_raise,
                            .alive = port_alive,
                            .sum = port_sum,
                            .zero = port_zero,
                            .handoff = handoffs_port(areas_handoffs(p->areas))};
}

/* Which path leads to each rank. */
static void choose(struct paths *p)
{
    bool lanes_lead_everywhere = true;
    for (uint32_t i = 0; i < p->ground->num_peers; i++) {
        p->to[i] = (uint8_t)ways_to(p->ways, i, false);
        p->to_out[i] = (uint8_t)ways_to(p->ways, i, true);
        p->kinds[i] = ways_kind(p->ways, i, false);
        p->kinds_out[i] = ways_kind(p->ways, i, true);
        p->peers[p->kinds[i]]++;
        lanes_lead_everywhere &= lanes_lead_to(p->lanes, i);
    }
    p->needs_no_net = lanes_lead_everywhere && p->peers[BATON_PATH_RMA] == 0;
}

int paths_create(const struct paths_wish *wish, struct paths **out)
{
    uint32_t size = wish->ground->num_peers;
    struct paths *p = calloc(1, sizeof *p);
    if (p == NULL)
        return error_set(BATON_ENOMEM, "no memory for the paths");
    p->wish = *wish;
    p->ground = wish->ground;
    p->board = (void *)(p->ground->segment + wish->board_offset);
    p->to = calloc(size, sizeof *p->to);
    p->to_out = calloc(size, sizeof *p->to_out);
    p->kinds = calloc(size, sizeof *p->kinds);
    p->kinds_out = calloc(size, sizeof *p->kinds_out);
    const struct areas_mine mine = {.offset = wish->area_offset,
                                    .board_offset = wish->board_offset,
                                    .slots = (uint32_t)wish->settings->leases,
                                    .has_lanes = wish->has_lanes};
    int rc = neighbours_init(&p->near, p->ground);
    if (rc == 0)
        rc = areas_create(p->ground, p->near.vicinity, wish->directory, &mine, wish->log, &p->areas);
    p->beside = beside_create(wish->net, size, wish->log);
    if (rc != 0 || p->beside == NULL || p->to == NULL || p->to_out == NULL || p->kinds == NULL || p->kinds_out == NULL)
        rc = error_set(BATON_ENOMEM, "no memory for %u ranks", size);
    for (; rc == 0 && p->num_paths < MAKERS; p->num_paths += rc == 0)
        rc = makers[p->num_paths](p, &p->path[p->num_paths]);
    if (rc != 0) {
        paths_destroy(p);
        return rc;
    }
    p->lanes = areas_lanes(p->areas);
    *out = p;
    return 0;
}

void paths_open(struct paths *p)
{
    areas_open(p->areas);
}

void paths_meet(struct paths *p)
{
    areas_meet(p->areas);
    choose(p);
    port_fill(p);
}

int paths_destroy(struct paths *p)
{
    int rc = 0;
    if (p == NULL)
        return 0;
    for (unsigned i = p->num_paths; i > 0; i--) /* staging first, which stands on the others */
        if (p->path[i - 1].close != NULL && p->path[i - 1].close(p->path[i - 1].self) != 0)
            rc = BATON_EPEER;
    ways_destroy(p->ways);
    areas_destroy(p->areas);
    neighbours_fini(&p->near);
    beside_destroy(p->beside);
    free(p->to);
    free(p->to_out);
    free(p->kinds);
    free(p->kinds_out);
    free(p);
    return rc;
}

struct rings *paths_rings(struct paths *p)
{
    return areas_rings(p->areas);
}

bool paths_can_lend(const struct paths *p)
{
    return p->peers[BATON_PATH_STAGED] == 0 &&
           (p->needs_no_net || p->peers[BATON_PATH_SHM] + p->peers[BATON_PATH_CMA] > 1); /* one is this rank */
}

bool paths_may_take_long(const struct paths *p)
{
    return !p->needs_no_net || p->peers[BATON_PATH_STAGED] > 0;
}

void paths_lend(struct paths *p, bool is_lent)
{
    beside_lend(p->beside, is_lent);
}

bool paths_hold_events(const struct paths *p)
{
    return beside_owes(p->beside);
}

bool paths_has_driver(const struct paths *p)
{
    return is_device(p->wish.cache);
}

uint64_t paths_messages_bad(const struct paths *p)
{
    return lanes_bad(p->lanes);
}

const struct port *paths_port(const struct paths *p)
{
    return &p->port;
}

const baton_path_t *paths_table(const struct paths *p)
{
    return p->kinds;
}

const baton_path_t *paths_table_out(const struct paths *p)
{
    return p->kinds_out;
}

const uint32_t *paths_peers(const struct paths *p)
{
    return p->peers;
}

void paths_wake(struct paths *p)
{
    shm_wake(p->shm);
}

bool paths_ask(const struct paths *p)
{
    return shm_ask(p->shm);
}

bool paths_help(const struct paths *p)
{
    return shm_help(p->shm);
}

void paths_worker_cpus(const struct paths *p, char *list, size_t size)
{
    shm_worker_cpus(p->shm, list, size);
}

static bool is_alike(const struct paths *p, uint32_t a, uint32_t b)
{
    return p->to[a] == p->to[b] &&
           strcmp(neighbours_memory(&p->near, a)->why, neighbours_memory(&p->near, b)->why) == 0;
}

/* Ranks of this node whose memory is not mapped here, and why: a line for all that are alike. */
static void describe_reasons(const struct paths *p, struct textbuf *out)
{
    const uint32_t size = p->ground->num_peers, features = cache_features(p->wish.cache);
    if ((features & WIRE_ROW_DEVICE) != 0 && (features & WIRE_ROW_MIXED) == 0) { /* whatever theirs is */
        textbuf_print(out, "by %s: all ranks: the cache of this one is a device's memory\n", p->path[PATH_STAGED].name);
        return;
    }
    for (uint32_t i = 0; i < size; i++) {
        uint32_t first = 0, alike = 0;
        if (neighbours_memory(&p->near, i)->why[0] == '\0' || p->to[i] == PATH_WAYS)
            continue;
        while (!is_alike(p, first, i))
            first++;
        if (first < i)
            continue; /* told already */
        for (uint32_t k = i; k < size; k++)
            alike += is_alike(p, k, i);
        textbuf_print(out, "by %s: %u rank%s of this node, rank %u first: %s\n", p->path[p->to[i]].name, alike,
                      alike == 1 ? "" : "s", i, neighbours_memory(&p->near, i)->why);
    }
}

void paths_describe(const struct paths *p, struct textbuf *out)
{
    for (unsigned i = 0; i < p->num_paths; i++) {
        uint32_t ranks = 0;
        for (uint32_t peer = 0; peer < p->ground->num_peers; peer++)
            ranks += p->to[peer] == i;
        if (i < PATH_WAYS || ranks > 0)
            textbuf_print(out, "%s%u%s by %s", i > 0 ? ", " : "paths: ", ranks, i == 0 ? " ranks" : "",
                          p->path[i].name);
    }
    if (p->near.unseen > 0)
        textbuf_print(out, "; of %u the system does not say whether they live", p->near.unseen);
    textbuf_print(out, "%s%s\n", p->port.handoff != NULL ? "; offers of the node by words" : "",
                  lanes_lead_to(p->lanes, p->ground->self) ? "; messages of the node by lanes" : "");
    describe_reasons(p, out);
    ways_describe(p->ways, p->to, out);
}
