/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tail: zeros behind a want's tokens, to the end of their last blocks (BATON_WANT_ZERO_TAIL). A copy worker stores them
 * while the legs move: no leg writes there. The want has its end only when that is over, however it ends.
 */
#include "core/state.h"

#include <stdlib.h>

struct tail {
    struct op op; /* first */
    struct want *want;
    struct plan_transfer transfer;
    bool issued; /* a worker has it */
    struct tail *prev, *next;
};

/* My cache as both sides. */
static int own_plan(struct core *core, struct plan_why *why)
{
    struct plan_box boxes[BATON_SPLITS_MAX];
    if (core->own != NULL)
        return 0;
    uint32_t n = plan_boxes(core->c.geometry, boxes);
    return plan_compile(core->c.geometry, core->c.geometry, boxes, n, &core->own, why);
}

static void tail_free(struct core *core, struct tail *t)
{
    t->want->tail = NULL;
    DL_DELETE(core->tails, t);
    op_remove(&core->ops, &t->op);
    free(t);
}

int tail_begin(struct core *core, struct want *want, struct plan_why *why)
{
    int rc = own_plan(core, why);
    if (rc != 0)
        return rc;
    struct tail *t = calloc(1, sizeof *t);
    if (t == NULL)
        return BATON_ENOMEM;
    rc = plan_transfer_tail(&t->transfer, core->own, want->call->want.num_tokens, &want->call->tables, why);
    if (rc == 0 && t->transfer.bytes > 0)
        rc = op_add(&core->ops, &t->op, OP_TAIL);
    if (rc != 0 || t->transfer.bytes == 0) {
        free(t);
        return rc;
    }
    t->want = want;
    want->tail = t;
    DL_APPEND(core->tails, t);
    return 0;
}

void tail_stop(struct core *core, struct want *want)
{
    if (want->tail != NULL && !want->tail->issued)
        tail_free(core, want->tail);
}

struct want *tail_end(struct core *core, struct tail *t)
{
    struct want *want = t->want;
    tail_free(core, t);
    return want;
}

void tails_run(struct core *core)
{
    struct tail *t;
    DL_FOREACH(core->tails, t)
    {
        if (!t->issued)
            t->issued = core->c.port->zero(core->c.port->self, &t->transfer, t->op.tag) == 0;
    }
}

void tails_destroy(struct core *core)
{
    while (core->tails != NULL)
        tail_free(core, core->tails);
    plan_destroy(core->own);
}
