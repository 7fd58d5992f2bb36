/* SPDX-License-Identifier: BSD-3-Clause */
/* path: the fabric as a path to every rank (core/path.h). */
#include "mpi/fabric.h"

static int read_piece(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    return fabric_read(self, peer, offset, bytes, tag);
}

static int board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    return fabric_read_word(self, peer, offset, tag);
}

static int64_t move(void *self, const struct path_leg *leg, uint64_t budget)
{
    return fabric_move(self, leg, budget);
}

static int settle(void *self, uint32_t peer, uint64_t tag)
{
    return fabric_settle(self, peer, tag);
}

static enum path_park park(void *self, uint32_t peer, uint64_t tag)
{
    return fabric_park(self, peer, tag);
}

static bool ended(void *self, uint32_t peer)
{
    return fabric_ended(self, peer);
}

static int progress(void *self, struct port_event *events, int max)
{
    return fabric_progress(self, events, max);
}

static void look(void *self)
{
    fabric_look(self);
}

static bool has_looked(const void *self)
{
    return fabric_has_looked(self);
}

static bool busy(const void *self)
{
    return fabric_busy(self) > 0;
}

void fabric_path(struct fabric *f, struct path *out)
{
    *out = (struct path){.self = f,
                         .read = read_piece,
                         .board = board,
                         .move = move,
                         .settle = settle,
                         .park = park,
                         .ended = ended,
                         .progress = progress,
                         .look = look,
                         .has_looked = has_looked,
                         .busy = busy,
                         .kind = BATON_PATH_RMA,
                         .name = "rma"};
}
