/* SPDX-License-Identifier: BSD-3-Clause */
/* probe: see the header. */
#include "sim/with_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_inside.h"

uint64_t probe_silent(const struct core *core)
{
    return core->movers->rma.silent;
}

uint64_t probe_held(const struct core *core)
{
    return budget_held(&core->movers->rma);
}

uint32_t probe_reading(const struct core *core)
{
    return core->movers->reading;
}

uint32_t probe_ops(const struct core *core)
{
    return HASH_COUNT(core->ops.by_tag);
}

uint32_t probe_checks(const struct core *core)
{
    return core->ops.num[OP_CHECK];
}

uint32_t probe_waiting(const struct core *core)
{
    return post_waiting(core->post);
}

uint32_t probe_early_as(const struct core *core, enum early_kind kind)
{
    return core->early->kept[kind];
}

uint32_t probe_early(const struct core *core)
{
    return core->early->kept[EARLY_LIVE] + core->early->kept[EARLY_ENDED];
}

uint32_t probe_early_of(const struct core *core, uint32_t rank)
{
    return core->early->of[rank][EARLY_LIVE] + core->early->of[rank][EARLY_ENDED];
}

uint32_t probe_requests(const struct core *core)
{
    return HASH_COUNT(core->attempts->requests);
}

uint32_t probe_tombstones(const struct core *core)
{
    return core->attempts->num_ended;
}

uint32_t probe_formers(const struct core *core)
{
    return core->attempts->num_formers;
}

uint32_t probe_number(const struct core *core, uint32_t rank)
{
    return ++core->post->of[rank].sent;
}

void probe_send(struct core *core, uint32_t rank, struct wire_message *m)
{
    post_send(core->post, rank, m);
}

bool probe_reads(const struct core *core, uint32_t rank)
{
    return reader_of(core, core->offers->by_id->seats, rank) != NULL;
}

uint32_t probe_asked(const struct core *core)
{
    const struct want *want = core->wants->by_id;
    assert_non_null(want);
    assert_int_equal(HASH_CNT(by_id, want), 1);
    assert_int_equal(want->ask.num_legs, 1);
    return leg_rank(leg_at(want->legs, 0));
}

void probe_work_slowly(struct core *core, uint64_t pause_ns)
{
    core->works.looks_most = 1;
    core->works.pause_ns = pause_ns;
}
