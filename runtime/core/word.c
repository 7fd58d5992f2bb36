/* SPDX-License-Identifier: BSD-3-Clause */
/* word: see word.h. */
#include "core/word.h"

#include <stdio.h>

#include "core/post.h"
#include "core/state.h"

struct word word_of_want(const struct core *core, uint32_t peer, const struct wire_message *m)
{
    const struct wire_want *w = &m->want;
    return (struct word){.peer = peer,
                         .want = m->want_id,
                         .asks = w->asks,
                         .tokens = w->tokens,
                         .held = w->held,
                         .mode = w->mode,
                         .until_ns = core->now + w->time_left_ms * NS_PER_MS,
                         .table = {w->slot, w->table_entries, w->generation, w->table_offset}};
}

struct word word_of_end(uint32_t peer, const struct wire_message *m)
{
    return (struct word){.peer = peer, .release = true, .want = m->want_id, .error = m->end.error};
}

void word_nack(struct core *core, const struct word *w, uint64_t generation, int error, const char *detail)
{
    struct wire_message m = {
        .type = WIRE_NACK, .want_id = w->want, .nack = {.asks = w->asks, .error = error, .generation = generation}};
    snprintf(m.nack.detail, sizeof m.nack.detail, "%s", detail);
    post_send(core->post, w->peer, &m);
}
