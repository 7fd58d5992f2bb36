/* SPDX-License-Identifier: BSD-3-Clause */
/* neighbours: see neighbours.h. */
#include "front/neighbours.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "front/cache.h"
#include "observe/log.h"
#include "wire/card.h"

int neighbours_init(struct neighbours *n, const struct ground *g)
{
    *n = (struct neighbours){.vicinity = NULL};
    const int rc = vicinity_create(g->self, g->num_peers, g->places, &n->vicinity);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < g->num_peers; i++)
        if (g->peers[i].mapped != NULL || i == g->self)
            vicinity_add(n->vicinity, i);
    n->memory = calloc(n->vicinity->most + 1, sizeof *n->memory);
    return n->memory != NULL ? 0 : BATON_ENOMEM;
}

void neighbours_fini(struct neighbours *n)
{
    for (uint32_t i = 0; n->memory != NULL && i <= n->vicinity->most; i++)
        memory_near_fini(&n->memory[i]);
    free(n->memory);
    vicinity_destroy(n->vicinity);
}

/* The card of a rank of this node lies in its segment, which is mapped here. */
static int find_memory(const struct directory_row *row, struct areas *areas, uint32_t rank, struct memory_near *near,
                       struct shm_segment *segment, struct shm_memory *memory)
{
    const struct memory_segment where = {segment->mapped, segment->bytes, &segment->process};
    struct wire_card card;
    if (row->card_offset > segment->bytes || row->card_bytes > segment->bytes - row->card_offset)
        return BATON_EMESSAGE;
    int rc = wire_card_decode(segment->mapped + row->card_offset, row->card_bytes, &card);
    if (rc != 0)
        return rc;
    /* A card begins with a hash of all of it and the member's number, is longer than that, and never changes. */
    segment->process.sample =
        (struct process_sample){segment->mapped + row->card_offset, card.segment + row->card_offset};
    if (card.num_regions > 0)
        process_watch(&segment->process);
    rc = memory_near_find(near, &card, &where);
    if (rc == 0)
        *memory = (struct shm_memory){.read = near->read.bases,
                                      .write = memory_near_is_writable(near) ? near->write.bases : NULL,
                                      .regions = &near->regions,
                                      .is_engines = card.num_regions > 0};
    areas_add(areas, rank, &card);
    wire_card_free(&card);
    return rc;
}

/* Nobody's where no neighbour is. The process is asked for now: its id may be another's later. */
static struct shm_segment segment_at(struct neighbours *n, const struct paths_wish *wish, uint32_t spot)
{
    const uint32_t rank = n->vicinity->rank_at[spot];
    if (rank == VICINITY_NONE)
        return (struct shm_segment){.process = process_of(0)};
    const struct ground_peer *peer = &wish->ground->peers[rank];
    struct shm_segment segment = {.mapped = peer->mapped, .bytes = peer->bytes, .process = process_of(peer->process)};
    if (process_alive(&segment.process) == PROCESS_UNKNOWN && peer->mapped != NULL && n->unseen++ == 0)
        log_line(wish->log, LOG_WARN,
                 "whether ranks of this node live cannot be seen: %s. One that is stopped for BATON_PEER_MS is taken "
                 "for lost",
                 peer->process == 0 ? "they are of another PID namespace" : strerror(errno));
    return segment;
}

int neighbours_find(struct neighbours *n, const struct paths_wish *wish, struct areas *areas,
                    struct shm_segment *segments, struct shm_memory *memory)
{
    const struct vicinity *v = n->vicinity;
    char *const *own = cache_touchable(wish->cache);
    for (uint32_t i = 0; i <= v->most; i++) {
        const uint32_t rank = v->rank_at[i];
        int rc = 0;
        segments[i] = segment_at(n, wish, i);
        if (rank == v->self)
            memory[i] = (struct shm_memory){.read = own, .write = own, .regions = cache_regions(wish->cache)};
        else if (segments[i].mapped != NULL)
            rc = find_memory(&wish->directory->rows[rank], areas, rank, &n->memory[i], &segments[i], &memory[i]);
        if (rc == 0)
            continue;
        for (uint32_t k = 0; k <= i; k++) /* else the path forgets them at its end */
            process_forget(&segments[k].process);
        return error_set(rc, "the memory of rank %" PRIu32 ": its card cannot be read: %s", rank, baton_strerror(rc));
    }
    return 0;
}
