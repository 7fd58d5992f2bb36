/* SPDX-License-Identifier: BSD-3-Clause */
/* spelling: how far a misspelt name is from another one. Pure. */
#ifndef BATON_BASE_SPELLING_H
#define BATON_BASE_SPELLING_H

#include <stddef.h>

/**
 * How many letters must be added, left out, replaced or swapped with their neighbour to turn one name, which has
 * a_length bytes, into the other.
 */
unsigned spelling_distance(const char *a, size_t a_length, const char *b);

#endif
