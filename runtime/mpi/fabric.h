/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric: all that one context has of MPI, behind one handle: the world (own duplicate, nodes, agreement), the windows
 * (each rank's segment, shared on its node and exposed to the world), the directory exchange, control messages, and
 * the rma path. Files: world.c, watchdog.c, windows.c, control.c, rma.c, quirks.c, selftest.c; fabric.c ties them.
 *
 * fabric_open, fabric_start, fabric_exchange and fabric_close are collective and called by the thread that opens; all
 * else is the reactor's (or, in caller mode, the caller's).
 *
 * SEGMENT. Each rank has one: its metadata (a page with the doorbell, then what the caller lays out: board, table
 * arena, card) and behind it its pool. All of a node lie in one MPI_Win_allocate_shared window (noncontiguous; each
 * part aligned by hand to 2 MiB, populated by its owner); with more than one node, one MPI_Win_create over the same
 * bytes exposes them to the world. Offsets are from the aligned beginning. Two windows over the same bytes rely on the
 * unified memory model and on disjoint writers: only the owner stores into its segment.
 */
#ifndef BATON_MPI_FABRIC_H
#define BATON_MPI_FABRIC_H

#include "baton.h"

#include "base/bell.h"
#include "base/settings.h"
#include "core/port.h"
#include "observe/log.h"

struct fabric;

/**
 * Own duplicate, thread level, node communicators (BATON_FAKE_NODES splits a host's ranks, in order, into k parts),
 * agreement that all ranks came here. MPI_COMM_NULL: MPI_COMM_WORLD, MPI initialised where it is not. `mode` AUTO is
 * resolved by the level that MPI gives. Errors are agreed: every rank returns the same (error_set has the sentence,
 * naming the rank where it arose). `local` is what this rank found wrong before (with its sentence set), or 0: it is
 * agreed on like the rest.
 */
int fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                struct fabric **out, int local);

uint32_t fabric_rank(const struct fabric *f);
uint32_t fabric_size(const struct fabric *f);
/** Number of the node of a rank: 0 .. fabric_nodes - 1, in order of their lowest rank. */
uint32_t fabric_node(const struct fabric *f, uint32_t rank);
uint32_t fabric_nodes(const struct fabric *f);
/** BATON_PROGRESS_THREAD or _CALLER. */
baton_progress_mode_t fabric_mode(const struct fabric *f);

/**
 * Agreement: collective; every rank brings its local result and gets the worst (the lowest number; the lowest rank of
 * those). `step` names what is agreed on. Where it is an error, error_set keeps on every rank the sentence of the rank
 * where it arose, with that rank's number. After the deadline: BATON_ETIMEDOUT, and rank 0 names the silent ranks.
 */
int fabric_agree(struct fabric *f, const char *step, int local);

/**
 * Creates the segments: meta_bytes (behind the doorbell's page) and pool_bytes of this rank, bound to NUMA node by
 * `bind(base, bytes)` before the first touch where not NULL. Checks shared memory and the memory limit first, so that
 * too little is BATON_ESHM with the numbers and no SIGBUS. Agrees before and after each collective step. A watchdog
 * reports a step that hangs past the deadline and then leaves the process, since MPI cannot be interrupted.
 */
int fabric_start(struct fabric *f, uint64_t meta_bytes, uint64_t pool_bytes, uint64_t memory_limit,
                 void (*bind)(void *base, uint64_t bytes, void *arg), void *bind_arg);

#define FABRIC_META_OFFSET 4096u /* where the caller's metadata begins in a segment */

/** My segment's first byte. Metadata at FABRIC_META_OFFSET, pool at fabric_pool_offset (2 MiB aligned). */
uint8_t *fabric_segment(const struct fabric *f);
uint64_t fabric_pool_offset(const struct fabric *f);
/** A peer's segment as mapped here, or NULL on another node. Its length goes to *bytes where not NULL. */
uint8_t *fabric_mapped(const struct fabric *f, uint32_t peer, uint64_t *bytes);
/** The length of a peer's segment on any node: reads past it are refused (BATON_EMESSAGE). */
uint64_t fabric_segment_bytes(const struct fabric *f, uint32_t peer);
/** The process id of a rank of this node that shares this process' id namespace, else 0. */
int fabric_process(const struct fabric *f, uint32_t peer);
/** My doorbell: rung by ranks of this node after a message, by this process' threads, by copy workers. */
struct bell *fabric_bell(const struct fabric *f);

