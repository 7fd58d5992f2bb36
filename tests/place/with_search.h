/* SPDX-License-Identifier: BSD-3-Clause */
/* search: what placements are compared with: the best one, found by trying all, and what launchers do by themselves. */
#ifndef TEST_WITH_SEARCH_H
#define TEST_WITH_SEARCH_H

#include "place/board.h"

/** Whether trying all placements ends within seconds: some rules allow for EXACT_RANKS_MAX ranks, others for fewer. */
bool search_reaches(const struct job *j, const struct place_rules *rules);

/** The value of the best placement that holds the rules; `broken` is UINT64_MAX if there is none. */
struct place_value search_best(const struct cluster *c, const struct job *j, const struct place_rules *rules);

/**
 * The value of a launcher's mapping that is made to hold the rules: whole units in order, each on the first node that
 * takes it (by core) or on the next one in turn (by node). `broken` is UINT64_MAX if some unit finds no node.
 */
struct place_value search_repaired(const struct cluster *c, const struct job *j, const struct place_rules *rules,
                                   enum place_default how);

#endif
