/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sized: structs that cross the library's edge and begin with their size, so that both sides may know a different
 * number of their fields (STRUCTS THAT GROW in baton.h). Pure.
 */
#ifndef BATON_BASE_SIZED_H
#define BATON_BASE_SIZED_H

#include <stddef.h>

#define SIZED_MAX 4096 /* bytes: no struct of any version is larger, so that a size that was never set is refused */

/**
 * Copies what the caller gave into a struct as this build knows it. Fields that the caller's lacks are 0; `size` is
 * own_size. 0, or BATON_EINVAL with a sentence that names `type`; *own is then all 0.
 */
int sized_take(const void *given, const char *type, void *own, size_t own_size);

/** Copies what has changed back into what sized_take was given. The caller's size stays. */
void sized_give_back(const void *own, size_t own_size, void *given);

/**
 * Whether `size` can be that of a struct that is to be filled: 0, or BATON_EINVAL with a sentence that names `type`.
 */
int sized_check(size_t size, const char *type);

/** Fills a caller's struct of `size` bytes, which sized_check took. What this build does not know is 0. */
void sized_fill(const void *own, size_t own_size, void *out, size_t size);

#endif
