/* SPDX-License-Identifier: BSD-3-Clause */
/* digest: what an engine answered to one request, as hashes: equal where every token and every bit of the logits
   are. */
#ifndef ENGINE_DIGEST_H
#define ENGINE_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"
#include "replay/random.h"

struct digest {
    uint32_t answers; /* counted */
    uint64_t tokens, logits;
};

static inline void digest_add(struct digest *d, struct batch_answer answer)
{
    d->answers++;
    d->tokens = random_mix(d->tokens + answer.token + 1);
    d->logits = random_mix(d->logits + answer.logits);
}

static inline bool digest_equal(const struct digest *a, const struct digest *b)
{
    return a->answers == b->answers && a->tokens == b->tokens && a->logits == b->logits;
}

#endif
