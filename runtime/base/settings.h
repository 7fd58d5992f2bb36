/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings: every BATON_ variable of the environment that the runtime reads, in one table: name, default, bounds and
 * meaning. Read once, by baton_open; baton-info prints the table.
 */
#ifndef BATON_BASE_SETTINGS_H
#define BATON_BASE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* X(field, variable, default, least, most, meaning) */

/* What an engine may need to change. */
#define SETTINGS_MAP_OF_ENGINES(X)                                                                                     \
    X(start_ms, "BATON_START_MS", 60000, 100, 86400000, "deadline of each collective step of start, ms")               \
    X(wrap_ms, "BATON_WRAP_MS", 600000, 100, 86400000, "how long caches may come later than the first one, ms")        \
    X(requests, "BATON_REQUESTS", 4096, 1, 1048576, "offers and wants accepted and not yet polled, each rank")         \
    X(leases, "BATON_LEASES", 4096, 1, 65536, "lease slots: offers alive at one time, each rank")                      \
    X(table_bytes, "BATON_TABLE_BYTES", 8388608, 65536, 1073741824, "block tables of live offers, bytes, each rank")   \
    X(grant_blocks, "BATON_GRANT_BLOCKS", 400, 0, 400,                                                                 \
      "block tables of at most so many entries travel in the grant, and need not be read (0: none)")                   \
    X(huge_pages, "BATON_HUGE_PAGES", 1, 0, 1, "1: huge pages for Baton's own memory, where Linux gives them")         \
    X(waiting, "BATON_WAITING", 16384, 1, 1048576, "wants of peers that came before their offer and are kept")         \
    X(tombstones, "BATON_TOMBSTONES", 4096, 1, 1048576, "ended keys remembered; the oldest go first")                  \
    X(tombstone_ms, "BATON_TOMBSTONE_MS", 60000, 1, 86400000, "how long an ended key is remembered, ms")               \
    X(close_ms, "BATON_CLOSE_MS", 60000, 1, 86400000, "how long closing waits for its peers, ms")                      \
    X(ttl_ms, "BATON_TTL_MS", 120000, 1, 86400000,                                                                     \
      "an offer's time to live where the call names none; how long a want's end is repeated, ms")                      \
    X(want_ms, "BATON_WANT_MS", 60000, 1, 86400000, "a want's deadline where the call names none, ms")                 \
    X(handshake_ms, "BATON_HANDSHAKE_MS", 3000, 1, 86400000, "deadline of one round of reading a peer's card, ms")     \
    X(backoff_ms, "BATON_BACKOFF_MS", 50, 1, 60000, "first pause before a retry; doubles up to 40 times it, ms")       \
    X(resend_ms, "BATON_RESEND_MS", 500, 1, 60000, "first pause before an unanswered WANT is sent again, ms")          \
    X(beat_ms, "BATON_BEAT_MS", 500, 1, 60000, "pause between heartbeats to a peer that open calls need, ms")          \
    X(peer_ms, "BATON_PEER_MS", 5000, 10, 86400000, "a peer of another node that is silent this long is lost, ms")     \
    X(verdict_ms, "BATON_VERDICT_MS", 60000, 2, 86400000, "how long an engine waits for all ranks' ends, ms")          \
    X(stall_ms, "BATON_STALL_MS", 20000, 10, 86400000, "a turn of the reactor this long means that MPI is stuck, ms")  \
    X(quiet_ms, "BATON_QUIET_MS", 1000, 1, 86400000,                                                                   \
      "a call that is not known to be quiet this long after its deadline is given up, ms")                             \
    X(checksum, "BATON_CHECKSUM", 0, 0, 1, "1: a want is done only if every block's hash is its producer's")           \
    X(paranoid, "BATON_PARANOID", 0, 0, 1, "1: a want into blocks of another open want is refused")                    \
    X(chunk_bytes, "BATON_CHUNK_BYTES", 1048576, 4096, 1073741824, "bytes a leg moves before the next has its turn")   \
    X(rma_bytes, "BATON_RMA_BYTES", 2097152, 8192, 1099511627776,                                                      \
      "bytes in flight with peers of other nodes, each rank; one peer alone gets half")                                \
    X(copy_bytes, "BATON_COPY_BYTES", 8388608, 8192, 1099511627776,                                                    \
      "bytes queued for each copy worker; one peer alone gets half")                                                   \
    X(inline_bytes, "BATON_INLINE_BYTES", 262144, 0, 1048576,                                                          \
      "copies of at most so many bytes are made by the reactor, not by a copy worker (0: none)")                       \
    X(handoff, "BATON_HANDOFF", 1, 0, 2,                                                                               \
      "ranks of a node meet 0: by MPI, 1: in shared memory, unless faults are injected, 2: also then")                 \
    X(rma_requests, "BATON_RMA_REQUESTS", 64, 1, 128, "MPI requests of data outstanding, each rank")                   \
    X(rma_peer_requests, "BATON_RMA_PEER_REQUESTS", 16, 1, 128, "MPI requests of data outstanding to one peer")        \
    X(rma_run_bytes, "BATON_RMA_RUN_BYTES", 262144, 4096, 1073741824, "longest run that one MPI_Rget moves")           \
    X(rma_gets, "BATON_RMA_GETS_PER_REQUEST", 0, 0, 64, "gets that one request completes (0: by the quirks table)")    \
    X(rma_put, "BATON_RMA_PUT", 0, 0, 2,                                                                               \
      "the completion of an MPI_Rput is 1: remote, 2: local (0: by the quirks table)")                                 \
    X(rma_sieve_bytes, "BATON_RMA_SIEVE_BYTES", 10485760, 0, 1073741824,                                               \
      "memory for short runs that are moved together, bytes (0: none)")                                                \
    X(park_ms, "BATON_PARK_MS", 200, 1, 60000,                                                                         \
      "a request open this long, and 4 times as long as usual, is tested rarely, ms")                                  \
    X(parked, "BATON_PARKED", 256, 1, 65536, "requests of silent peers that are kept aside")                           \
    X(copy_workers, "BATON_COPY_WORKERS", 1, 1, 64, "threads that copy from the peers' shared memory")                 \
    X(stage_bytes, "BATON_STAGE_BYTES", 4194304, 1048576, 1073741824,                                                  \
      "buffers for bytes that are staged, each rank, where a rank owns its memory")                                    \
    X(spin_us, "BATON_SPIN_US", 20, 0, 1000000, "how long an idle reactor spins before it sleeps, us; it yields")      \
    X(idle_us, "BATON_IDLE_US", 2000, 1, 1000000, "longest sleep where peers have to be polled for, us")               \
    X(sleep_us, "BATON_SLEEP_US", 100000, 1, 1000000, "longest sleep where every peer can wake this one, us")          \
    X(doorbell, "BATON_DOORBELL", 1, 0, 1, "1: ranks of other nodes wake this one, by UDP, where that works")          \
    X(slice_us, "BATON_SLICE_US", 100, 0, 100000, "time slice asked of the scheduler for the reactor (0: none), us")   \
    X(nice, "BATON_NICE", 10, 0, 20, "how much the reactor's priority is raised where permitted (nice steps)")         \
    X(stats_ms, "BATON_STATS_MS", 20, 1, 60000, "how often the gauges are brought up to date, ms")                     \
    X(trace_bytes, "BATON_TRACE_BYTES", 268435456, 65536, 1099511627776, "longest file of BATON_TRACE, bytes")         \
    X(log_level, "BATON_LOG", 2, 0, 4, "what is logged: 0 nothing, 1 errors, 2 warnings, 3 information, 4 all")

