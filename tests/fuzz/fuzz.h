/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz: what the targets share. */
#ifndef BATON_TESTS_FUZZ_H
#define BATON_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** A copy of exactly that size; never NULL. */
uint8_t *fuzz_copy(const uint8_t *data, size_t size);

/** Put the checksums right that guard an envelope with its message, a row, a card and a block table. */
void fuzz_seal_envelope(uint8_t *packet, size_t size);
void fuzz_seal_row(uint8_t *row);
void fuzz_seal_card(uint8_t *card, size_t size);
void fuzz_seal_table(uint8_t *table, size_t size);

#endif