/** MPI_Iallgather of `row_bytes` bytes a rank, with the start deadline. rows has size * row_bytes. Agreed. */
int fabric_exchange(struct fabric *f, const void *row, uint32_t row_bytes, void *rows);

/** Runs the self-test that settles the quirks of the rma path (collective, agreed; nothing to do on one node). */
int fabric_selftest(struct fabric *f);

/** The peer's control messages carry hashes, and those to it shall. Before the first message with it; no call: none do. */
void fabric_hash(struct fabric *f, uint32_t peer);

/* ---- the reactor's ---- */

/** One control message (at most WIRE_MESSAGE_MAX bytes), copied. 0, BATON_EAGAIN (send slots or credits), BATON_EPEER. */
int fabric_send(struct fabric *f, uint32_t peer, const void *message, uint32_t bytes);

/** Gets a piece of a peer's segment by MPI_Rget (a mapped peer's by load); PORT_READ follows. */
int fabric_read(struct fabric *f, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);
/** The same for one 64-bit word into a landing word preset to 0, then MPI_Win_sync and a fence; PORT_BOARD follows. */
int fabric_read_word(struct fabric *f, uint32_t peer, uint64_t offset, uint64_t tag);
/** port.move over rma: local addresses are region 0 = my pool. */
int64_t fabric_move(struct fabric *f, const struct port_leg *leg, uint64_t budget);
/** port.settle over rma: at once where a put's request is remote completion, else by a flush to a peer that answers. */
int fabric_settle(struct fabric *f, uint32_t peer, uint64_t tag);
enum port_park fabric_park(struct fabric *f, uint32_t peer, uint64_t tag);
/**
 * Whether the transport itself said that the connection to this rank has ended: one of our one-sided requests to it
 * completed in error (a call that was refused does not count). Of peers of other nodes. Ask it only of a rank that is dead
 * for certain: each BATON_PARK_MS it may send a probe, for the next time it is asked. It stays false where the peer was
 * poisoned by a refused call, and over osc/rdma, which a dead process may hold for ever.
 */
bool fabric_ended(struct fabric *f, uint32_t peer);
/** MPI_Win_sync on the windows of my segment and a full fence, after a store into it. */
void fabric_sync(struct fabric *f);

/** Bytes of data in flight, requests open (parked ones apart): whether the reactor must keep polling. */
uint64_t fabric_busy(const struct fabric *f);

/** What the fabric counts by itself. */
struct fabric_counts {
    uint64_t messages_bad; /* refused before the core saw them */
    uint64_t flushes, settled, poisoned;
    uint32_t parked;
};
struct fabric_counts fabric_counts(const struct fabric *f);

/**
 * Tests sends, receives and requests; never blocks. Fills up to `max` events; what their data points to stays until the
 * next call. Returns their number. A failed control channel holds up nothing that moves one-sided.
 */
int fabric_progress(struct fabric *f, struct port_event *events, int max);

/** Whether the control channel, or the testing of one-sided requests, failed as a whole: logged when it did. */
bool fabric_failed(const struct fabric *f);

/**
 * A barrier of all ranks that does not block: 0 when every rank has called it, BATON_EAGAIN before. Call it until then,
 * making progress between. With `late` it gives up: BATON_ETIMEDOUT, and rank 0 names those that did not come. After any
 * other error than BATON_EAGAIN only fabric_leave_open may follow.
 */
int fabric_leave(struct fabric *f, bool late);

/**
 * `hook` is called by MPI_Finalize, on its thread and before it ends anything, where it comes before fabric_close: after it
 * nothing of the fabric may be used. NULL takes it back. Local.
 */
int fabric_on_finalize(struct fabric *f, void (*hook)(void *arg), void *arg);

/** Bounds each collective step from now on, those of fabric_close: what is left of a deadline, but a second at least. */
void fabric_hurry(struct fabric *f, uint64_t left_ms);

/** Frees windows (overlay, then shared) and communicators, finalises MPI where fabric_open initialised it. Collective. */
int fabric_close(struct fabric *f);
/** Where that cannot be done (`why`: a rank is lost, the reactor could not be stopped): frees nothing. BATON_EPEER. */
int fabric_leave_open(struct fabric *f, const char *why);

/** What was built: windows, components, quirks, node, in lines of text; as snprintf. Any thread. */
int fabric_describe(const struct fabric *f, char *text, size_t size);

#endif
