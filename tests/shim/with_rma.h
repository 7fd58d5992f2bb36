/* SPDX-License-Identifier: BSD-3-Clause */
/* with_rma: the rma path of one rank over the fake MPI, without a fabric around it. */
#ifndef BATON_TESTS_WITH_RMA_H
#define BATON_TESTS_WITH_RMA_H

#include "base/settings.h"
#include "core/net.h"
#include "mpi/quirks.h"

struct with_rma;

/** `quirks` and `pool` must live as long. fake_address says where the other ranks' segments are. */
struct with_rma *with_rma_create(const struct settings *settings, const struct quirks *quirks, uint32_t rank,
                                 uint32_t ranks, uint8_t *pool, uint64_t pool_bytes);
/** What is still open in MPI is dropped. */
void with_rma_destroy(struct with_rma *w);
struct rma *with_rma_of(struct with_rma *w);
/** Those in use, which were copied from `settings`. */
struct settings *with_rma_settings(struct with_rma *w);

/** What a core calls of it: the moves of a leg are made runs, as front does it. */
void with_rma_path(struct with_rma *w, struct path *path);
/** Its moves alone. */
const struct net *with_rma_net(const struct with_rma *w);
/** As the progress of a path (core/path.h). */
int with_rma_progress(struct with_rma *w, struct port_event *events, int max);

#endif
