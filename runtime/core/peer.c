/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: see peer.h. While there is business with a rank, the rank is asked for a beat whenever it has said nothing for
 * beat_ms. Any message counts as a beat. On this node the operating system knows whether a process has ended, so
 * a late beat only means that the process is slow. On other nodes, silence for BATON_PEER_MS means that the rank is
 * lost. The transfers of a lost peer end with EPEER. It gets no new ones until a message shows that it is back, or
 * until another BATON_PEER_MS has passed: then a new transfer may try.
 *
 * OWN PAUSES. A rank that was late itself (stopped, held inside MPI, not called) knows nothing of the others. So
 * silence is counted in time in which this rank was awake and looked for messages, and a pause adds one beat at most,
 * however much came in it. A peer that is due to be judged just after a pause is asked once more, and judged at the
 * next beat.
 *
 * NEIGHBOURS. When a rank of another node is silent, its neighbours there are asked about it, because the operating
 * system of that node knows: one question a beat, to a different neighbour each time. An answer counts only if it comes
 * from a rank of that node, says that the process is dead, and names a member that this one knows. The answer
 * that the process lives changes nothing, because a stopped process lives too.
 */
#include "core/peer.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/peer_inside.h"
#include "core/post.h"
#include "core/state.h"

static struct peer *peer_of(struct core *core, uint32_t rank)
{
    if (core->peers->by_rank[rank] == NULL) {
        core->peers->by_rank[rank] = calloc(1, sizeof *core->peers->by_rank[rank]);
        if (core->peers->by_rank[rank] != NULL)
            core->peers->by_rank[rank]->rank = core->peers->by_rank[rank]->neighbour = rank;
    }
    return core->peers->by_rank[rank];
}

static uint64_t beat_ns(const struct core *core)
{
    return core->c.settings->beat_ms * NS_PER_MS;
}

static uint64_t silence_ns(const struct core *core, const struct peer *p)
{
    return core->peers->watched_ns - p->heard_ns;
}

void peers_watch(struct core *core, uint64_t heard_ns)
{
    struct peers *p = core->peers;
    const uint64_t slept = core->now - p->stepped_ns, most = beat_ns(core);
    p->awake_ns += slept < most ? slept : most;
    p->watched_ns += heard_ns - p->looked_ns;
    if (p->watched_ns > p->awake_ns) /* what came in a pause is read piece by piece */
        p->watched_ns = p->awake_ns;
    p->stepped_ns = core->now;
    p->looked_ns = heard_ns;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

void core_rank_name(const struct core *core, uint32_t rank, char *text, size_t size)
{
    const struct directory *d = core->c.directory;
    const struct directory_row *row = &d->rows[rank];
    const char *engine = d->engines[d->engine_of[rank]]->name;
    if (row->host[0] != '\0')
        snprintf(text, size, "rank %u (engine %s, host %s)", rank, engine, row->host);
    else
        snprintf(text, size, "rank %u (engine %s, node %u)", rank, engine, row->node);
}

/* ---- beats ------------------------------------------------------------------------------------------------------- */

void peer_beat(struct core *core, uint32_t rank, bool ask)
{
    struct wire_message m = {.type = WIRE_BEAT, .beat = {.ask = ask}};
    if (!post_waits(core->post, rank)) /* what waits to be sent says as much */
        post_send(core->post, rank, &m);
}

/* Notes a loss or a death. core_step hands it on. */
static void lose(struct core *core, struct peer *p, bool dead)
{
    bool was = p->lost, was_dead = p->dead;
    char name[CORE_NAME_MAX];
    p->lost = true;
    p->dead |= dead;
    if (dead)
        post_close(core->post, p->rank);
    p->ended |= dead && core->c.port->path.ended(core->c.port->path.self, p->rank);
    p->lost_ns = core->now;
    core_rank_name(core, p->rank, name, sizeof name);
    if (!was) {
        count_add(&core->stats.peers_lost, 1);
        if (p->left)
            log_line(core->c.log, LOG_INFO, "%s has left", name);
        else if (dead)
            log_each(core->c.log, LOG_WARN, "%s is dead", name);
        else
            log_each(core->c.log, LOG_WARN, "%s is lost: it has said nothing for %llu ms", name,
                     (unsigned long long)(silence_ns(core, p) / NS_PER_MS));
    } else if (dead && !was_dead) {
        log_line(core->c.log, LOG_INFO, "%s, which was lost, is dead", name);
    }
    queue_join(&core->peers->losses, &p->news);
}

bool peer_take_loss(struct core *core, uint32_t *rank)
{
    struct queued *news = queue_take(&core->peers->losses);
    if (news != NULL)
        *rank = ((struct peer *)((char *)news - offsetof(struct peer, news)))->rank;
    return news != NULL;
}

/* Asks again about a dead rank with open business: does the transport say by now that the connection has ended? */
static void on_dead(struct core *core, struct timer *t)
{
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, beat));
    if (core->c.port->path.ended(core->c.port->path.self, p->rank))
        lose(core, p, true);
    else
        timer_arm(&core->timers, t, core->now + beat_ns(core), on_dead);
}

