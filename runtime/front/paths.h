/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths: the port of the protocol core, wired. Each rank is reached by one path (core/path.h), which is settled at
 * start: the first of the table in paths.c that leads there. The port hands on each call to the path of its rank.
 * Messages go by the fabric; the copy workers hash and zero. All of it is the reactor's.
 */
#ifndef BATON_FRONT_PATHS_H
#define BATON_FRONT_PATHS_H

#include "core/port.h"
#include "mpi/fabric.h"

struct paths;

/**
 * `cpus`: the hardware threads of the copy workers (base/thread.h). `board_offset`: of my lease board in my segment. 0,
 * BATON_ENOMEM or BATON_ESYSTEM.
 */
int paths_create(struct fabric *fabric, const struct settings *settings, const char *cpus, uint64_t board_offset,
                 struct paths **out);
/** Joins the copy workers. */
void paths_destroy(struct paths *p);

const struct port *paths_port(const struct paths *p);
/** By rank: the path to it. */
const baton_path_t *paths_table(const struct paths *p);

/** The hardware threads that the copy workers run on, as a list. Any thread. */
void paths_worker_cpus(const struct paths *p, char *list, size_t size);

/** "3 ranks by shm, 1 by rma"; as snprintf. Any thread. */
int paths_describe(const struct paths *p, char *text, size_t size);

#endif
