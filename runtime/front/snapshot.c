/* SPDX-License-Identifier: BSD-3-Clause */
/* snapshot: see snapshot.h. */
#include "front/snapshot.h"

#include <stdio.h>
#include <string.h>

#include "core/core.h"

void snapshot_init(struct snapshot *s)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
}

void snapshot_fini(struct snapshot *s)
{
    pthread_mutex_destroy(&s->lock);
}

bool snapshot_put(struct snapshot *s, const struct core *core, uint64_t now)
{
    if (pthread_mutex_trylock(&s->lock) != 0)
        return false;
    s->num_pending = core_pending(core, now, s->pending, SNAPSHOT_PENDING);
    pthread_mutex_unlock(&s->lock);
    return true;
}

void snapshot_put_why(struct snapshot *s, const char *why)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->why, sizeof s->why, "%s", why);
    pthread_mutex_unlock(&s->lock);
}

uint32_t snapshot_pending(struct snapshot *s, baton_pending_t *out, uint32_t max)
{
    pthread_mutex_lock(&s->lock);
    const uint32_t n = (uint32_t)s->num_pending < max ? (uint32_t)s->num_pending : max;
    memcpy(out, s->pending, (size_t)n * sizeof *out);
    pthread_mutex_unlock(&s->lock);
    return n;
}

void snapshot_why(struct snapshot *s, char out[SNAPSHOT_WHY])
{
    pthread_mutex_lock(&s->lock);
    memcpy(out, s->why, sizeof s->why);
    pthread_mutex_unlock(&s->lock);
}
