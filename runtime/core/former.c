/* SPDX-License-Identifier: BSD-3-Clause */
/* former: what an attempt remembers of the wants of its former offers, see attempt.h. */
#include <stdlib.h>

#include "core/attempt_inside.h"
#include "core/state.h"

uint64_t formers_most(const struct core *core)
{
    return 4 * core->c.settings->tombstones;
}

static struct former *find(const struct attempt *a, uint32_t rank)
{
    for (uint32_t i = 0; i < a->formers.num; i++)
        if (a->formers.of[i].rank == rank)
            return &a->formers.of[i];
    return NULL;
}

/* What is remembered of that rank from now on. NULL: no memory, so nothing is. */
static struct former *make(struct core *core, struct attempt *a, uint32_t rank)
{
    struct formers *f = &a->formers;
    struct former *former = find(a, rank);
    if (former != NULL)
        return former;
    struct former *more = realloc(f->of, (f->num + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    f->of = more;
    more[f->num] = (struct former){.rank = rank};
    core->attempts->num_formers++;
    return &more[f->num++];
}

bool attempt_is_former(const struct attempt *a, uint32_t rank, uint64_t want)
{
    const struct former *f = find(a, rank);
    return f != NULL && want <= f->want;
}

bool attempt_has_refused(const struct attempt *a, uint32_t rank, uint64_t want)
{
    const struct former *f = find(a, rank);
    return f != NULL && want <= f->refused;
}

void attempt_note(struct core *core, struct attempt *a, uint32_t rank, uint64_t want)
{
    struct former *f = find(a, rank);
    if (f == NULL && core->attempts->num_formers < formers_most(core))
        f = make(core, a, rank);
    if (f == NULL)
        return;
    f->open = false;
    f->want = want > f->want ? want : f->want;
    f->refused = want > f->refused ? want : f->refused;
}

void attempt_remember(struct core *core, struct attempt *a, const struct seats *seats)
{
    struct formers *f = &a->formers;
    for (uint32_t i = 0; i < f->num; i++)
        f->of[i].open = false;
    for (const struct reader *r = seats_next(seats, NULL); r != NULL; r = seats_next(seats, r)) {
        bool open = reader_is_expected(r) && reader_state(r) == READER_NONE;
        struct former *former = open || reader_want(r) != 0 ? make(core, a, reader_rank(core, r)) : NULL;
        if (former == NULL)
            continue;
        former->open = open;
        former->want = reader_want(r) > former->want ? reader_want(r) : former->want;
    }
    f->num_untaken = seats_untaken(core, seats, f->untaken);
    for (uint32_t i = 0; i < f->num; i++)
        for (uint32_t k = 0; k < f->num_untaken; k++)
            f->of[i].open |= core->c.directory->engine_of[f->of[i].rank] == f->untaken[k];
}

bool former_was_meant(struct core *core, struct attempt *a, uint32_t rank, uint64_t want)
{
    const struct former *f = find(a, rank);
    bool untaken = false;
    for (uint32_t i = 0; i < a->formers.num_untaken; i++)
        untaken |= a->formers.untaken[i] == core->c.directory->engine_of[rank];
    if (f != NULL && want <= f->want)
        return true;
    if (a->number == 0 && (f != NULL ? !f->open : !untaken))
        return false;
    attempt_note(core, a, rank, want);
    return true;
}

void former_forget(struct core *core, struct attempt *a, uint32_t rank)
{
    struct formers *f = &a->formers;
    struct former *former = find(a, rank);
    for (uint32_t i = 0; i < f->num_untaken; i++)
        if (f->untaken[i] == core->c.directory->engine_of[rank])
            f->untaken[i--] = f->untaken[--f->num_untaken];
    if (former == NULL)
        return;
    *former = f->of[--f->num];
    core->attempts->num_formers--;
}

void formers_free(struct core *core, struct attempt *a)
{
    core->attempts->num_formers -= a->formers.num;
    free(a->formers.of);
    a->formers = (struct formers){.of = NULL};
}
