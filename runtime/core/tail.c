/* SPDX-License-Identifier: BSD-3-Clause */
/* tail: see tail.h. */
#include "core/tail.h"

#include <stdlib.h>

#include <utlist.h>

#include "core/state.h"

struct tail {
    struct op op; /* first */
    struct want *want;
    struct plan_transfer transfer;
    bool issued; /* a worker has it */
    struct tail *prev, *next;
};

struct tails {
    struct tail *first;
    struct plan *own; /* from my cache to itself; NULL until it is needed */
};

static int own_plan(struct core *core, struct plan_why *why)
{
    struct plan_box boxes[BATON_SPLITS_MAX];
    if (core->tails->own != NULL)
        return 0;
    uint32_t n = plan_boxes(core->c.geometry, boxes);
    return plan_compile(core->c.geometry, core->c.geometry, boxes, n, &core->tails->own, why);
}

static void tail_free(struct core *core, struct tail *t)
{
    DL_DELETE(core->tails->first, t);
    op_remove(&core->ops, &t->op);
    reap_add(&core->reap, t);
}

int tail_begin(struct core *core, struct want *want, const struct call *call, struct tail **out, struct plan_why *why)
{
    int rc = own_plan(core, why);
    *out = NULL;
    if (rc != 0)
        return rc;
    struct tail *t = reap_new(sizeof *t);
    if (t == NULL)
        return BATON_ENOMEM;
    rc = plan_transfer_tail(&t->transfer, core->tails->own, call->want.num_tokens, &call->tables, why);
    if (rc == 0 && t->transfer.bytes > 0)
        rc = op_add(&core->ops, &t->op, OP_TAIL);
    if (rc != 0 || t->transfer.bytes == 0) {
        reap_add(&core->reap, t);
        return rc;
    }
    t->want = want;
    DL_APPEND(core->tails->first, t);
    *out = t;
    return 0;
}

bool tail_stop(struct core *core, struct tail *t)
{
    if (t == NULL)
        return true;
    if (t->issued)
        return false;
    tail_free(core, t);
    return true;
}

struct want *tail_end(struct core *core, struct tail *t)
{
    tail_free(core, t);
    return t->want;
}

void tails_run(struct core *core)
{
    struct tail *t;
    DL_FOREACH(core->tails->first, t)
    {
        if (!t->issued)
            t->issued = core->c.port->zero(core->c.port->self, &t->transfer, t->op.tag) == 0;
    }
}

int tails_create(struct core *core)
{
    core->tails = calloc(1, sizeof *core->tails);
    return core->tails != NULL ? 0 : BATON_ENOMEM;
}

void tails_destroy(struct core *core)
{
    if (core->tails == NULL)
        return;
    while (core->tails->first != NULL)
        tail_free(core, core->tails->first);
    plan_destroy(core->tails->own);
    free(core->tails);
}