/* What tests set, and who tries things out on one machine. */
#define SETTINGS_MAP_OF_TESTS(X)                                                                                       \
    X(fake_nodes, "BATON_FAKE_NODES", 0, 0, 65536,                                                                     \
      "split the ranks of each host into this many pretended nodes (0: do not)")                                       \
    X(memory, "BATON_MEMORY", 0, 0, 3,                                                                                 \
      "baton_cache_create wraps memory that is 1: private, 2: shared, 3: a pretended device's (0: it allocates)")      \
    X(windows, "BATON_WINDOWS", 0, 0, 3,                                                                               \
      "engines' memory is exposed by 1: one window, 2: one a region, 3: none (0: by one if that works)")               \
    X(fail_step, "BATON_FAIL_STEP", 0, 0, 99, "fail at this collective step of start (0: do not)")                     \
    X(fail_rank, "BATON_FAIL_RANK", 0, 0, 1048576, "the rank that fails at that step")

#define SETTINGS_MAP(X) SETTINGS_MAP_OF_ENGINES(X) SETTINGS_MAP_OF_TESTS(X)

struct settings {
#define SETTINGS_FIELD(field, variable, preset, least, most, meaning) uint64_t field;
    SETTINGS_MAP(SETTINGS_FIELD)
#undef SETTINGS_FIELD
};

struct setting_info {
    const char *variable;
    uint64_t preset, least, most;
    const char *meaning;
    bool is_of_tests;
};

/** The table itself, for baton-info. */
extern const struct setting_info settings_table[];
extern const unsigned settings_count;

/**
 * Takes each value from `lookup(variable)` (getenv, or a test's own), or the preset where that returns NULL; all
 * presets where `lookup` is NULL. A value is a decimal number that K, M or G (2^10, 2^20, 2^30) may follow.
 * BATON_ESETTING: the error sentence names the bad one.
 */
int settings_read(struct settings *s, char *(*lookup)(const char *variable));

/**
 * Finds misspelt names: for an entry "NAME=value" of the environment whose name begins with BATON_, but is not one that
 * Baton or its programs read, the name that is nearest to it. Else NULL.
 */
const char *settings_nearest(const char *entry);

/** Whether row `info` of the table may have this value. 0, or BATON_ESETTING: the error sentence says why not. */
int settings_check(const struct setting_info *info, const char *text);

/** Parses such a number. 0, or BATON_ESETTING without a sentence. */
int settings_number(const char *text, uint64_t *out);

#endif
