/* SPDX-License-Identifier: BSD-3-Clause */
/* budget: see budget.h. Pure. */
#include "core/budget.h"

#include <stddef.h>
#include <utlist.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The bytes of the limit that nobody holds. */
static uint64_t left_free(const struct budget *b, uint64_t limit)
{
    uint64_t apart = limit / 4;
    return less(limit, b->held + less(b->silent, apart));
}

uint64_t budget_left(const struct budget *b, uint64_t limit, const struct share *share)
{
    if (share->silent) /* nothing more */
        return 0;
    uint64_t half = (less(left_free(b, limit), share->held) + 1) / 2; /* it holds no more than it leaves */
    return share->held > 0 && half < limit / 32 ? 0 : half;
}

static void talks(struct budget *b, struct share *share, uint64_t now)
{
    if (share->silent)
        b->silent -= share->held;
    else if (share->held > 0)
        b->held -= share->held;
    if (!share->silent && share->held > 0)
        DL_DELETE(b->talking, share);
    share->silent = false;
    share->sign_ns = now;
}

static void hold(struct budget *b, struct share *share, uint64_t bytes)
{
    share->held = bytes;
    b->held += bytes;
    if (bytes > 0)
        DL_APPEND(b->talking, share);
}

static void begin_sample(struct share *share, uint64_t now)
{
    if (share->sample > 0)
        return;
    share->sample = share->held;
    share->sample_ns = now;
}

static void count_sample(struct share *share, uint64_t bytes, uint64_t now)
{
    if (share->sample > 0 && share->sample <= bytes)
        patience_learn(&share->patience, now - share->sample_ns);
    share->sample = less(share->sample, bytes);
}

void budget_take(struct budget *b, struct share *share, uint64_t bytes, uint64_t now)
{
    if (share->held == 0) {
        talks(b, share, now);
        hold(b, share, bytes);
    } else {
        share->held += bytes;
        *(share->silent ? &b->silent : &b->held) += bytes;
    }
    begin_sample(share, now);
}

void budget_land(struct budget *b, struct share *share, uint64_t bytes, uint64_t now)
{
    uint64_t rest = share->held - bytes;
    talks(b, share, now);
    hold(b, share, rest);
    count_sample(share, bytes, now);
}

void budget_drop(struct budget *b, struct share *share, uint64_t bytes)
{
    if (bytes > 0)
        share->sample = 0;
    if (bytes == share->held) {
        talks(b, share, share->sign_ns);
        share->held = 0;
        return;
    }
    share->held -= bytes;
    *(share->silent ? &b->silent : &b->held) -= bytes;
}

uint64_t budget_look(struct budget *b, const struct settings *set, uint64_t now)
{
    uint64_t next = now + set->park_ms * CLOCK_NS_PER_MS; /* who takes bytes meanwhile is not silent before */
    struct share *share, *after;
    DL_FOREACH_SAFE(b->talking, share, after)
    {
        uint64_t until = share->sign_ns + patience_ns(&share->patience, set);
        if (until > now) {
            next = least(next, until);
            continue;
        }
        DL_DELETE(b->talking, share);
        share->silent = true;
        b->held -= share->held;
        b->silent += share->held;
    }
    return b->talking != NULL ? next : UINT64_MAX;
}