/* Whether a neighbour is worth asking: as far as is known, it answers. */
static bool may_answer(const struct core *core, uint32_t rank)
{
    const struct peer *p = core->peers->by_rank[rank];
    return rank != core->c.self &&
           (p == NULL || (!p->lost && !p->left && (p->business == 0 || silence_ns(core, p) < 2 * beat_ns(core))));
}

static void inquire(struct core *core, struct peer *p)
{
    const struct directory *d = core->c.directory;
    struct wire_message m = {.type = WIRE_INQUIRY, .subject.member = d->rows[p->rank].number};
    uint32_t before = p->neighbour;
    do
        p->neighbour = d->next_on_node[p->neighbour];
    while (p->neighbour != before && (p->neighbour == p->rank || !may_answer(core, p->neighbour)));
    if (p->neighbour != p->rank && may_answer(core, p->neighbour) && !post_waits(core->post, p->neighbour))
        post_send(core->post, p->neighbour, &m);
}

static void on_beat(struct core *core, struct timer *t);

/* Asks a silent peer for a beat, and one of its neighbours about it. Looks again a beat later. */
static void ask_for_beat(struct core *core, struct peer *p, enum port_alive alive)
{
    if (silence_ns(core, p) >= beat_ns(core)) {
        peer_beat(core, p->rank, true);
        if (alive == PORT_UNKNOWN)
            inquire(core, p);
    }
    timer_arm(&core->timers, &p->beat, core->now + beat_ns(core), on_beat);
}

void peer_loss_handled(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers->by_rank[rank];
    if (p->business == 0)
        return;
    if (!p->dead)
        ask_for_beat(core, p, PORT_UNKNOWN); /* a rank that the system knows of is lost only by its death */
    else if (!p->ended)
        timer_arm(&core->timers, &p->beat, core->now + beat_ns(core), on_dead);
}

static void on_beat(struct core *core, struct timer *t)
{
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, beat));
    uint64_t silent = silence_ns(core, p);
    if (p->business == 0 || p->dead)
        return;
    enum port_alive alive = core->c.port->alive(core->c.port->self, p->rank);
    bool late = core->now - t->due_ns > beat_ns(core);
    p->excused = late && !p->excused;
    if (alive == PORT_DEAD)
        lose(core, p, true);
    else if (alive == PORT_UNKNOWN && !p->lost && !p->excused && silent >= core->c.settings->peer_ms * NS_PER_MS)
        lose(core, p, false);
    else
        ask_for_beat(core, p, alive);
}

static void listen(struct core *core, struct peer *p)
{
    p->heard_ns = core->peers->watched_ns;
    timer_arm(&core->timers, &p->beat, core->now + beat_ns(core), on_beat);
}

int peer_begin(struct core *core, uint32_t rank)
{
    struct peer *p = peer_of(core, rank);
    if (p == NULL)
        return BATON_ENOMEM;
    if (p->dead || (p->lost && core->now - p->lost_ns < core->c.settings->peer_ms * NS_PER_MS))
        return BATON_EPEER;
    if (p->business++ == 0 || p->lost)
        listen(core, p);
    p->lost = false;
    return 0;
}

int peer_know(struct core *core, uint32_t rank)
{
    return peer_of(core, rank) != NULL ? 0 : BATON_ENOMEM;
}

void peer_hold(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers->by_rank[rank];
    if (p->business++ == 0 && !p->dead)
        listen(core, p);
}

void peer_end(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers->by_rank[rank];
    if (--p->business == 0)
        timer_stop(&core->timers, &p->beat);
}

void peer_go(struct core *core, uint32_t rank, bool is_dead, bool is_quiet)
{
    struct peer *p = peer_of(core, rank);
    post_close(core->post, rank);
    if (p == NULL)
        return; /* there was no business with it, and none begins */
    p->left |= !is_dead;
    p->ended |= is_quiet;
    lose(core, p, true);
}

bool peer_is_over(const struct core *core, uint32_t rank)
{
    const struct peer *p = core->peers->by_rank[rank];
    return p == NULL || (p->business == 0 && p->news.in == NULL &&
                         (p->ended || core->c.port->path.ended(core->c.port->path.self, rank)));
}

