/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe: what tests ask a core that neither its events, its messages nor its public functions say. Of the tests that
 * ask so, this alone knows the core's private headers.
 */
#ifndef BATON_TESTS_WITH_PROBE_H
#define BATON_TESTS_WITH_PROBE_H

#include "core/core.h"
#include "core/early.h"
#include "wire/message.h"

/** Bytes of far paths that peers hold of which none came lately (core/budget.h). */
uint64_t probe_silent(const struct core *core);
/** All bytes of far paths that are in flight. */
uint64_t probe_held(const struct core *core);
/** Block tables and generations that are being read. */
uint32_t probe_reading(const struct core *core);
/** Operations of the port that have a tag, and those of them that are checks of hashes. */
uint32_t probe_ops(const struct core *core);
uint32_t probe_checks(const struct core *core);
/** Messages that wait for credits. */
uint32_t probe_waiting(const struct core *core);
/** Words of consumers that came too early and are kept: of one kind, of both, and of one rank. */
uint32_t probe_early_as(const struct core *core, enum early_kind kind);
uint32_t probe_early(const struct core *core);
uint32_t probe_early_of(const struct core *core, uint32_t rank);
/** How many requests are known, how many tombstones there are, and how many ranks' wants they remember. */
uint32_t probe_requests(const struct core *core);
uint32_t probe_tombstones(const struct core *core);
uint32_t probe_formers(const struct core *core);
/** Takes the number of its next message to that rank. */
uint32_t probe_number(const struct core *core, uint32_t rank);
/** Sends a message to that rank that the core itself would not send. */
void probe_send(struct core *core, uint32_t rank, struct wire_message *m);
/** Whether that rank reads the offer that came last. */
bool probe_reads(const struct core *core, uint32_t rank);
/** The rank that the only leg of the only want asks. */
uint32_t probe_asked(const struct core *core);
/** The core looks at one thing in each piece of its work, and rests for so long in between. */
void probe_work_slowly(struct core *core, uint64_t pause_ns);

#endif
