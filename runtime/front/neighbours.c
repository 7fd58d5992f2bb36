/* SPDX-License-Identifier: BSD-3-Clause */
/* neighbours: see neighbours.h. */
#include "front/neighbours.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "front/cache.h"
#include "observe/log.h"
#include "wire/card.h"

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

/* Now: its id may be another's later. False: the system does not say whether it lives. */
static bool find_process(const struct ground_peer *peer, struct process *process)
{
    *process = process_of(peer->process);
    return process_alive(process) != PROCESS_UNKNOWN || peer->mapped == NULL;
}

int neighbours_find(const struct paths_wish *wish, struct areas *areas, struct memory_near *near,
                    struct shm_segment *segments, struct shm_memory *memory, uint32_t *unseen)
{
    const struct ground *g = wish->ground;
    char *const *own = cache_touchable(wish->cache);
    *unseen = 0;
    for (uint32_t i = 0; i < g->num_peers; i++) {
        const struct ground_peer *peer = &g->peers[i];
        segments[i] = (struct shm_segment){.mapped = peer->mapped, .bytes = peer->bytes};
        if (!find_process(peer, &segments[i].process) && (*unseen)++ == 0)
            log_line(
                wish->log, LOG_WARN,
                "whether ranks of this node live cannot be seen: %s. One that is stopped for BATON_PEER_MS is taken "
                "for lost",
                peer->process == 0 ? "they are of another PID namespace" : strerror(errno));
        int rc = 0;
        if (i == g->self)
            memory[i] = (struct shm_memory){.read = own, .write = own, .regions = cache_regions(wish->cache)};
        else if (segments[i].mapped != NULL)
            rc = find_memory(&wish->directory->rows[i], areas, i, &near[i], &segments[i], &memory[i]);
        if (rc == 0)
            continue;
        for (uint32_t k = 0; k <= i; k++) /* else the path forgets them at its end */
            process_forget(&segments[k].process);
        return error_set(rc, "the memory of rank %" PRIu32 ": its card cannot be read: %s", i, baton_strerror(rc));
    }
    return 0;
}
