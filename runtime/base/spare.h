/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spare: memory for what comes and goes with each call. Some of what was freed is kept for the next who asks for as
 * much, so that a steady state allocates nothing. Any thread; nobody waits. Under AddressSanitizer it is poisoned while
 * it is kept.
 */
#ifndef BATON_BASE_SPARE_H
#define BATON_BASE_SPARE_H

#include <stddef.h>

#define SPARE_STEP 64u  /* sizes are multiples of so many bytes */
#define SPARE_SIZES 64u /* up to 4 KiB: what is larger is not kept */
#define SPARE_KEPT 16u  /* pieces of each size at most */

/** Zeroed. NULL: no memory. */
void *spare_calloc(size_t bytes);
/** `bytes`: as it was asked for. NULL is ignored. */
void spare_free(void *memory, size_t bytes);

#endif
