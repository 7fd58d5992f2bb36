/* SPDX-License-Identifier: BSD-3-Clause */
/* layout: see layout.h. */
#include "base/layout.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "baton.h"

#define NUMBER_MAX (2u * LAYOUT_RANKS_MAX) /* of the last rank of two full sides, and more */

/* A number that `stop` follows; moves *text behind both. */
static bool read_number(const char **text, char stop, uint32_t *out)
{
    const char *at = *text;
    if (!number_take(&at, NUMBER_MAX, out) || *at != stop)
        return false;
    *text = at + (stop != '\0');
    return true;
}

bool layout_read_side(const char *text, struct layout_side *out)
{
    struct layout_side s = {.pp = 1};
    const char *at = text;
    if (!read_number(&at, 'x', &s.engines))
        return false;
    if (strchr(at, 'x') != NULL) {
        if (!read_number(&at, 'x', &s.tp) || !read_number(&at, '\0', &s.pp))
            return false;
    } else if (!read_number(&at, '\0', &s.tp)) {
        return false;
    }
    if (s.engines == 0)
        s.tp = s.pp = 1; /* without engines the others do not matter */
    if (s.tp == 0 || s.pp == 0 || (uint64_t)s.tp * s.pp > BATON_ENGINE_RANKS_MAX ||
        (uint64_t)s.engines * s.tp * s.pp > LAYOUT_RANKS_MAX)
        return false;
    *out = s;
    return true;
}

bool layout_read(const char *text, struct layout *out)
{
    char prefill[64];
    const char *space = strchr(text, ' ');
    if (space == NULL || (size_t)(space - text) >= sizeof prefill)
        return false;
    snprintf(prefill, sizeof prefill, "%.*s", (int)(space - text), text);
    struct layout l;
    if (!layout_read_side(prefill, &l.prefill) || !layout_read_side(space + 1, &l.decode) ||
        layout_ranks(&l.prefill) + layout_ranks(&l.decode) == 0)
        return false;
    *out = l;
    return true;
}

bool layout_find(const struct layout *l, uint32_t rank, baton_open_params_t *out)
{
    uint32_t prefill = layout_ranks(&l->prefill);
    bool is_prefill = rank < prefill;
    const struct layout_side *s = is_prefill ? &l->prefill : &l->decode;
    uint32_t number = is_prefill ? rank : rank - prefill, each = s->tp * s->pp;
    if (number >= layout_ranks(s))
        return false;
    memset(out->engine, 0, sizeof out->engine);
    snprintf(out->engine, sizeof out->engine, "%s%u", is_prefill ? "prefill" : "decode", number / each);
    out->role = is_prefill ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE;
    out->tp = s->tp;
    out->pp = s->pp;
    out->tp_rank = number % each % s->tp;
    out->pp_rank = number % each / s->tp;
    return true;
}

int32_t layout_world_rank(char *(*variable)(const char *name))
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = variable(names[i]);
        uint32_t rank;
        if (text != NULL && read_number(&text, '\0', &rank))
            return (int32_t)rank;
    }
    return -1;
}
