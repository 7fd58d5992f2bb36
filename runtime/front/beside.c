/* SPDX-License-Identifier: BSD-3-Clause */
/* beside: see beside.h. */
#include "front/beside.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "observe/log.h"

/* A message that a lent turn has left. */
struct letter {
    struct letter *prev, *next;
    uint32_t peer, bytes;
    uint8_t data[];
};

struct addressee {
    uint32_t letters;    /* to it */
    uint32_t refused_at; /* the delivery in which the net last had no room for one */
};

struct beside {
    const struct net *under;
    struct net net;
    struct logger *log;
    struct letter *letters; /* in the order in which they were left */
    struct addressee *to;   /* by peer */
    uint32_t deliveries;
    bool is_lent;
    bool has_left;   /* a lent turn has left something since the last turn that was none */
    bool owes;       /* a sync */
    bool stored;     /* since the last sync, for peers of the net */
    bool came;       /* likewise, from them */
    bool is_unheard; /* since the last look the net was not asked what has come */
};

/* ---- what lent turns leave --------------------------------------------------------------------------------------- */

/* The turn is lent: it leaves this to one that is not. */
static bool leaves(struct beside *b)
{
    b->has_left |= b->is_lent;
    return b->is_lent;
}

static void sync_now(struct beside *b)
{
    b->under->sync(b->under->self);
    b->owes = b->stored = b->came = false;
}

static int keep(struct beside *b, uint32_t peer, const void *message, uint32_t bytes)
{
    struct letter *l = b->to[peer].letters < BESIDE_LETTERS ? malloc(sizeof *l + bytes) : NULL;
    if (l == NULL)
        return BATON_EAGAIN;
    l->peer = peer;
    l->bytes = bytes;
    memcpy(l->data, message, bytes);
    DL_APPEND(b->letters, l);
    b->to[peer].letters++;
    return 0;
}

/* Peers read only what is visible to them by then. */
static int send_now(struct beside *b, uint32_t peer, const void *message, uint32_t bytes)
{
    if (b->stored)
        sync_now(b);
    return b->under->send(b->under->self, peer, message, bytes);
}

/* Sends what was left, as far as the net takes it: a peer that has no room keeps nobody else waiting. */
static void deliver(struct beside *b)
{
    struct letter *l, *next;
    b->deliveries++;
    DL_FOREACH_SAFE(b->letters, l, next)
    {
        struct addressee *to = &b->to[l->peer];
        if (to->refused_at == b->deliveries)
            continue;
        const int rc = send_now(b, l->peer, l->data, l->bytes);
        if (rc == BATON_EAGAIN) {
            to->refused_at = b->deliveries;
            continue;
        }
        if (rc != 0)
            log_line(b->log, LOG_WARN, "a message of a lent turn to rank %u: %s", l->peer, baton_strerror(rc));
        to->letters--;
        DL_DELETE(b->letters, l);
        free(l);
    }
}

/* ---- the net ----------------------------------------------------------------------------------------------------- */

static int net_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct beside *b = self;
    if (leaves(b))
        return keep(b, peer, message, bytes);
    deliver(b);
    return b->to[peer].letters > 0 ? BATON_EAGAIN : send_now(b, peer, message, bytes);
}

static int net_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct beside *b = self;
    const struct path *under = &b->under->path;
    return leaves(b) ? BATON_EAGAIN : under->read(under->self, peer, offset, bytes, tag);
}

static int net_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct beside *b = self;
    const struct path *under = &b->under->path;
    return leaves(b) ? BATON_EAGAIN : under->board(under->self, peer, offset, tag);
}

static int net_settle(void *self, uint32_t peer, uint64_t tag)
{
    struct beside *b = self;
    const struct path *under = &b->under->path;
    return leaves(b) ? BATON_EAGAIN : under->settle(under->self, peer, tag);
}

static int net_room(void *self, uint32_t peer)
{
    struct beside *b = self;
    return leaves(b) ? BATON_EAGAIN : b->under->room(b->under->self, peer);
}

