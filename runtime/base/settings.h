/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings: every number that the environment gives the runtime, in one table: name, default, bounds and meaning. What
 * an operator may need is a variable of its own. What one would change only to measure or to test something is a
 * tunable: they share the variable BATON_TUNE. All are read once, by baton_open; baton-info prints the table.
 */
#ifndef BATON_BASE_SETTINGS_H
#define BATON_BASE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum setting_kind {
    SETTING_VARIABLE,      /* BATON_START_MS=1000 sets start_ms */
    SETTING_TUNABLE,       /* BATON_TUNE=resend_ms=100,nice=0 sets these two */
    SETTING_TEST_VARIABLE, /* as those two, for tests and for who tries things out on one machine */
    SETTING_TEST_TUNABLE,
};

/* X(kind, field, default, least, most, meaning) */
#define SETTINGS_MAP(X)                                                                                                \
    X(VARIABLE, start_ms, 60000, 100, 86400000, "deadline of each collective step of start, ms")                       \
    X(VARIABLE, wrap_ms, 600000, 100, 86400000, "how long caches may come later than the first one, ms")               \
    X(VARIABLE, want_ms, 60000, 1, 86400000, "a want's deadline where the call names none, ms")                        \
    X(VARIABLE, ttl_ms, 120000, 1, 86400000,                                                                           \
      "an offer's time to live where the call names none; how long a want's end is repeated, ms")                      \
    X(VARIABLE, verdict_ms, 60000, 2, 86400000, "how long an engine waits for all ranks' ends, ms")                    \
    X(VARIABLE, peer_ms, 5000, 10, 86400000, "a peer of another node that is silent this long is lost, ms")            \
    X(VARIABLE, close_ms, 60000, 1, 86400000, "how long closing waits for its peers, ms")                              \
    X(VARIABLE, requests, 4096, 1, 1048576, "offers and wants accepted and not yet polled, each rank")                 \
    X(VARIABLE, leases, 4096, 1, 65536, "lease slots: offers alive at one time, each rank")                            \
    X(VARIABLE, table_bytes, 8388608, 65536, 1073741824, "block tables of live offers, bytes, each rank")              \
    X(VARIABLE, checksum, 0, 0, 1, "1: a want is done only if every block's hash is its producer's")                   \
    X(VARIABLE, paranoid, 0, 0, 1, "1: a want into blocks of another open want is refused")                            \
    X(VARIABLE, copy_workers, 1, 1, 64, "threads that copy from the peers' shared memory")                             \
    X(VARIABLE, doorbell, 1, 0, 1, "1: ranks of other nodes wake this one, by UDP, where that works")                  \
    X(VARIABLE, log, 2, 0, 4, "what is logged: 0 nothing, 1 errors, 2 warnings, 3 information, 4 all")                 \
    X(TUNABLE, resend_ms, 500, 1, 60000, "first pause before an unanswered WANT is sent again, ms")                    \
    X(TUNABLE, handshake_ms, 3000, 1, 86400000, "deadline of one round of reading a peer's card, ms")                  \
    X(TUNABLE, beat_ms, 500, 1, 60000, "pause between heartbeats to a peer that open calls need, ms")                  \
    X(TUNABLE, stall_ms, 20000, 10, 86400000, "a turn of the reactor this long means that MPI is stuck, ms")           \
    X(TUNABLE, quiet_ms, 1000, 1, 86400000,                                                                            \
      "a call that is not known to be quiet this long after its deadline is given up, ms")                             \
    X(TUNABLE, tombstone_ms, 60000, 1, 86400000, "how long an ended key is remembered, ms")                            \
    X(TUNABLE, tombstones, 4096, 1, 1048576, "ended keys remembered; the oldest go first")                             \
    X(TUNABLE, waiting, 16384, 1, 1048576, "wants of peers that came before their offer and are kept")                 \
    X(TUNABLE, grant_blocks, 400, 0, 400,                                                                              \
      "block tables of at most so many entries travel in the grant, and need not be read (0: none)")                   \
    X(TUNABLE, handoff, 1, 0, 2,                                                                                       \
      "ranks of a node meet 0: by MPI, 1: in shared memory, unless faults are injected, 2: also then")                 \
    X(TUNABLE, chunk_bytes, 1048576, 4096, 1073741824, "bytes a leg moves before the next has its turn")               \
    X(TUNABLE, copy_bytes, 8388608, 8192, 1099511627776,                                                               \
      "bytes queued for each copy worker; one peer alone gets half")                                                   \
    X(TUNABLE, inline_bytes, 262144, 0, 1048576,                                                                       \
      "copies of at most so many bytes are made by the reactor, not by a copy worker (0: none)")                       \
    X(TUNABLE, stage_bytes, 4194304, 1048576, 1073741824,                                                              \
      "buffers for bytes that are staged, each rank, where a rank owns its memory")                                    \
    X(TUNABLE, huge_pages, 1, 0, 1, "1: huge pages for Baton's own memory, where Linux gives them")                    \
    X(TUNABLE, rma_bytes, 2097152, 8192, 1099511627776,                                                                \
      "bytes in flight with peers of other nodes, each rank; one peer alone gets half")                                \
    X(TUNABLE, rma_requests, 64, 1, 128, "MPI requests of data outstanding, each rank")                                \
    X(TUNABLE, rma_peer_requests, 16, 1, 128, "MPI requests of data outstanding to one peer")                          \
    X(TUNABLE, rma_run_bytes, 262144, 4096, 1073741824, "longest run that one MPI_Rget moves")                         \
    X(TUNABLE, rma_gets_per_request, 0, 0, 64, "gets that one request completes (0: by the quirks table)")             \
    X(TUNABLE, rma_put, 0, 0, 2, "the completion of an MPI_Rput is 1: remote, 2: local (0: by the quirks table)")      \
    X(TUNABLE, rma_sieve_bytes, 10485760, 0, 1073741824,                                                               \
      "memory for short runs that are moved together, bytes (0: none)")                                                \
    X(TUNABLE, park_ms, 200, 1, 60000, "a request open this long, and 4 times as long as usual, is tested rarely, ms") \
    X(TUNABLE, spin_us, 20, 0, 1000000, "how long an idle reactor spins before it sleeps, us; it yields")              \
    X(TUNABLE, idle_us, 2000, 1, 1000000, "longest sleep where peers have to be polled for, us")                       \
    X(TUNABLE, sleep_us, 100000, 1, 1000000, "longest sleep where every peer can wake this one, us")                   \
    X(TUNABLE, slice_us, 100, 0, 100000, "time slice asked of the scheduler for the reactor (0: none), us")            \
    X(TUNABLE, nice, 10, 0, 20, "how much the reactor's priority is raised where permitted (nice steps)")              \
    X(TEST_VARIABLE, fake_nodes, 0, 0, 65536,                                                                          \
      "split the ranks of each host into this many pretended nodes (0: do not)")                                       \
    X(TEST_TUNABLE, windows, 0, 0, 3,                                                                                  \
      "engines' memory is exposed by 1: one window, 2: one a region, 3: none (0: by one if that works)")               \
    X(TEST_TUNABLE, fail_step, 0, 0, 99, "fail at this collective step of start (0: do not)")                          \
    X(TEST_TUNABLE, fail_rank, 0, 0, 1048576, "the rank that fails at that step")                                      \
    X(TEST_TUNABLE, backoff_ms, 50, 1, 60000, "first pause before a retry; doubles up to 40 times it, ms")             \
    X(TEST_TUNABLE, stats_ms, 20, 1, 60000, "how often the gauges are brought up to date, ms")

