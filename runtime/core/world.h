/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: what all ranks of a world of MPI do together, to start and to leave it. Each context is opened on one. A rank
 * is a peer (core/ground.h).
 *
 * THREAD. The thread that opens, starts or closes the context. Where caches come late, whoever makes turns calls
 * `meet`, `expose`, `doorbell` and `selftest`, and agrees between them. A call that other threads may make says so.
 * AGREED. A call that is marked so is collective: every rank makes it, and it returns the same on all. Errors are
 * agreed on as by `agree`. After a deadline (BATON_START_MS), or an error of MPI itself, the world is lost: then no
 * collective may follow, and memory that was handed over belongs to MPI for ever.
 */
#ifndef BATON_CORE_WORLD_H
#define BATON_CORE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/path.h"

struct textbuf;

/** My segment (core/ground.h): `meta_bytes` behind its first page, and `pool_bytes`. */
struct world_segment {
    uint64_t meta_bytes, pool_bytes;
    uint64_t memory_limit;                                     /* 0: not known */
    void (*bind_pages)(void *base, uint64_t bytes, void *arg); /* to a NUMA node, before the first touch; may be NULL */
    void *bind_arg;
};

struct world_calls {
    void *self;
    uint32_t node;      /* the number of my node, from 0, in the order of the nodes' lowest ranks */
    bool bears_threads; /* whether any thread may take part. Known once it was started */

    /* ---- steps. Collective ---- */

    /**
     * Every rank brings its local result and gets the worst of all, which is the lowest number, of the lowest rank that
     * has it. `step` names what is agreed on. Where the result is an error, error_set keeps on every rank the sentence
     * of the rank where it arose, with that rank's number. After the deadline: BATON_ETIMEDOUT, and rank 0 names the
     * silent ranks.
     */
    int (*agree)(void *self, const char *step, int local);
    /** The least of all ranks' `mine`, number by number. Agreed. */
    int (*least)(void *self, const char *step, const int mine[2], int least[2]);
    /** Gathers `row_bytes` bytes of each rank. `rows` has room for all ranks'. Agreed. */
    int (*exchange)(void *self, const void *row, uint32_t row_bytes, void *rows);
    /** Whether the world is lost. */
    bool (*is_lost)(const void *self);

    /* ---- start ---- */

    /**
     * Creates the segments, which the ground then has, and the net. Checks shared memory and the memory limit first, so
     * that too little is BATON_ESHM with the numbers, and no SIGBUS. The ranks agree before and after each step. A
     * watchdog reports a step that hangs past the deadline, and then leaves the process, since MPI cannot be
     * interrupted. Agreed.
     */
    int (*start)(void *self, const struct world_segment *wish);
    /**
     * Exposes memory that my engine owns to ranks of other nodes: `mine`, in the order of their addresses, has no
     * regions where Baton allocated my cache. What `mine` points to must outlive the world. Where no engine owns
     * memory, or there is one node, nobody need call it. Agreed.
     */
    int (*expose)(void *self, const struct path_regions *mine);
    /**
     * Where there are several nodes: opens the means by which their ranks wake each other, and tries it. A thread that
     * listens calls rung(arg) after rings, from now on; further rings wait until that returns. `cpus`: its hardware
     * threads (base/cpus.h). Whether it works is said by the net, and is no error. Agreed.
     */
    int (*doorbell)(void *self, void (*rung)(void *arg), void *arg, const char *cpus);
    /**
     * Tests what is promised of the net. It may use my pool or, where the engine may use that already, `bytes` of my
     * metadata from `offset` of my segment on, which are zero afterwards. Agreed.
     */
    int (*selftest)(void *self, uint64_t offset, uint64_t bytes);

    /* ---- caches that come late ---- */

    /** Before the first `meet`. Local: 0 or BATON_ENOMEM. */
    int (*meet_init)(void *self);
    /**
     * A barrier of all ranks that does not block: 0 once every rank is here, BATON_EAGAIN before. On all ranks:
     * BATON_ETIMEDOUT, not all came within BATON_WRAP_MS after the first; BATON_ECLOSED, one of them closes;
     * BATON_EPEER, the process of one on rank 0's node has ended.
     */
    int (*meet)(void *self, bool is_here);
    /** At rank 0: "missing: ", and the ranks that have not come. Elsewhere empty. Any thread, after meet_init. */
    void (*meet_missing)(const void *self, char *text, size_t size);
    /** This rank closes, as its error sentence says: ends the meeting for all, and returns how it ended. */
    int (*meet_close)(void *self, uint64_t until_ns);

    /* ---- leaving ---- */

    /**
     * A barrier of all ranks that does not block: 0 once every rank has called it, BATON_EAGAIN before. Call it again
     * until then, and the net's `progress` in between. With `late` it gives up: BATON_ETIMEDOUT, and rank 0 names those
     * that did not come. After any error but BATON_EAGAIN only leave_open may follow. For whoever makes turns.
     */
    int (*leave)(void *self, bool late);
    /** Ends the thread that listens, if there is one. False: rung(arg) has not returned within 2 s, and goes on. */
    bool (*silence)(void *self);
    /** Bounds each step of finalize and close by what is left of a deadline, but by a second at least. */
    void (*hurry)(void *self, uint64_t left_ms);
    /**
     * Where MPI_Finalize comes before close, it calls `hook`, on its thread and before it ends anything. After that
     * nothing of world and net may be used. NULL takes the hook back. Local.
     */
    int (*on_finalize)(void *self, void (*hook)(void *arg), void *arg);
    /**
     * For that hook, where MPI_Finalize is known to abort unless close came before. If a thread makes progress, nothing
     * helps, and the log says so. Else this ends what goes over nodes, together with the other ranks. Where one does
     * not come or cannot go on, the log says what follows. The segments stay anyway: the engine and the other ranks of
     * the node may still use their memory.
     */
    void (*finalize)(void *self);
    /**
     * Frees all that the three tables stand for, and finalises MPI where opening initialised it. Agreed: where a rank
     * cannot go on, or came with an error (`local`), all do as leave_open.
     */
    int (*close)(void *self, int local);
    /** Frees nothing, since MPI may still use it: `why` says the reason (a rank is lost, say). BATON_EPEER. Local. */
    int (*leave_open)(void *self, const char *why);

    /** Ranks, nodes and segments, in lines of text. Any thread. */
    void (*describe)(const void *self, struct textbuf *out);
};

#endif
