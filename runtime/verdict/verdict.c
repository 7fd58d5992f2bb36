/* SPDX-License-Identifier: BSD-3-Clause */
/* verdict: what happens, and to which rank's part that goes, see verdict.h. */
#include "verdict/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/peer.h"
#include "core/post.h"
#include "verdict/verdict_inside.h"

/* Whom a verdict names is of this engine, if it names anybody. */
static bool names_a_member(const struct core *core, const struct wire_message *m)
{
    return m->type != WIRE_VERDICT || m->verdict.member == 0 ||
           engine_of_member(core, m->verdict.member) == core_engine(core);
}

static void on_message(struct core *core, uint32_t rank, const struct wire_message *m)
{
    if (!directory_is_complete(my_engine(core)))
        return; /* it is said again */
    bool from_member = core->c.directory->engine_of[rank] == core_engine(core), i_lead = leader(core) == core->c.self;
    bool to_leader = m->type == WIRE_REPORT || m->type == WIRE_STANDING;
    if (!from_member || mode_of(core) == BATON_VERDICTS_NONE || (to_leader ? !i_lead : rank != leader(core)) ||
        (to_leader && !takes_part(core, core->c.directory->index_of[rank])) || !names_a_member(core, m)) {
        count_add(&core->stats.messages_bad, 1);
        return;
    }
    if (m->type == WIRE_REPORT)
        round_on_report(core, rank, m);
    else if (m->type == WIRE_STANDING)
        round_on_standing(core, rank, m);
    else if (m->type == WIRE_ASK)
        round_on_ask(core, rank, m);
    else
        report_on_verdict(core, m);
}

static void on_end(struct core *core, struct outcome *told)
{
    baton_event_t *e = &told->event;
    struct call *call = told->call;
    struct outcome *verdict = call->verdict;
    if (mode_of(core) == BATON_VERDICTS_NONE || !takes_part(core, core_index(core)) || core->shut ||
        !directory_is_complete(my_engine(core)))
        return;
    struct wire_message m = {.type = WIRE_REPORT,
                             .want_id = call->id,
                             .verdict = {.name.attempt = call->attempt,
                                         .verb = (uint8_t)call->kind,
                                         .producer = report_producer(core, call),
                                         .status = (uint8_t)e->status,
                                         .error = e->error}};
    memcpy(m.verdict.name.key, call->key, sizeof m.verdict.name.key);
    snprintf(m.verdict.detail, sizeof m.verdict.detail, "%.95s", e->detail);
    call->verdict = NULL;
    if (verdict != NULL) {
        e->verdict = call->end.event.verdict = BATON_VERDICT_FOLLOWS;
        outcome_name(verdict, call);
    }
    int rc = report_create(core, &m, verdict);
    if (rc != 0 && verdict != NULL) {
        report_fail_message(core, &m, rc, "the engine's first rank could not be told");
        report_emit(core, verdict, &m.verdict);
    } else if (rc == 0 && leader(core) != core->c.self) {
        post_send(core->post, leader(core), &m);
    } else if (rc == 0) {
        round_on_report(core, core->c.self, &m);
    }
}

static void on_loss(struct core *core, uint32_t rank)
{
    if (core->c.directory->engine_of[rank] != core_engine(core) || !directory_is_complete(my_engine(core)))
        return;
    if (rank == leader(core))
        reports_fail(core, BATON_EPEER, "the engine's first rank is lost");
    else
        rounds_lose(core, rank);
}

static void on_shut(struct core *core)
{
    reports_destroy(core);
    rounds_destroy(core);
}

static void destroy(struct core *core)
{
    on_shut(core);
    free(verdicts_of(core));
}

int verdicts_create(struct core *core)
{
    static const struct core_hooks hooks = {on_message, on_end, on_loss, on_shut, destroy};
    struct verdicts *v = calloc(1, sizeof *v);
    if (v == NULL)
        return BATON_ENOMEM;
    core_hook(core, &hooks, v);
    return 0;
}
