/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exposure: windows over memory that engines own and that is no device's, for ranks of other nodes. One window over the
 * span from a rank's first region to its last, with whatever lies between them; where that cannot be made, or some rank
 * has a device's memory there, one window for each number of a region, up to EXPOSURE_WINDOWS. Never dynamic windows:
 * implementations lose operations on them, or crash.
 *
 * Opening and closing are collective, on the thread that starts or closes; the rest is the reactor's.
 */
#ifndef BATON_MPI_EXPOSURE_H
#define BATON_MPI_EXPOSURE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/path.h"
#include "mpi/world.h"

#define EXPOSURE_WINDOWS 128

enum exposure_way { EXPOSURE_NONE, EXPOSURE_SPAN, EXPOSURE_EACH };

/** From the first byte of a rank's first such region to the last one of its last: [begin, end). Nothing: both are 0. */
struct exposure_span {
    uint64_t begin, end;
    uint64_t has_device; /* 1: some of a device's memory lies there */
};

struct exposure {
    enum exposure_way way;
    MPI_Win windows[EXPOSURE_WINDOWS];
    int num;
    struct exposure_span *spans; /* by rank: what its window over the span covers */
    char why[256];               /* why it is not one window over the span */
    uint8_t ends[2];             /* of a peer's span: MPI's, where a read of these fails */
};

/**
 * Exposes `mine`, in the order of their addresses, to all ranks; there are none where Baton allocated my cache. *e
 * zeroed before. Agreed: 0, also where no window can be made; or what the steps end with.
 */
int exposure_open(struct exposure *e, struct world *w, const struct path_regions *mine);
void exposure_close(struct exposure *e, struct world *w);

/**
 * The window and the displacement of byte `offset` of a region of a rank, whose regions are `theirs`. MPI_WIN_NULL: no
 * window covers that region.
 */
MPI_Win exposure_place(const struct exposure *e, uint32_t rank, const struct path_regions *theirs, uint32_t region,
                       uint64_t offset, uint64_t *displacement);

#endif