void peer_forget(struct core *core, uint32_t rank)
{
    const struct directory *d = core->c.directory;
    struct peer *p = core->peers->by_rank[rank];
    for (uint32_t i = d->next_on_node[rank]; i != rank; i = d->next_on_node[i])
        if (core->peers->by_rank[i] != NULL && core->peers->by_rank[i]->neighbour == rank)
            core->peers->by_rank[i]->neighbour = i;
    if (p == NULL)
        return;
    timer_stop(&core->timers, &p->beat);
    free(p);
    core->peers->by_rank[rank] = NULL;
}

void peer_leave(struct core *core, uint32_t rank)
{
    struct peer *p = peer_of(core, rank);
    if (p != NULL)
        p->left = true;
}

void peer_heard(struct core *core, uint32_t rank)
{
    struct peer *p = core->peers->by_rank[rank];
    if (p == NULL || p->dead)
        return;
    p->heard_ns = core->peers->watched_ns;
    if (p->lost) {
        char name[CORE_NAME_MAX];
        p->lost = false;
        count_add(&core->stats.peers_returned, 1);
        core_rank_name(core, rank, name, sizeof name);
        log_each(core->c.log, LOG_WARN, "%s is back", name);
    }
}

void peer_on_beat(struct core *core, uint32_t rank, const struct wire_message *m)
{
    if (m->beat.ask)
        peer_beat(core, rank, false);
}

/* ---- neighbours -------------------------------------------------------------------------------------------------- */

/* The rank that the message is about. DIRECTORY_NONE: it is no neighbour of that one, or is this rank. */
static uint32_t subject_of(const struct core *core, const struct wire_message *m, uint32_t neighbour)
{
    const struct directory *d = core->c.directory;
    const uint32_t rank = directory_rank(d, m->subject.member);
    return rank != DIRECTORY_NONE && rank != core->c.self && rank != neighbour &&
                   d->rows[rank].node == d->rows[neighbour].node
               ? rank
               : DIRECTORY_NONE;
}

void peer_on_inquiry(struct core *core, uint32_t rank, const struct wire_message *m)
{
    struct wire_message answer = {.type = WIRE_WITNESS, .subject = {m->subject.member, WIRE_UNKNOWN}};
    const uint32_t subject = subject_of(core, m, core->c.self);
    if (subject == DIRECTORY_NONE) {
        post_refuse(core->post, rank, m, "its subject is no neighbour of this rank");
        return;
    }
    enum port_alive alive = core->c.port->alive(core->c.port->self, subject);
    if (alive != PORT_UNKNOWN)
        answer.subject.alive = alive == PORT_DEAD ? WIRE_DEAD : WIRE_ALIVE;
    post_send(core->post, rank, &answer);
}

void peer_on_witness(struct core *core, uint32_t rank, const struct wire_message *m)
{
    const uint32_t subject = subject_of(core, m, rank);
    if (subject == DIRECTORY_NONE) {
        post_refuse(core->post, rank, m, "it is no neighbour of its subject");
        return;
    }
    struct peer *p = core->peers->by_rank[subject];
    if (m->subject.alive != WIRE_DEAD || p == NULL || p->dead ||
        core->c.port->alive(core->c.port->self, subject) != PORT_UNKNOWN) /* what this rank sees itself counts more */
        return;
    lose(core, p, true);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

bool peer_is_known(const struct core *core, uint32_t rank)
{
    return core->peers->by_rank[rank] != NULL;
}

bool peer_is_lost(const struct core *core, uint32_t rank)
{
    return core->peers->by_rank[rank] != NULL && core->peers->by_rank[rank]->lost;
}

bool peer_is_dead(const struct core *core, uint32_t rank)
{
    return core->peers->by_rank[rank] != NULL && core->peers->by_rank[rank]->dead;
}

bool peer_is_ended(const struct core *core, uint32_t rank)
{
    return core->peers->by_rank[rank] != NULL && core->peers->by_rank[rank]->ended;
}

bool peer_has_left(const struct core *core, uint32_t rank)
{
    return core->peers->by_rank[rank] != NULL && core->peers->by_rank[rank]->left;
}

int peers_create(struct core *core)
{
    core->peers = calloc(1, sizeof *core->peers + core->c.directory->most * sizeof core->peers->by_rank[0]);
    return core->peers != NULL ? 0 : BATON_ENOMEM;
}

void peers_destroy(struct core *core)
{
    for (uint32_t i = 0; core->peers != NULL && i < core->c.directory->num_ranks; i++) {
        if (core->peers->by_rank[i] != NULL)
            timer_stop(&core->timers, &core->peers->by_rank[i]->beat);
        free(core->peers->by_rank[i]);
    }
    free(core->peers);
}
