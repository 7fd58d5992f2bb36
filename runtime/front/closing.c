/* SPDX-License-Identifier: BSD-3-Clause */
/* closing: see closing.h. */
#include "front/context.h"

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"

#define GIVEN_UP_MS 2000 /* see closing.h */

static bool is_alone(const struct baton *b)
{
    return b->on.world == NULL;
}

void closing_prepare(struct baton *b)
{
    if (!is_alone(b))
        departure_prepare(b);
}

void closing_begin(struct baton *b, uint64_t now)
{
    core_shut(b->core, now);
    b->closing = (struct closing){.begun = true,
                                  .until_ns = now + b->settings.quiet_ms * CLOCK_NS_PER_MS,
                                  .given_up_ns = UINT64_MAX,
                                  .looked_ns = now};
    if (!is_alone(b))
        departure_begin(b, now);
}

/* Only calls that were given up are left. They may never become quiet. */
static void note_given_up(struct baton *b, uint64_t now)
{
    const uint64_t until_ns = now + GIVEN_UP_MS * CLOCK_NS_PER_MS;
    if (!core_is_quiet(b->core) && core_is_given_up(b->core) && until_ns < b->closing.given_up_ns)
        b->closing.given_up_ns = until_ns;
}

static void tell(struct baton *b, uint64_t now)
{
    core_tell_left(b->core, now);
    b->closing.has_told = true;
}

/* It is at rest. What it tells its peers still has to go out. */
static int leave_alone(struct baton *b, uint64_t now)
{
    if (!b->closing.has_told) {
        tell(b, now);
        return BATON_EAGAIN;
    }
    return b->on.net->path.busy(b->on.net->self) && now <= b->closing.until_ns ? BATON_EAGAIN : 0;
}

/* The process was paused: that time does not count. */
static void excuse_pause(struct closing *c, uint64_t now)
{
    const uint64_t paused = deadline_pause_ns(&c->looked_ns, now);
    c->until_ns += paused;
    c->departure.until_ns += paused;
    if (c->given_up_ns != UINT64_MAX)
        c->given_up_ns += paused;
}

int closing_step(struct baton *b, uint64_t now)
{
    struct closing *c = &b->closing;
    excuse_pause(c, now);
    const uint64_t until_ns = is_alone(b) ? c->until_ns : departure_look(b, now);
    note_given_up(b, now);
    const bool is_quiet = core_is_quiet(b->core);
    if (!is_quiet || (b->on.net->path.busy(b->on.net->self) && !c->has_told)) {
        if (now <= until_ns && (is_quiet || now <= c->given_up_ns))
            return BATON_EAGAIN;
        if (is_alone(b))
            tell(b, now);
        return BATON_EPEER;
    }
    return is_alone(b) ? leave_alone(b, now) : departure_step(b, now);
}

int closing_check(struct baton *b, int rest)
{
    if (!is_alone(b))
        return departure_check(b, rest);
    if (rest == 0)
        return 0;
    error_set(BATON_EPEER, "transfers did not come to rest: nothing was freed, and the blocks of calls that have no "
                           "answer may still be used");
    log_line(&b->log, LOG_INFO, "%s", baton_errmsg());
    return BATON_EPEER;
}

int closing_end(struct baton *b, int local)
{
    if (!is_alone(b))
        return departure_end(b, local);
    if (local == 0)
        b->on.net->close(b->on.net->self);
    return local;
}
