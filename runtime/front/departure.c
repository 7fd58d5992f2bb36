/* SPDX-License-Identifier: BSD-3-Clause */
/* departure: see departure.h. */
#include "front/context.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

#define LOSS_GRACE_MS 2000 /* see departure.h */

void departure_prepare(struct baton *b)
{
    if (b->on.world->on_finalize(b->on.world->self, NULL, NULL) != 0)
        log_line(&b->log, LOG_WARN, "%s", baton_errmsg());
}

/* ---- while turns are made ---------------------------------------------------------------------------------------- */

void departure_begin(struct baton *b, uint64_t now)
{
    b->closing.departure = (struct departure){.until_ns = now + b->settings.close_ms * CLOCK_NS_PER_MS, .loss = -1};
    if (b->state == CONTEXT_STARTED)
        core_leave(b->core, now);
}

static void wait_at_most(struct departure *d, uint64_t until_ns)
{
    if (until_ns < d->until_ns)
        d->until_ns = until_ns;
}

/* Transfers with a lost rank may never come to rest, and the others will do so soon. */
static void note_loss(struct baton *b, uint64_t now)
{
    struct departure *d = &b->closing.departure;
    int64_t lost = core_loss(b->core);
    if (lost < 0 || lost == d->loss)
        return;
    if (d->loss < 0) {
        d->loss_ns = now;
        wait_at_most(d, now + LOSS_GRACE_MS * CLOCK_NS_PER_MS);
    }
    d->loss = lost;
    char name[CORE_NAME_MAX], why[SNAPSHOT_WHY];
    core_rank_name(b->core, (uint32_t)lost, name, sizeof name);
    snprintf(why, sizeof why, "%s is lost", name);
    snapshot_put_why(&b->snapshot, why);
    log_line(&b->log, LOG_WARN, "closing without the other ranks: %s", why);
}

uint64_t departure_look(struct baton *b, uint64_t now)
{
    struct departure *d = &b->closing.departure;
    d->is_lost |= b->on.net->failed(b->on.net->self);
    if (b->state == CONTEXT_STARTED)
        note_loss(b, now);
    return d->until_ns;
}

/* This rank is at rest. It stays until every rank is, since they may need its answers. */
static int leave(struct baton *b, uint64_t now, bool late)
{
    struct departure *d = &b->closing.departure;
    int rc = d->leave_failed ? BATON_EAGAIN : b->on.world->leave(b->on.world->self, late);
    if (rc == BATON_EAGAIN || rc == 0)
        return rc;
    snapshot_put_why(&b->snapshot, baton_errmsg());
    log_line(&b->log, LOG_ERROR, "%s", baton_errmsg());
    d->is_lost = late;
    if (late)
        return 0;
    d->leave_failed = true; /* rank 0 cannot be reached; whether it is lost will be known soon */
    wait_at_most(d, now + (b->settings.peer_ms + LOSS_GRACE_MS) * CLOCK_NS_PER_MS);
    return BATON_EAGAIN;
}

/*
 * After the loss of a rank, this one stays for another beat, so that the ranks can tell each other what they know of
 * it.
 */
int departure_step(struct baton *b, uint64_t now)
{
    struct departure *d = &b->closing.departure;
    const bool late = now > d->until_ns;
    if (b->state != CONTEXT_STARTED || d->is_lost)
        return 0; /* start failed on every rank: there is nobody to wait for */
    if (d->loss >= 0 && !late && now - d->loss_ns < b->settings.beat_ms * CLOCK_NS_PER_MS)
        return BATON_EAGAIN;
    d->is_lost = d->loss >= 0 || (d->leave_failed && late);
    return d->is_lost ? 0 : leave(b, now, late);
}

/* ---- after the last turn ----------------------------------------------------------------------------------------- */

/* How long the steps may take that are left. */
static void hurry(const struct baton *b)
{
    const uint64_t now = clock_now_ns(), until = b->closing.departure.until_ns;
    b->on.world->hurry(b->on.world->self, until > now ? (until - now) / CLOCK_NS_PER_MS : 0);
}

int departure_check(struct baton *b, int rest)
{
    const struct world_calls *w = b->on.world;
    struct departure *d = &b->closing.departure;
    snapshot_why(&b->snapshot, d->why);
    if (!w->silence(w->self) && rest == 0) {
        rest = BATON_EPEER;
        snprintf(d->why, sizeof d->why, "the doorbell's thread does not end");
    }
    if (rest != 0) /* a thread is inside MPI and still uses all of this: the process is about to end */
        return w->leave_open(w->self, d->why[0] != '\0' ? d->why : "transfers did not come to rest");
    if (start_forgo(b) != 0 || late_close(b) != 0) {
        d->is_lost = true;
        snprintf(d->why, sizeof d->why, "%s", baton_errmsg());
    }
    if (closing_has_begun(&b->closing))
        hurry(b);
    return 0;
}

/* All ranks agree on whether they are lost, so that no rank waits for the others in vain. */
int departure_end(struct baton *b, int local)
{
    const struct world_calls *w = b->on.world;
    const struct departure *d = &b->closing.departure;
    if (d->is_lost)
        return w->leave_open(w->self, d->why[0] != '\0' ? d->why : "the control channel failed");
    return w->close(w->self, local); /* all ranks agree first: none frees what another may still read */
}