static int64_t net_move(void *self, const struct net_move *move)
{
    struct beside *b = self;
    return leaves(b) ? BATON_EAGAIN : b->under->move(b->under->self, move);
}

static enum path_park net_park(void *self, uint32_t peer, uint64_t tag)
{
    const struct beside *b = self;
    return b->under->path.park(b->under->path.self, peer, tag);
}

/* It may send a probe. Whoever asks asks again. */
static bool net_ended(void *self, uint32_t peer)
{
    const struct beside *b = self;
    return !b->is_lent && b->under->path.ended(b->under->path.self, peer);
}

static int net_progress(void *self, struct port_event *events, int max)
{
    struct beside *b = self;
    if (b->is_lent)
        return 0;
    b->has_left = false;
    if (b->owes)
        sync_now(b);
    deliver(b);
    const int n = b->under->path.progress(b->under->path.self, events, max);
    b->came |= n > 0;
    b->is_unheard = false;
    return n;
}

static void net_look(void *self)
{
    struct beside *b = self;
    b->is_unheard = true;
    if (b->under->path.look != NULL)
        b->under->path.look(b->under->path.self);
}

static bool net_has_looked(const void *self)
{
    const struct beside *b = self;
    const struct path *under = &b->under->path;
    return !b->is_unheard && (under->has_looked == NULL || under->has_looked(under->self));
}

/* Letters that the net has no room for are like messages that wait for credits: what makes room is heard of. */
static bool net_busy(const void *self)
{
    const struct beside *b = self;
    return !b->is_lent && (b->has_left || b->under->path.busy(b->under->path.self));
}

static void net_sync(void *self)
{
    struct beside *b = self;
    if (leaves(b))
        b->owes = true;
    else
        sync_now(b);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void net_fill(struct beside *b)
{
    b->net = (struct net){.name = b->under->name,
                          .path = b->under->path,
                          .self = b,
                          .room = net_room,
                          .move = net_move,
                          .has_nodes = b->under->has_nodes,
                          .exposes = b->under->exposes,
                          .send = net_send,
                          .sync = net_sync};
    b->net.path.self = b;
    b->net.path.read = net_read;
    b->net.path.board = net_board;
    b->net.path.settle = net_settle;
    b->net.path.park = net_park;
    b->net.path.ended = net_ended;
    b->net.path.progress = net_progress;
    b->net.path.look = net_look;
    b->net.path.has_looked = net_has_looked;
    b->net.path.busy = net_busy;
}

struct beside *beside_create(const struct net *net, uint32_t num_peers, struct logger *log)
{
    struct beside *b = calloc(1, sizeof *b);
    if (b == NULL || (b->to = calloc(num_peers, sizeof *b->to)) == NULL) {
        free(b);
        return NULL;
    }
    b->under = net;
    b->log = log;
    net_fill(b);
    return b;
}

void beside_destroy(struct beside *b)
{
    struct letter *l, *next;
    if (b == NULL)
        return;
    DL_FOREACH_SAFE(b->letters, l, next)
    {
        free(l);
    }
    free(b->to);
    free(b);
}

void beside_forget(struct beside *b, uint32_t peer)
{
    struct letter *l, *next;
    DL_FOREACH_SAFE(b->letters, l, next)
    {
        if (l->peer != peer)
            continue;
        DL_DELETE(b->letters, l);
        free(l);
    }
    b->to[peer] = (struct addressee){0};
}

const struct net *beside_net(const struct beside *b)
{
    return &b->net;
}

/* ---- the turns' -------------------------------------------------------------------------------------------------- */

void beside_lend(struct beside *b, bool is_lent)
{
    b->is_lent = is_lent;
}

bool beside_is_lent(const struct beside *b)
{
    return b->is_lent;
}

void beside_store(struct beside *b, bool is_known)
{
    b->stored = true;
    if (is_known)
        net_sync(b);
}

bool beside_see(struct beside *b)
{
    if (!b->came)
        return true;
    if (leaves(b))
        return false;
    sync_now(b);
    return true;
}

bool beside_owes(const struct beside *b)
{
    return b->owes;
}
