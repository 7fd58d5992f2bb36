/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: faults by rule and seed, injected between the protocol core and its port (BATON_FAULT), to try out what an
 * engine does when things break. Without the variable the port is used as it is.
 *
 *   BATON_FAULT=rule[,rule...][:seed]
 *   rule        action@event[#n][~p][+ms][/rank]
 *   action      drop, double, delay, corrupt, stall, stop, kill
 *   event       send.TYPE, take.TYPE, card, table, board, move, settle; TYPE is WANT, GRANT, NACK, DONE, CANCEL, CLOSED,
 *               RELEASE, WRITTEN, BEAT, REPORT, VERDICT, ASK, STANDING, CHECK, SUMS or *
 *   #n          the n-th such event only, from 1          ~p   by chance, p of 1,000
 *   +ms         how long (delay, stall), or how much later (stop, kill)     /rank   on that world rank only
 *
 * drop and corrupt are for messages (send, take), double and delay for those sent; corrupt also for card and table, of
 * what was read, and for move: one byte of what a pull reads, once all has landed, in `pool`, mine. A delayed message
 * holds back those behind it to the same peer. stall holds the reactor, stop and kill raise SIGSTOP and SIGKILL in this
 * process. A message that waits for credit is one event however often it is tried; a move is one once the port has taken
 * something of it.
 */
#ifndef BATON_FAULT_FAULT_H
#define BATON_FAULT_FAULT_H

#include <stdbool.h>

#include "core/port.h"

struct faults;

/** NULL text: *out becomes NULL. 0, BATON_ESETTING (error_set names the rule) or BATON_ENOMEM. */
int faults_create(const char *text, uint32_t rank, const struct port *port, uint32_t num_ranks, uint8_t *pool,
                  struct faults **out);
void faults_destroy(struct faults *f);

/** The port to give to the core: wraps the one given above, which must outlive it. */
const struct port *faults_port(const struct faults *f);

/** Sends what was delayed and is due; applies the rules to what came. Returns how many events are left of n. */
int faults_filter(struct faults *f, uint64_t now, struct port_event *events, int n);

/** Messages are held: keep polling. */
bool faults_pending(const struct faults *f);

#endif