struct settings {
#define SETTINGS_FIELD(kind, field, preset, least, most, meaning) uint64_t field;
    SETTINGS_MAP(SETTINGS_FIELD)
#undef SETTINGS_FIELD
};

struct setting_info {
    enum setting_kind kind;
    const char *name; /* the field's */
    uint64_t preset, least, most;
    const char *meaning;
};

/** The table itself, for baton-info. */
extern const struct setting_info settings_table[];
extern const unsigned settings_count;

static inline bool setting_is_tunable(const struct setting_info *info)
{
    return info->kind == SETTING_TUNABLE || info->kind == SETTING_TEST_TUNABLE;
}

static inline bool setting_is_of_tests(const struct setting_info *info)
{
    return info->kind == SETTING_TEST_VARIABLE || info->kind == SETTING_TEST_TUNABLE;
}

#define SETTING_SPELLING_MAX 48

/** What stands before "=value" in the environment: "BATON_START_MS", "BATON_TUNE=resend_ms". */
void setting_spell(const struct setting_info *info, char out[SETTING_SPELLING_MAX]);

/**
 * Takes the values that `entries` have (environ, or a test's own, up to NULL), and the presets of what they do not
 * name; all presets where `entries` is NULL. A value is a decimal number that K, M or G (2^10, 2^20, 2^30) may follow.
 * BATON_ESETTING: the error sentence names the bad one.
 */
int settings_read(struct settings *s, char *const *entries);

/**
 * Looks at one entry "NAME=value" of the environment. 1: it sets what the table has, and the value is good; 0: its name
 * is none of the table's; BATON_ESETTING: the error sentence says what is wrong with it.
 */
int settings_check(const char *entry);

/**
 * Finds misspelt names: for an entry "NAME=value" of the environment whose name begins with BATON_, but is not one that
 * Baton or its programs read, the spelling of the one that is nearest to it. False: it is not misspelt.
 */
bool settings_nearest(const char *entry, char out[SETTING_SPELLING_MAX]);

/** The value that a BATON_TUNE gives a tunable, up to a comma or the end; NULL: it does not name it. */
const char *settings_tuned(const char *tune, const char *name);

/** Parses such a number. 0, or BATON_ESETTING without a sentence. */
int settings_number(const char *text, uint64_t *out);

#endif
