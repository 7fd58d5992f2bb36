/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: who serves whom between a prefill and a decode engine whose ranks have places, and how many bytes, as the
 * library's planner decides. Where several prefill ranks hold the same heads, that depends on the places.
 */
#ifndef BATON_PLACE_SERVE_H
#define BATON_PLACE_SERVE_H

#include "launch/plan/exchange.h"

/** Where a rank runs; package and numa may be PLAN_UNKNOWN. */
struct serve_place {
    uint32_t node, package, numa;
};

struct serve_flow {
    uint32_t producer, consumer; /* ranks of their engines */
    uint64_t bytes;
};

struct serve_known;

struct serve {
    const struct exchange *exchange; /* of one engine of each side */
    bool has_replicas;               /* several prefill ranks hold the same */
    struct plan_member *members;     /* of the prefill engine, with places */
    struct serve_known **known;      /* by consumer: bytes of boxes */
    struct serve_flow *flows;
    uint32_t num_flows, room;
};

/** 0; -1: no memory. Call serve_fini in both cases. */
int serve_init(struct serve *s, const struct exchange *x);
void serve_fini(struct serve *s);

/**
 * Finds out flows[0 .. num_flows). `from` and `to`: places of the two engines' ranks; NULL: each is as far as any
 * other. `turn`: the number of the decode engine among the world's, less 1 and the prefill engine's. 0, or -1 with
 * *why.
 */
int serve_find(struct serve *s, const struct serve_place *from, const struct serve_place *to, uint32_t turn,
               struct why *why);

#endif
