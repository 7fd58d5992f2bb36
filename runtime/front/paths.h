/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths: the port of the protocol core, wired. Each peer is reached by one path, settled at start: shm where its
 * segment is mapped here (metadata by atomic loads, blocks by the copy workers), rma elsewhere (the fabric).
 */
#ifndef BATON_FRONT_PATHS_H
#define BATON_FRONT_PATHS_H

#include "core/port.h"
#include "mpi/fabric.h"

struct paths;

/** `board_offset`: of my lease board in my segment. 0, BATON_ENOMEM or BATON_ESYSTEM. */
int paths_create(struct fabric *fabric, const struct settings *settings, uint64_t board_offset, struct paths **out);
/** Joins the copy workers. */
void paths_destroy(struct paths *p);

const struct port *paths_port(const struct paths *p);
/** By rank: the path to it. */
const baton_path_t *paths_table(const struct paths *p);

/** Collects what happened on either path; at most `max`. Data stays until the next call. */
int paths_progress(struct paths *p, struct port_event *events, int max);

/** Events wait here that paths_progress has not handed out. */
bool paths_pending(const struct paths *p);

#endif
