/* SPDX-License-Identifier: BSD-3-Clause */
/* tables: the fabric as front sees it (core/ground.h, core/net.h, core/world.h). */
#include "mpi/fabric.h"

#include <stdlib.h>

#include "base/error.h"

void fabric_fill(struct fabric *f)
{
    const struct path path = {.self = f,
                              .read = fabric_read,
                              .board = fabric_read_word,
                              .move = fabric_move,
                              .settle = fabric_settle,
                              .park = fabric_park,
                              .ended = fabric_ended,
                              .progress = fabric_progress,
                              .look = fabric_look,
                              .has_looked = fabric_has_looked,
                              .busy = fabric_busy,
                              .kind = BATON_PATH_RMA,
                              .name = "rma"};
    f->ground = (struct ground){
        .self = (uint32_t)f->world.rank, .num_peers = (uint32_t)f->world.size, .places = (uint32_t)f->world.node_size};
    f->net = (struct net){.path = path,
                          .self = f,
                          .has_nodes = f->world.nodes > 1,
                          .send = fabric_send,
                          .sync = fabric_sync,
                          .is_rung = fabric_is_rung,
                          .rings = fabric_rings,
                          .ring = fabric_ring,
                          .failed = fabric_failed,
                          .counts = fabric_counts,
                          .describe = fabric_describe_net};
    f->calls = (struct world_calls){.self = f,
                                    .node = f->world.node_of[f->world.rank],
                                    .agree = fabric_agree,
                                    .least = fabric_least,
                                    .exchange = fabric_exchange,
                                    .is_lost = fabric_is_lost,
                                    .start = fabric_start,
                                    .expose = fabric_expose,
                                    .doorbell = fabric_doorbell,
                                    .selftest = fabric_selftest,
                                    .meet_init = fabric_meet_init,
                                    .meet = fabric_meet,
                                    .meet_missing = fabric_meet_missing,
                                    .meet_close = fabric_meet_close,
                                    .leave = fabric_leave,
                                    .silence = fabric_silence,
                                    .hurry = fabric_hurry,
                                    .on_finalize = fabric_on_finalize,
                                    .finalize = fabric_finalize,
                                    .close = fabric_close,
                                    .leave_open = fabric_leave_open,
                                    .forget = fabric_forget,
                                    .describe = fabric_describe};
}

int fabric_find_peers(struct fabric *f)
{
    const struct world *w = &f->world;
    uint32_t place = 0;
    f->peers = calloc((size_t)w->size, sizeof *f->peers);
    if (f->peers == NULL)
        return error_set(BATON_ENOMEM, "no memory for the table of %d ranks", w->size);
    for (uint32_t r = 0; r < (uint32_t)w->size; r++) {
        const struct windows_segment *s = &f->windows.segments[r];
        if (s->mapped != NULL)
            f->peers[r] = (struct ground_peer){s->mapped, s->bytes, windows_process(&f->windows, r), place++};
    }
    f->ground.peers = f->peers;
    f->ground.segment = f->windows.segment;
    f->ground.pool_offset = f->windows.pool_offset;
    return 0;
}
