/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric: all that one context has of MPI, behind one handle: the world (communicators, nodes, agreement), the windows
 * (each rank's segment), the exchange of the directory, control messages, and the rma path. README.md of this folder
 * says which file does what.
 *
 * fabric_open, fabric_start, fabric_exchange, fabric_selftest and fabric_close are collective, and called by the thread
 * that opens. All else is for the thread that makes a turn: the reactor, that of the doorbell, or the caller's.
 *
 * SEGMENT. Each rank has one: a first page with its bell, then metadata that the caller lays out (board, table arena,
 * card), then its pool. Segments are aligned to 2 MiB and populated by their owners. Offsets count from the aligned
 * beginning. Ranks of a node map each other's segments; a window over all ranks exposes them to other nodes
 * (windows.h).
 */
#ifndef BATON_MPI_FABRIC_H
#define BATON_MPI_FABRIC_H

#include "baton.h"

#include "base/bell.h"
#include "base/settings.h"
#include "core/port.h"
#include "observe/log.h"

struct fabric;
struct page;

/**
 * Duplicates the communicator, finds out the thread level and who shares a node (BATON_FAKE_NODES splits a host's
 * ranks, in order, into so many parts), and agrees that all ranks came here. MPI_COMM_NULL stands for MPI_COMM_WORLD;
 * MPI is initialised where it is not. BATON_PROGRESS_AUTO is resolved by the thread level. `local` is an error that
 * this rank found before (with its sentence set), or 0. Errors are agreed on, `local` too: every rank returns the same,
 * and error_set has the sentence, which names the rank where it arose.
 */
int fabric_open(MPI_Comm comm, const struct settings *settings, baton_progress_mode_t mode, struct logger *log,
                int local, struct fabric **out);

/**
 * The communicator of a Fortran handle; BATON_COMM_NULL_F: MPI_COMM_NULL. 0, BATON_EINVAL, or BATON_ESTATE without MPI.
 */
int fabric_comm(int handle, MPI_Comm *out);

uint32_t fabric_rank(const struct fabric *f);
uint32_t fabric_size(const struct fabric *f);
/** The number of a rank's node: 0 .. fabric_nodes - 1, in the order of the nodes' lowest ranks. */
uint32_t fabric_node(const struct fabric *f, uint32_t rank);
/** How many of the ranks [0, end) are of that rank's node. */
uint32_t fabric_neighbours(const struct fabric *f, uint32_t rank, uint32_t end);
uint32_t fabric_nodes(const struct fabric *f);
/** BATON_PROGRESS_THREAD or _CALLER. */
baton_progress_mode_t fabric_mode(const struct fabric *f);

/**
 * Agreement, collective: every rank brings its local result and gets the worst of all, which is the lowest number, of
 * the lowest rank that has it. `step` names what is agreed on. Where the result is an error, error_set keeps on every
 * rank the sentence of the rank where it arose, with that rank's number. After the deadline: BATON_ETIMEDOUT, and rank
 * 0 names the silent ranks.
 */
int fabric_agree(struct fabric *f, const char *step, int local);

/** Whether an agreement or another collective step has failed, so that no collective may follow. */
bool fabric_is_lost(const struct fabric *f);
/** Whether any thread may call MPI. */
bool fabric_bears_threads(const struct fabric *f);

/** The least of all ranks' `mine`, number by number. Collective, agreed. */
int fabric_least(struct fabric *f, const char *step, const int mine[2], int least[2]);

/**
 * A barrier of all ranks that does not block, for caches that come late: 0 once every rank is here, BATON_EAGAIN
 * before. On all ranks: BATON_ETIMEDOUT, not all came within BATON_WRAP_MS after the first; BATON_ECLOSED, one of them
 * closes; BATON_EPEER, the process of one on rank 0's node has ended (meeting.h).
 */
int fabric_meet(struct fabric *f, bool is_here);
/** At rank 0: "missing: ", and the ranks that have not come. Elsewhere empty. Any thread, after fabric_meet_init. */
void fabric_meet_missing(const struct fabric *f, char *text, size_t size);
/** This rank closes, as its error sentence says: ends the meeting for all, and returns how it ended (meeting.h). */
int fabric_meet_close(struct fabric *f, uint64_t until_ns);
/** Before the first fabric_meet. Local: 0 or BATON_ENOMEM. */
int fabric_meet_init(struct fabric *f);

/**
 * Creates the segments: of this rank, meta_bytes behind the first page, and pool_bytes. `bind_pages` binds them to a
 * NUMA node before their first touch; it may be NULL. Checks shared memory and the memory limit first, so that too
 * little is BATON_ESHM with the numbers, and no SIGBUS. The ranks agree before and after each collective step. A
 * watchdog reports a step that hangs past the deadline, and then leaves the process, since MPI cannot be interrupted.
 */
int fabric_start(struct fabric *f, uint64_t meta_bytes, uint64_t pool_bytes, uint64_t memory_limit,
                 void (*bind_pages)(void *base, uint64_t bytes, void *arg), void *bind_arg);

#define FABRIC_META_OFFSET 4096u /* where the caller's metadata begins in a segment */

/** My segment's first byte. Metadata at FABRIC_META_OFFSET, pool at fabric_pool_offset (2 MiB aligned). */
uint8_t *fabric_segment(const struct fabric *f);
uint64_t fabric_pool_offset(const struct fabric *f);
/** A peer's segment as it is mapped here; NULL: it is on another node. Its length goes to *bytes, which may be NULL. */
uint8_t *fabric_mapped(const struct fabric *f, uint32_t peer, uint64_t *bytes);
/** The process id of a rank of this node that shares this process's id namespace, else 0. */
int fabric_process(const struct fabric *f, uint32_t peer);
/**
 * My bell: ranks of this node ring it for messages that they sent (by lanes, at the end of that turn), and so do this
 * process's threads and copy workers.
 */
struct bell *fabric_bell(const struct fabric *f);

/** MPI_Iallgather of `row_bytes` bytes a rank, with the deadline of start. `rows` has room for all ranks'. Agreed. */
int fabric_exchange(struct fabric *f, const void *row, uint32_t row_bytes, void *rows);

/**
 * Where there are several nodes: opens the means by which their ranks wake each other, and tries it. A thread that
 * listens calls rung(arg) after rings, from now on (doorbell_rung_fn in doorbell.h). `cpus`: its hardware threads
 * (base/cpus.h). Whether it works is said by fabric_is_rung and fabric_describe, and is no error. Collective, agreed.
 */
int fabric_doorbell(struct fabric *f, void (*rung)(void *arg), void *arg, const char *cpus);
/** Ends the thread that listens, if there is one. False: rung(arg) has not returned within 2 s, and goes on. */
bool fabric_silence(struct fabric *f);
/** Whether ranks of other nodes ring my bell too. */
bool fabric_is_rung(const struct fabric *f);
/** How often they did, and this rank rang them: after either, something from another node is to be expected. */
uint32_t fabric_rings(const struct fabric *f);
/** At the end of a turn: rings those to whom something went in it. */
void fabric_ring(struct fabric *f);

/**
 * Exposes memory that my engine owns to ranks of other nodes: `mine`, in the order of their addresses, has no regions
 * where Baton allocated my cache. What `mine` points to must outlive the fabric. Where no engine owns memory, or there
 * is one node, nobody need call it. Collective, agreed.
 */
int fabric_expose(struct fabric *f, const struct path_regions *mine);
/** Whether memory that engines own can be reached from other nodes. */
bool fabric_exposes(const struct fabric *f);

/** Bytes of my metadata that the self-test may use where it cannot use my pool: they are zero afterwards. Local. */
void fabric_spare(struct fabric *f, uint64_t offset, uint64_t bytes);

/** Tests what the quirks table promises of the rma path (see selftest.h). Collective, agreed. */
int fabric_selftest(struct fabric *f);

/* ---- the reactor's ---- */

/** One control message of at most WIRE_MESSAGE_MAX bytes, copied. 0, BATON_EAGAIN (no place or credit), BATON_EPEER. */
int fabric_send(struct fabric *f, uint32_t peer, const void *message, uint32_t bytes);

/**
 * Reads a piece of a peer's segment, by MPI_Rget. PORT_READ follows. BATON_EMESSAGE: it lies outside of the segment.
 * BATON_EINVAL: all ranks are on this node, so there is no window to read through.
 */
int fabric_read(struct fabric *f, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag);
/** The same for one 64-bit word, into a word preset to 0. MPI_Win_sync and a full fence, then PORT_BOARD follow. */
int fabric_read_word(struct fabric *f, uint32_t peer, uint64_t offset, uint64_t tag);
/** path.move over rma. Region 0 is my pool. */
int64_t fabric_move(struct fabric *f, const struct path_leg *leg, uint64_t budget);
/**
 * path.settle over rma: at once where a put's request implies remote completion, else by a flush of a peer that
 * answers.
 */
int fabric_settle(struct fabric *f, uint32_t peer, uint64_t tag);
/** path.park over rma. */
enum path_park fabric_park(struct fabric *f, uint32_t peer, uint64_t tag);
/**
 * Whether the transport itself said that the connection to this rank of another node has ended: one of our one-sided
 * requests to it completed in error. A call that was refused does not count. Ask it only of a rank that is dead for
 * certain: in each park_ms it may send a probe, for the next time that it is asked. It stays false where a
 * refused call poisoned the peer, and over osc/rdma, where an operation on a dead process may never return.
 */
bool fabric_ended(struct fabric *f, uint32_t peer);
/** After a store into my segment: MPI_Win_sync on its windows and a full fence, so that MPI reads what was stored. */
void fabric_sync(struct fabric *f);

/** Bytes of data in flight and requests open, parked ones apart. 0: the reactor need not keep polling. */
uint64_t fabric_busy(const struct fabric *f);

/** What the fabric counts by itself. Any thread. */
struct fabric_counts {
    uint64_t messages_bad; /* refused before the core saw them */
    uint64_t flushes, settled, poisoned;
    uint32_t parked;
};
struct fabric_counts fabric_counts(const struct fabric *f);

/**
 * Tests sends, receives and requests. Never blocks. Fills in up to `max` events and returns their number; what their
 * data points to stays until the next call. One-sided operations go on after the control channel has failed.
 */
int fabric_progress(struct fabric *f, struct port_event *events, int max);

/** See path.h. */
void fabric_look(struct fabric *f);
bool fabric_has_looked(const struct fabric *f);

/** The table of core/path.h, for every rank: calls those above. */
void fabric_path(struct fabric *f, struct path *out);

/** Whether the control channel, or the testing of one-sided requests, has failed for good. Logged when it happened. */
bool fabric_failed(const struct fabric *f);

/**
 * A barrier of all ranks that does not block: 0 once every rank has called it, BATON_EAGAIN before. Call it again until
 * then, and fabric_progress in between. With `late` it gives up: BATON_ETIMEDOUT, and rank 0 names those that did not
 * come. After any error but BATON_EAGAIN only fabric_leave_open may follow.
 */
int fabric_leave(struct fabric *f, bool late);

/**
 * Where MPI_Finalize comes before fabric_close, it calls `hook`, on its thread and before it ends anything. After that
 * nothing of the fabric may be used. NULL takes the hook back. Local.
 */
int fabric_on_finalize(struct fabric *f, void (*hook)(void *arg), void *arg);

/**
 * For that hook, where the quirks table says that MPI_Finalize aborts unless the fabric is closed. If a thread makes
 * progress, nothing helps, and the log says so. Else this waits for my one-sided operations and frees the window over
 * nodes. That is collective. Where a rank does not come or cannot go on, the window stays, and the log says what
 * follows. The shared window stays anyway: the engine and the other ranks of the node may still use its memory.
 */
void fabric_finalize(struct fabric *f);

/**
 * Bounds each collective step of fabric_finalize and fabric_close by what is left of a deadline, but by a second at
 * least.
 */
void fabric_hurry(struct fabric *f, uint64_t left_ms);

/**
 * Frees the windows and communicators, and finalises MPI where fabric_open initialised it. Collective. Where a rank
 * cannot go on, or came with an error (`local`, see fabric_agree), all do as fabric_leave_open.
 */
int fabric_close(struct fabric *f, int local);
/** Frees nothing, since MPI may still use it: `why` says the reason (a rank is lost, say). BATON_EPEER. */
int fabric_leave_open(struct fabric *f, const char *why);
/** In a forked child: closes its copies of the descriptors. Calls no MPI, and touches nothing else. */
void fabric_forget(struct fabric *f);

/** Windows, components, quirks and node in lines of text. Any thread. */
void fabric_describe(const struct fabric *f, struct page *page);

#endif
