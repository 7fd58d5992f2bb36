/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: faults that BATON_FAULT asks for, to try out what an engine does when things break. They are a port around the
 * port, which hands on what the core asks and what the world answers, and breaks what the rules name:
 *
 *   BATON_FAULT=rule[,rule...][:seed]
 *   rule        action@event[#n][~p][+ms][/rank]
 *   action      drop, double, delay, corrupt, stall, stop, kill
 *   event       send.TYPE, take.TYPE, card, table, board, move, settle, enter, leave, lease, giveback. TYPE is a
 *               message's name (wire_type_name) or *
 *   #n          the n-th such event only, from 1          ~p   by chance, p of 1,000
 *   +ms         how long (delay, stall), or how much later (stop, kill)     /rank   on that world rank only
 *
 *   drop        a message that is sent or taken
 *   double      a message that is sent goes out twice
 *   delay       a message that is sent waits, and holds back those behind it to the same peer
 *   corrupt     one bit changes: in a message, in the card or table that was read, or, at `move`, in what a pull reads
 *               into my pool once all of it has landed
 *   stall       the reactor sleeps
 *   stop, kill  SIGSTOP or SIGKILL for this process
 *
 * A message that waits for credit is one event, however often it is tried. A move is an event once the port has taken
 * some of it.
 */
#ifndef BATON_FAULT_FAULT_H
#define BATON_FAULT_FAULT_H

#include <stdbool.h>

#include "core/port.h"

struct faults;

/**
 * `bases`: my cache, by region; NULL: no thread may touch it, and no byte is changed. Without a text *out becomes NULL.
 * 0, BATON_ESETTING or BATON_ENOMEM. With `words` offers of this node are taken by words (core/handoff.h), as the port
 * offers it; else by messages.
 */
int faults_create(const char *text, uint32_t rank, const struct port *port, uint32_t num_ranks, char *const *bases,
                  bool words, struct faults **out);
void faults_destroy(struct faults *f);

/** The port for the core: it wraps the one above, which must outlive it. Its `progress` and `busy` do the two below. */
const struct port *faults_port(const struct faults *f);

/** Sends the delayed messages that are due, and applies the rules to n events. Returns how many of these are left. */
int faults_filter(struct faults *f, uint64_t now, struct port_event *events, int n);

/** Whether messages are held, so that the reactor must go on polling. */
bool faults_pending(const struct faults *f);

#endif
