/* SPDX-License-Identifier: BSD-3-Clause */
/* post: see post.h. */
#include "core/post.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/post_inside.h"
#include "observe/timeline.h"

#define RESEND_MOST 16   /* times resend_ms */
#define NUMBERS_AHEAD 64 /* messages that may be missing before one: those that found no credit in time were dropped */

struct post *post_create(const struct core_config *config, struct counts *stats)
{
    struct post *p = calloc(1, sizeof *p + config->directory->most * sizeof p->of[0]);
    if (p == NULL)
        return NULL;
    p->c = config;
    p->stats = stats;
    return p;
}

void post_destroy(struct post *p)
{
    struct unsent *u, *next;
    if (p == NULL)
        return;
    DL_FOREACH_SAFE(p->unsent, u, next)
    {
        free(u);
    }
    free(p);
}

/* Words about wants alone: beats would fill a timeline. */
static void trace(const struct post *p, enum timeline_kind kind, uint32_t peer, const struct wire_message *m)
{
    if (p->c->log->timeline != NULL && m->want_id != 0)
        timeline_add_message(p->c->log->timeline, kind, peer, m->number, m->want_id, wire_type_name(m->type));
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

/* False: it is dropped. */
static bool keep(struct post *p, uint32_t peer, const uint8_t *data, uint32_t bytes)
{
    struct unsent *u = NULL;
    uint64_t most = 4 * p->c->settings->requests;
    if (p->of[peer].unsent == 0 || (p->num_unsent < most && p->of[peer].unsent < most / 2))
        u = malloc(sizeof *u + bytes);
    if (u == NULL) { /* wants are sent again by their timers, and offers expire: nothing hangs on one message */
        log_line(p->c->log, LOG_WARN, "a message to rank %u was dropped: %u wait for credits", peer, p->num_unsent);
        return false;
    }
    u->peer = peer;
    u->bytes = bytes;
    memcpy(u->data, data, bytes);
    DL_APPEND(p->unsent, u);
    p->num_unsent++;
    p->of[peer].unsent++;
    return true;
}

void post_send(struct post *p, uint32_t peer, struct wire_message *m)
{
    uint8_t data[WIRE_MESSAGE_MAX];
    const struct directory *d = p->c->directory;
    m->version = (uint8_t)directory_version(d, p->c->self, peer);
    if (p->of[peer].closed || wire_type_version(m->type) > m->version)
        return;
    m->from = d->rows[p->c->self].number;
    m->to = d->rows[peer].number;
    m->number = ++p->of[peer].sent;
    uint32_t bytes = wire_encode(m, data);
    int rc = BATON_EAGAIN;
    trace(p, TIMELINE_SENT, peer, m);
    if (p->of[peer].unsent == 0)
        rc = p->c->port->send(p->c->port->self, peer, data, bytes);
    count_add(&p->stats->messages_sent, 1);
    if (rc == BATON_EAGAIN && !keep(p, peer, data, bytes))
        p->of[peer].sent--; /* the next message has its number: none is missing at the peer */
    else if (rc != 0 && rc != BATON_EAGAIN)
        log_line(p->c->log, LOG_WARN, "%s to rank %u: %s", wire_type_name(m->type), peer, baton_strerror(rc));
}

void post_flush(struct post *p)
{
    struct unsent *u, *next;
    p->flushes++;
    DL_FOREACH_SAFE(p->unsent, u, next)
    {
        struct letters *to = &p->of[u->peer];
        if (to->blocked_at == p->flushes) /* its later messages must not overtake; other peers' go on */
            continue;
        int rc = to->closed ? 0 : p->c->port->send(p->c->port->self, u->peer, u->data, u->bytes);
        if (rc == BATON_EAGAIN) {
            to->blocked_at = p->flushes;
            continue;
        }
        if (rc != 0)
            log_line(p->c->log, LOG_WARN, "a kept message to rank %u: %s", u->peer, baton_strerror(rc));
        to->unsent--;
        p->num_unsent--;
        DL_DELETE(p->unsent, u);
        free(u);
    }
}

bool post_waits(const struct post *p, uint32_t peer)
{
    return p->of[peer].unsent > (uint32_t)post_is_speaking(p, peer);
}

bool post_is_speaking(const struct post *p, uint32_t peer)
{
    return p->of[peer].has_spoken && !post_has_left(p, peer, p->of[peer].spoken);
}

void post_spoken(struct post *p, uint32_t peer)
{
    p->of[peer].has_spoken = true;
    p->of[peer].spoken = p->of[peer].sent;
}

uint32_t post_last(const struct post *p, uint32_t peer)
{
    return p->of[peer].sent;
}

/* Those that wait are the last ones. */
bool post_has_left(const struct post *p, uint32_t peer, uint32_t number)
{
    return p->of[peer].sent - number >= p->of[peer].unsent;
}

uint32_t post_waiting(const struct post *p)
{
    return p->num_unsent;
}

void post_close(struct post *p, uint32_t peer)
{
    p->of[peer].closed = true;
}

void post_forget(struct post *p, uint32_t peer)
{
    struct unsent *u, *next;
    DL_FOREACH_SAFE(p->unsent, u, next)
    {
        if (u->peer != peer)
            continue;
        DL_DELETE(p->unsent, u);
        p->num_unsent--;
        free(u);
    }
    p->of[peer] = (struct letters){0};
}

uint64_t post_pause_ns(const struct post *p, uint64_t pause_ns)
{
    uint64_t first = p->c->settings->resend_ms * UINT64_C(1000000);
    if (pause_ns == 0)
        return first;
    return pause_ns < RESEND_MOST * first ? 2 * pause_ns : pause_ns;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

bool post_open(struct post *p, const struct port_event *e, struct wire_message *m)
{
    const struct directory *d = p->c->directory;
    count_add(&p->stats->messages_received, 1);
    int rc = wire_decode(e->data, e->bytes, m);
    if (rc == BATON_ENOSYS) { /* of a version that knows more than this one */
        count_add(&p->stats->messages_unknown, 1);
        return false;
    }
    if (rc != 0 || e->peer >= d->num_ranks || m->to != d->rows[p->c->self].number ||
        m->from != d->rows[e->peer].number) {
        count_add(&p->stats->messages_bad, 1);
        log_line(p->c->log, LOG_WARN, "a message of %u bytes from rank %u was refused: %s", e->bytes, e->peer,
                 rc != 0 ? "malformed" : "of another member");
        return false;
    }
    struct sequence *seen = &p->of[e->peer].seen;
    if (!sequence_accept(seen, m->number, NUMBERS_AHEAD)) { /* what matters is said again */
        bool came_before = seen->last - m->number < NUMBERS_AHEAD;
        count_add(&p->stats->messages_bad, !came_before);
        return false;
    }
    trace(p, TIMELINE_HEARD, e->peer, m);
    return true;
}

void post_refuse(struct post *p, uint32_t peer, const struct wire_message *m, const char *why)
{
    count_add(&p->stats->messages_bad, 1);
    log_line(p->c->log, LOG_WARN, "%s from rank %u was refused: %s", wire_type_name(m->type), peer, why);
}
