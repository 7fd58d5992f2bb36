/* SPDX-License-Identifier: BSD-3-Clause */
/* closing: see closing.h. */
#include "front/context.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

#define LOSS_GRACE_MS 2000 /* see closing.h */

void closing_init(struct closing *c)
{
    *c = (struct closing){.loss = -1};
}

void closing_begin(struct baton *b, uint64_t now)
{
    core_shut(b->core, now);
    if (b->state == CONTEXT_STARTED)
        core_leave(b->core, now);
    b->closing.begun = true;
    b->closing.until_ns = b->closing.given_up_ns = now + b->settings.close_ms * CLOCK_NS_PER_MS;
}

static void wait_at_most(struct closing *c, uint64_t until_ns)
{
    if (until_ns < c->until_ns)
        c->until_ns = until_ns;
}

/* Transfers with a lost rank may never come to rest, and the others will do so soon. */
static void note_loss(struct baton *b, uint64_t now)
{
    struct closing *c = &b->closing;
    int64_t lost = core_loss(b->core);
    if (lost < 0 || lost == c->loss)
        return;
    if (c->loss < 0) {
        c->loss_ns = now;
        wait_at_most(c, now + LOSS_GRACE_MS * CLOCK_NS_PER_MS);
    }
    c->loss = lost;
    char name[CORE_NAME_MAX], why[SNAPSHOT_WHY];
    core_rank_name(b->core, (uint32_t)lost, name, sizeof name);
    snprintf(why, sizeof why, "%s is lost", name);
    snapshot_put_why(&b->snapshot, why);
    log_line(&b->log, LOG_WARN, "closing without the other ranks: %s", why);
}

/* Only calls that were given up are left. They may never become quiet. */
static void note_given_up(struct baton *b, uint64_t now)
{
    const uint64_t until_ns = now + LOSS_GRACE_MS * CLOCK_NS_PER_MS;
    if (!core_is_quiet(b->core) && core_is_given_up(b->core) && until_ns < b->closing.given_up_ns)
        b->closing.given_up_ns = until_ns;
}

/* This rank is quiet. It stays until every rank is, since they may need its answers. */
static int leave(struct baton *b, uint64_t now, bool late)
{
    struct closing *c = &b->closing;
    int rc = c->leave_failed ? BATON_EAGAIN : b->on.world->leave(b->on.world->self, late);
    if (rc == BATON_EAGAIN || rc == 0)
        return rc;
    snapshot_put_why(&b->snapshot, baton_errmsg());
    log_line(&b->log, LOG_ERROR, "%s", baton_errmsg());
    c->lost = late;
    if (late)
        return 0;
    c->leave_failed = true; /* rank 0 cannot be reached; whether it is lost will be known soon */
    wait_at_most(c, now + (b->settings.peer_ms + LOSS_GRACE_MS) * CLOCK_NS_PER_MS);
    return BATON_EAGAIN;
}

/*
 * After the loss of a rank, this one stays for another beat, so that the ranks can tell each other what they know of
 * it.
 */
int closing_step(struct baton *b, uint64_t now)
{
    struct closing *c = &b->closing;
    c->lost |= b->on.net->failed(b->on.net->self);
    if (b->state == CONTEXT_STARTED)
        note_loss(b, now);
    note_given_up(b, now);
    bool late = now > c->until_ns;
    if (!core_is_quiet(b->core) || b->on.net->path.busy(b->on.net->self))
        return late || (!core_is_quiet(b->core) && now > c->given_up_ns) ? BATON_EPEER : BATON_EAGAIN;
    if (b->state != CONTEXT_STARTED || c->lost)
        return 0; /* start failed on every rank: there is nobody to wait for */
    if (c->loss >= 0 && !late && now - c->loss_ns < b->settings.beat_ms * CLOCK_NS_PER_MS)
        return BATON_EAGAIN;
    c->lost = c->loss >= 0 || (c->leave_failed && late);
    return c->lost ? 0 : leave(b, now, late);
}

uint64_t closing_left_ms(const struct closing *c, uint64_t now)
{
    return c->until_ns > now ? (c->until_ns - now) / CLOCK_NS_PER_MS : 0;
}
