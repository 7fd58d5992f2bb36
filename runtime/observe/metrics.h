/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics: what one rank counts about itself for readers in other processes: its statistics, and histograms by path and
 * by peer engine. Of fixed size: the first METRICS_PEERS engines that this rank has to do with have a row each, all
 * others share one. metrics_page.h shows it to other processes.
 *
 * It belongs to whoever makes the turns of the reactor. Counting neither waits nor allocates.
 */
#ifndef BATON_OBSERVE_METRICS_H
#define BATON_OBSERVE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "baton.h"
#include "observe/histogram.h"

#define METRICS_PATHS 5 /* by baton_path_t; what belongs to none, or to one that is not known here, counts as none */
#define METRICS_PEERS 16
#define METRICS_OTHERS "(others)" /* the engine of the row that all further ones share: no engine has such a name */

/*
 * X(field of baton_stats_t, TYPE, family, labels, what it is). Rows of one family stand together, and the first one
 * says what the family is. OpenMetrics names a family by "baton_" and this name.
 */
#define METRICS_STATS_MAP(X)                                                                                           \
    X(offers, COUNTER, "offers_accepted", "", "Offers that were accepted.")                                            \
    X(offers_done, COUNTER, "offers", "status=\"done\"", "Offers that ended.")                                         \
    X(offers_failed, COUNTER, "offers", "status=\"failed\"", "")                                                       \
    X(offers_expired, COUNTER, "offers", "status=\"expired\"", "")                                                     \
    X(offers_cancelled, COUNTER, "offers", "status=\"cancelled\"", "")                                                 \
    X(wants, COUNTER, "wants_accepted", "", "Wants that were accepted.")                                               \
    X(wants_done, COUNTER, "wants", "status=\"done\"", "Wants that ended.")                                            \
    X(wants_failed, COUNTER, "wants", "status=\"failed\"", "")                                                         \
    X(wants_expired, COUNTER, "wants", "status=\"expired\"", "")                                                       \
    X(wants_cancelled, COUNTER, "wants", "status=\"cancelled\"", "")                                                   \
    X(gets, COUNTER, "rma_runs", "call=\"get\"", "Contiguous runs moved by one-sided operations of MPI.")              \
    X(puts, COUNTER, "rma_runs", "call=\"put\"", "")                                                                   \
    X(handshakes, COUNTER, "handshakes", "", "Handshakes with engines that were completed.")                           \
    X(handshake_ns_sum, SECONDS, "handshakes_seconds", "", "Time that completed handshakes took, in all.")             \
    X(handshake_ns_max, SECONDS_GAUGE, "handshake_longest_seconds", "", "The longest completed handshake.")            \
    X(handshake_retries, COUNTER, "handshake_retries", "", "Rounds of reading cards that were repeated.")              \
    X(messages_sent, COUNTER, "messages", "direction=\"sent\"", "Control messages.")                                   \
    X(messages_received, COUNTER, "messages", "direction=\"received\"", "")                                            \
    X(messages_bad, COUNTER, "messages_refused", "why=\"bad\"", "Control messages that were not understood.")          \
    X(messages_unknown, COUNTER, "messages_refused", "why=\"unknown\"", "")                                            \
    X(retries, COUNTER, "leg_retries", "", "Times that a part of a want turned to another rank that holds the same.")  \
    X(peers_lost, COUNTER, "peers_lost", "", "Times that a peer fell silent or died.")                                 \
    X(peers_returned, COUNTER, "peers_returned", "", "Times that a lost peer came back.")                              \
    X(leases_extended, COUNTER, "leases_extended", "", "Times that an offer outlived its time for a want.")            \
    X(verdicts, COUNTER, "verdicts", "outcome=\"told\"", "Outcomes of whole engines.")                                 \
    X(verdicts_lost, COUNTER, "verdicts", "outcome=\"lost\"", "")                                                      \
    X(ends_unanswered, COUNTER, "ends_unanswered", "", "Ends of wants that a producer never acknowledged.")            \
    X(stale, COUNTER, "stale_reads", "", "Reads whose lease had ended meanwhile.")                                     \
    X(flushes, COUNTER, "rma_flushes", "", "Flushes of MPI.")                                                          \
    X(settled, COUNTER, "rma_settled", "", "Operations of MPI whose end only a flush brought.")                        \
    X(poisoned, COUNTER, "rma_poisoned", "", "Peers given up after an error of MPI.")                                  \
    X(again, COUNTER, "calls_refused", "", "Calls refused with BATON_EAGAIN.")                                         \
    X(turns, COUNTER, "reactor_turns", "", "Turns of the reactor.")                                                    \
    X(sleeps, COUNTER, "reactor_sleeps", "", "Sleeps of the reactor.")                                                 \
    X(given_up, COUNTER, "calls_given_up", "", "Calls that were given up while their blocks were not quiet.")          \
    X(quarantined, GAUGE, "calls_quarantined", "", "Calls that were given up and are not quiet yet.")                  \
    X(leases_live, GAUGE, "offers_live", "", "Offers that are alive.")                                                 \
    X(wants_live, GAUGE, "wants_live", "", "Wants that are open.")                                                     \
    X(legs_live, GAUGE, "legs_live", "", "Parts of wants that are open, one a producer rank.")                         \
    X(pushes_live, GAUGE, "pushes_live", "", "Pushes under way.")                                                      \
    X(reads_parked, GAUGE, "reads_parked", "", "Operations with silent peers that are kept aside.")

