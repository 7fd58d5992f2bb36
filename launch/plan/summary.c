/* SPDX-License-Identifier: BSD-3-Clause */
/* summary_of: totals of an exchange. */
#include <stdlib.h>

#include "exchange.h"

struct load {
    uint64_t bytes;
    uint32_t peers;
};

static void widen(uint64_t value, uint64_t *least, uint64_t *most)
{
    *least = value < *least ? value : *least;
    *most = value > *most ? value : *most;
}

static void add_pairs(const struct exchange *x, struct load *producers, struct load *consumers, struct summary *s)
{
    for (uint32_t i = 0; i < x->num_pairs; i++) {
        const struct pair *p = &x->pairs[i];
        s->pairs++;
        s->bytes += p->moves.bytes;
        s->runs += p->moves.runs;
        s->units += p->moves.units;
        s->same_node_pairs += p->same_node;
        s->same_node_bytes += p->same_node ? p->moves.bytes : 0;
        widen(p->moves.bytes, &s->pair_bytes_least, &s->pair_bytes_most);
        producers[p->producer].bytes += p->moves.bytes;
        producers[p->producer].peers++;
        consumers[p->consumer].bytes += p->moves.bytes;
        consumers[p->consumer].peers++;
    }
}

int summary_of(const struct exchange *x, struct summary *s, struct why *why)
{
    uint64_t none = 0;
    *s = (struct summary){.pair_bytes_least = UINT64_MAX, .fan_in_least = UINT64_MAX, .fan_out_least = UINT64_MAX};
    struct load *producers = calloc((size_t)x->prefill->num_ranks + x->decode->num_ranks, sizeof *producers);
    if (producers == NULL)
        return why_set(why, "no memory for a summary");
    struct load *consumers = producers + x->prefill->num_ranks;
    add_pairs(x, producers, consumers, s);
    for (uint32_t i = 0; i < x->prefill->num_ranks; i++) {
        widen(producers[i].peers, &s->fan_out_least, &s->fan_out_most);
        widen(producers[i].bytes, &none, &s->producer_bytes_most);
        s->producers_idle += producers[i].peers == 0;
    }
    for (uint32_t i = 0; i < x->decode->num_ranks; i++) {
        widen(consumers[i].peers, &s->fan_in_least, &s->fan_in_most);
        widen(consumers[i].bytes, &none, &s->consumer_bytes_most);
    }
    if (s->pairs == 0)
        s->pair_bytes_least = 0;
    free(producers);
    return 0;
}

double summary_ratio(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0;
}
