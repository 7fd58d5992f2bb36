/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carrier: what moves blocks between engines, as a table of functions. The scheduler calls it; glue.c fills it by
 * Baton, a test by what it likes. No call waits. What becomes of a transfer stands in its `mine` some time later.
 * Every rank of an engine makes the same calls in the same order.
 */
#ifndef ENGINE_CARRIER_H
#define ENGINE_CARRIER_H

#include <stdint.h>

#include "engine/request.h"

struct carrier {
    void *self;
    /** Begins r->in: tokens [in.from, in.until) of the request, or of the turn before it, into its blocks. */
    void (*take)(void *self, struct request *r, bool of_turn_before);
    /** Begins r->out: the first out.until tokens. `attach` goes along. Streamed: see append. */
    void (*give)(void *self, struct request *r, bool to_turn_after, bool streamed, const void *attach, uint32_t bytes);
    /** Of an r->out that is streamed: the first `tokens` tokens are in place, or will be, layer by layer. */
    void (*append)(void *self, struct request *r, uint32_t tokens);
    /** Begins and ends r->out: this engine will not give the request's blocks. */
    void (*refuse)(void *self, struct request *r);
    /** Asks that a transfer ends. */
    void (*withdraw)(void *self, struct transfer *t);
    /** A block was taken for new tokens: what it holds counts no more. */
    void (*renew)(void *self, uint32_t block);
};

#endif