enum metrics_stat {
#define METRICS_STAT(field, type, family, labels, help) METRICS_##field,
    METRICS_STATS_MAP(METRICS_STAT)
#undef METRICS_STAT
        METRICS_STATS
};

enum { METRICS_IN, METRICS_OUT, METRICS_DIRECTIONS }; /* to this rank, or from it */

/** Counts of one path, with all peers. */
struct metrics_path {
    struct histogram want_ns;        /* wants that were done: from the call to the event; by the path of most bytes */
    struct histogram transfer_ns;    /* from the grant to the last byte, of one pair of ranks, either direction */
    struct histogram transfer_bytes; /* of those */
};

/** Counts of one peer engine, with all its ranks. */
struct metrics_peer {
    char engine[BATON_ENGINE_NAME_MAX];
    uint64_t bytes[METRICS_PATHS][METRICS_DIRECTIONS], transfers[METRICS_PATHS][METRICS_DIRECTIONS];
    uint64_t failures[BATON_REASONS]; /* calls that ended with a rank of it as the event's peer, by -error */
    struct histogram transfer_ns;
};

/** All of it, as other processes read it: words of 64 bits. */
struct metrics_body {
    uint64_t rank, ranks, pid;
    char engine[BATON_ENGINE_NAME_MAX], host[64], version[32];
    uint64_t began_ns, renewed_ns; /* by the real-time clock */
    uint64_t is_closed;            /* these are the last ones */
    uint64_t index, life;          /* of the rank in its engine; of this start of the engine */
    uint64_t stats[METRICS_STATS];
    uint64_t stalls;                  /* turns that were inside MPI for stall_ms */
    uint64_t received[METRICS_PATHS]; /* bytes of wants that were done */
    uint64_t peers[METRICS_PATHS];    /* ranks of the world */
    uint64_t reasons[BATON_REASONS];  /* ends by reason: [-error] */
    uint64_t num_peers;               /* rows in use */
    struct metrics_path path[METRICS_PATHS];
    struct metrics_peer peer[METRICS_PEERS + 1];
};

struct metrics;

/** Rows of engines with numbers below num_engines are found at once. NULL: no memory. */
struct metrics *metrics_create(uint32_t num_engines);
void metrics_destroy(struct metrics *m);

/** The name and the state of this rank. Whoever has the metrics writes these fields. */
struct metrics_body *metrics_body(struct metrics *m);

/**
 * An engine, whose name labels counts: all that have the same name, one after another, have one row. No two that are
 * there at once have one number; an engine that comes later may have it again, with another life.
 */
struct metrics_engine {
    uint32_t number;
    const char *name;
    uint64_t life;
};

/** One transfer between this rank and one of that engine is complete; `out`: a push of mine. m may be NULL here. */
void metrics_transfer(struct metrics *m, struct metrics_engine peer, baton_path_t path, bool out, uint64_t bytes,
                      uint64_t ns);
/** A want was done. Likewise. */
void metrics_want(struct metrics *m, const uint64_t path_bytes[BATON_PATHS], uint64_t ns);
/** A call failed at a rank of that engine. Likewise. */
void metrics_failure(struct metrics *m, struct metrics_engine peer, int error);

/** Copies the statistics. */
void metrics_set_stats(struct metrics *m, const baton_stats_t *stats);

/**
 * Which of the body's parts have changed since the last call: bit i: path[i], bit METRICS_PATHS + i: peer[i]. What lies
 * before them always counts as changed. The first time all have.
 */
uint32_t metrics_take_changes(struct metrics *m);

#endif
