/* SPDX-License-Identifier: BSD-3-Clause */
/* preset: see preset.h. */
#include "preset.h"

#include <stdlib.h>

static void own_fini(void *own)
{
    model_cache_fini(own);
    free(own);
}

int preset_cache(const struct model_cut *cut, const struct model_seat *seat, uint32_t tokens, struct cache *out,
                 struct why *why)
{
    struct model_cache *own = malloc(sizeof *own);
    if (own == NULL)
        return why_set(why, "no memory for a cache");
    if (model_cache_init(own, cut, seat, model_blocks(tokens, cut->block_tokens), why) != 0) {
        free(own);
        return -1;
    }
    *out = (struct cache){.geometry = &own->geometry, .own = own, .own_fini = own_fini};
    return 0;
}
