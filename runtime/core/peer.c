/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: who is there. While there is business with a rank it is asked for a beat whenever it has said nothing for
 * BATON_BEAT_MS; any message of it is one. On this node the operating system knows whether its process is gone, and a
 * late beat means slow; elsewhere, silence for BATON_PEER_MS means lost. The transfers of a lost peer end as EPEER and it
 * gets no new ones, until a message shows that it is back, or another BATON_PEER_MS has passed and one may try again.
 */
#include "core/state.h"

#include <stdlib.h>

static struct peer *peer_of(struct core *core, uint32_t rank)
{
    if (core->peers[rank] == NULL) {
        core->peers[rank] = calloc(1, sizeof *core->peers[rank]);
        if (core->peers[rank] != NULL)
            core->peers[rank]->rank = rank;
    }
    return core->peers[rank];
}

static void beat(struct core *core, uint32_t rank, bool ask)
{
    struct wire_message m = {.type = WIRE_BEAT, .ask = ask};
    if (core->unsent_to[rank] == 0) /* what waits to be sent says as much */
        core_send(core, rank, &m);
}

static void lose(struct core *core, struct peer *p, bool dead)
{
    bool was = p->lost;
    p->lost = true;
    p->dead = dead;
    p->lost_ns = core->now;
    if (!was) {
        core->num_lost++;
        core->stats.peers_lost++;
        log_line(core->c.log, LOG_WARN, dead ? "rank %u is gone" : "rank %u is lost: it has said nothing for %llu ms",
                 p->rank, (unsigned long long)((core->now - p->heard_ns) / NS_PER_MS));
    }
    wants_lose(core, p->rank);
    offers_lose(core, p->rank);
    verdicts_lose(core, p->rank);
}

static void on_beat(struct core *core, struct timer *t)
{
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, beat));
    uint64_t silent = core->now - p->heard_ns;
    if (p->business == 0 || p->dead)
        return;
    enum port_alive alive = core->c.port->alive(core->c.port->self, p->rank);
    if (alive == PORT_DEAD)
        lose(core, p, true);
    else if (alive == PORT_UNKNOWN && !p->lost && silent >= core->c.settings->peer_ms * NS_PER_MS)
        lose(core, p, false);
    if (p->business == 0 || p->dead)
        return;
    if (silent >= core->c.settings->beat_ms * NS_PER_MS)
        beat(core, p->rank, true);
    timer_arm(&core->timers, t, core->now + core->c.settings->beat_ms * NS_PER_MS, on_beat);
}

int peer_begin(struct core *core, uint32_t rank)
{
    struct peer *p = peer_of(core, rank);
    if (p == NULL)
        return BATON_ENOMEM;
    if (p->dead || (p->lost && core->now - p->lost_ns < core->c.settings->peer_ms * NS_PER_MS))
        return BATON_EPEER;
    if (p->business++ == 0 || p->lost) {
        p->heard_ns = core->now;
        timer_arm(&core->timers, &p->beat, core->now + core->c.settings->beat_ms * NS_PER_MS, on_beat);
    }
    core->num_lost -= p->lost;
    p->lost = false;
    return 0;
}

int peer_know(struct core *core, uint32_t rank)
{
    return peer_of(core, rank) != NULL ? 0 : BATON_ENOMEM;
}

void peer_hold(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers[rank];
    if (p->business++ > 0 || p->dead)
        return;
    p->heard_ns = core->now;
    timer_arm(&core->timers, &p->beat, core->now + core->c.settings->beat_ms * NS_PER_MS, on_beat);
}

void peer_end(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers[rank];
    if (--p->business == 0)
        timer_stop(&core->timers, &p->beat);
}

void peer_heard(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers[rank];
    if (p == NULL || p->dead)
        return;
    p->heard_ns = core->now;
    if (p->lost) {
        p->lost = false;
        core->num_lost--;
        core->stats.peers_returned++;
        log_line(core->c.log, LOG_WARN, "rank %u is back", rank);
    }
}

void peer_on_beat(struct core *core, uint32_t rank, const struct wire_message *m)
{
    if (m->ask)
        beat(core, rank, false);
}

bool peer_is_lost(const struct core *core, uint32_t rank)
{
    return core->peers[rank] != NULL && core->peers[rank]->lost;
}

bool peer_is_dead(const struct core *core, uint32_t rank)
{
    return core->peers[rank] != NULL && core->peers[rank]->dead;
}

void peers_destroy(struct core *core)
{
    for (uint32_t i = 0; core->peers != NULL && i < core->c.directory->num_ranks; i++) {
        if (core->peers[i] != NULL)
            timer_stop(&core->timers, &core->peers[i]->beat);
        free(core->peers[i]);
    }
    free(core->peers);
}
