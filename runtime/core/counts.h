/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts: what the core counts and how much of it is there, for baton_stats: written in its steps, read by any thread.
 */
#ifndef BATON_CORE_COUNTS_H
#define BATON_CORE_COUNTS_H

#include "baton.h"

#include "base/count.h"

/* Members of baton_stats_t, whose comments there say what they count. */
#define CORE_COUNTS_MAP(X)                                                                                             \
    X(offers)                                                                                                          \
    X(offers_done)                                                                                                     \
    X(offers_failed)                                                                                                   \
    X(offers_expired)                                                                                                  \
    X(offers_cancelled)                                                                                                \
    X(wants)                                                                                                           \
    X(wants_done)                                                                                                      \
    X(wants_failed)                                                                                                    \
    X(wants_expired)                                                                                                   \
    X(wants_cancelled)                                                                                                 \
    X(gets)                                                                                                            \
    X(puts)                                                                                                            \
    X(handshakes)                                                                                                      \
    X(handshake_ns_sum)                                                                                                \
    X(handshake_ns_max)                                                                                                \
    X(handshake_retries)                                                                                               \
    X(messages_sent)                                                                                                   \
    X(messages_received)                                                                                               \
    X(messages_bad)                                                                                                    \
    X(messages_unknown)                                                                                                \
    X(retries)                                                                                                         \
    X(peers_lost)                                                                                                      \
    X(peers_returned)                                                                                                  \
    X(leases_extended)                                                                                                 \
    X(verdicts)                                                                                                        \
    X(verdicts_lost)                                                                                                   \
    X(ends_unanswered)                                                                                                 \
    X(stale)                                                                                                           \
    X(given_up)                                                                                                        \
    X(quarantined)                                                                                                     \
    X(leases_live)                                                                                                     \
    X(wants_live)                                                                                                      \
    X(legs_live)                                                                                                       \
    X(pushes_live)

struct counts {
#define CORE_COUNT(name) count_t name;
    CORE_COUNTS_MAP(CORE_COUNT)
#undef CORE_COUNT
    count_t bytes[BATON_PATHS];
};

#endif
