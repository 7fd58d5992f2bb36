/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_bytes: what tests of byte formats share: copies that end where their bytes end (so that the address sanitizer
 * sees a read past them), seeded random bytes, and frozen images as hex.
 */
#ifndef BATON_TESTS_WITH_BYTES_H
#define BATON_TESTS_WITH_BYTES_H

#include <stddef.h>
#include <stdint.h>

/** A copy on the heap of exactly n bytes; free it. */
uint8_t *bytes_copy(const void *in, size_t n);

/** The next of a sequence that the seed in *state decides. */
uint64_t bytes_random(uint64_t *state);
void bytes_fill(uint64_t *state, uint8_t *out, size_t n);

void bytes_store(uint8_t *out, uint64_t value, unsigned width); /* little-endian */

/** Writes the bytes of `hex` (blanks are skipped). Returns how many. */
size_t bytes_of_hex(const char *hex, uint8_t *out);
/** Fails the test, and prints the bytes, unless they are those of `hex`. */
void bytes_assert_hex(const uint8_t *found, size_t n, const char *hex);

#endif
