/* SPDX-License-Identifier: BSD-3-Clause */
/* admission: see admission.h. */
#include "front/admission.h"

#include "base/error.h"

static bool take(_Atomic uint32_t *count, uint32_t n, uint32_t most)
{
    if ((uint64_t)atomic_fetch_add_explicit(count, n, memory_order_relaxed) + n <= most)
        return true;
    atomic_fetch_sub_explicit(count, n, memory_order_relaxed);
    return false;
}

static void give(_Atomic uint32_t *count, uint32_t n)
{
    atomic_fetch_sub_explicit(count, n, memory_order_relaxed);
}

/* How many places a call takes: for its end, its GIVEN_UP, and its verdict. */
static uint32_t places(bool hears)
{
    return hears ? 3 : 2;
}

static bool is_end(const baton_event_t *e)
{
    return e->type == BATON_EVENT_OFFER || e->type == BATON_EVENT_WANT;
}

static bool is_foreign(const baton_event_t *e)
{
    return e->type == BATON_EVENT_VERDICT && e->id == 0;
}

void admission_init(struct admission *a, uint32_t requests, uint32_t leases, bool hears)
{
    *a = (struct admission){
        .hears = hears, .most = places(hears) * requests, .most_leases = leases, .most_foreign = hears ? requests : 0};
}

bool admission_hears(const struct admission *a)
{
    return a->hears;
}

uint32_t admission_most_calls(const struct admission *a)
{
    return a->most;
}

uint32_t admission_most_events(const struct admission *a)
{
    return a->most + a->most_foreign;
}

int admission_take(struct admission *a, bool leased)
{
    if (!take(&a->taken, places(a->hears), a->most))
        return admission_refuse(a, "too many calls are open", "BATON_REQUESTS");
    if (!leased || take(&a->leases, 1, a->most_leases))
        return 0;
    give(&a->taken, places(a->hears));
    return admission_refuse(a, "too many offers and pushes are alive", "BATON_LEASES");
}

baton_id_t admission_id(struct admission *a)
{
    return atomic_fetch_add_explicit(&a->last_id, 1, memory_order_relaxed) + 1;
}

bool admission_gave(const struct admission *a, baton_id_t id)
{
    return id != 0 && id <= atomic_load_explicit(&a->last_id, memory_order_relaxed);
}

void admission_undo(struct admission *a, bool leased)
{
    give(&a->taken, places(a->hears));
    give(&a->leases, leased);
}

int admission_refuse(struct admission *a, const char *what, const char *variable)
{
    atomic_fetch_add_explicit(&a->refused, 1, memory_order_relaxed);
    return error_set(BATON_EAGAIN, "%s: poll events, or raise %s", what, variable);
}

bool admission_tell(struct admission *a, const baton_event_t *e)
{
    if (is_foreign(e))
        return take(&a->foreign, 1, a->most_foreign);
    if (is_end(e))
        give(&a->leases, e->type == BATON_EVENT_OFFER || e->mode == BATON_MODE_PUSH);
    return true;
}

void admission_polled(struct admission *a, const baton_event_t *e)
{
    uint32_t n = 1;
    if (is_foreign(e)) {
        give(&a->foreign, 1);
        return;
    }
    if (is_end(e)) {
        n += !e->given_up;
        n += a->hears && e->verdict == BATON_VERDICT_NONE;
    }
    give(&a->taken, n);
}

uint64_t admission_refused(const struct admission *a)
{
    return atomic_load_explicit(&a->refused, memory_order_relaxed);
}
