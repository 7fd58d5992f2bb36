/* SPDX-License-Identifier: BSD-3-Clause */
/* spare: see spare.h. A piece is kept in a slot, which is taken and filled by single exchanges. */
#include "base/spare.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(name) 0 /* clang's */
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

static _Atomic(void *) kept[SPARE_SIZES][SPARE_KEPT];

static size_t bytes_of(size_t size)
{
    return (size + 1) * SPARE_STEP;
}

/* SPARE_SIZES or more: it is larger. */
static size_t size_of(size_t bytes)
{
    return bytes > 0 ? (bytes - 1) / SPARE_STEP : 0;
}

void *spare_calloc(size_t bytes)
{
    const size_t size = size_of(bytes);
    if (size >= SPARE_SIZES)
        return calloc(1, bytes);
    for (uint32_t i = 0; i < SPARE_KEPT; i++) {
        void *memory = NULL;
        if (atomic_load_explicit(&kept[size][i], memory_order_relaxed) != NULL)
            memory = atomic_exchange_explicit(&kept[size][i], NULL, memory_order_acquire);
        if (memory != NULL) {
            ASAN_UNPOISON_MEMORY_REGION(memory, bytes_of(size));
            return memset(memory, 0, bytes);
        }
    }
    return calloc(1, bytes_of(size));
}

void spare_free(void *memory, size_t bytes)
{
    const size_t size = size_of(bytes);
    if (memory != NULL && size < SPARE_SIZES) {
        ASAN_POISON_MEMORY_REGION(memory, bytes_of(size));
        for (uint32_t i = 0; i < SPARE_KEPT; i++) {
            void *none = NULL;
            if (atomic_load_explicit(&kept[size][i], memory_order_relaxed) == NULL &&
                atomic_compare_exchange_strong_explicit(&kept[size][i], &none, memory, memory_order_release,
                                                        memory_order_relaxed))
                return;
        }
        ASAN_UNPOISON_MEMORY_REGION(memory, bytes_of(size));
    }
    free(memory);
}

/* A library that is unloaded leaves nothing. */
__attribute__((destructor)) static void free_all(void)
{
    for (size_t size = 0; size < SPARE_SIZES; size++)
        for (uint32_t i = 0; i < SPARE_KEPT; i++) {
            void *memory = atomic_exchange_explicit(&kept[size][i], NULL, memory_order_acquire);
            ASAN_UNPOISON_MEMORY_REGION(memory, memory != NULL ? bytes_of(size) : 0);
            free(memory);
        }
}
