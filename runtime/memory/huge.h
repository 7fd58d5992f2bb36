/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * huge: huge pages for shared memory. A scattered block costs a walk through the page tables for each page of 4 KiB,
 * and under a hypervisor several; a huge page has 512 of them. Systems give shared memory none by themselves
 * (/sys/kernel/mm/transparent_hugepage/shmem_enabled is "never" nearly everywhere), but Linux 6.1 and later do where
 * they are asked by MADV_COLLAPSE.
 *
 * The kernel maps a huge page only where address and offset in the file are alike modulo 2 MiB, and MPI maps its
 * windows anywhere. So the memory is mapped once more, by mremap(2) of no bytes, which needs no descriptor of the file.
 * Both mappings show the same pages.
 *
 * The thread that starts calls these. They take what time it takes to fill the memory.
 */
#ifndef BATON_MEMORY_HUGE_H
#define BATON_MEMORY_HUGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

/* Linux's numbers, for C libraries that are older than these. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define HUGE_BYTES (UINT64_C(2) << 20)

/**
 * How many bytes behind `at`, which is mapped from a file and shared, the file's next huge page begins: less than
 * HUGE_BYTES. HUGE_BYTES: it is not such memory, or the kernel does not tell.
 */
uint64_t huge_offset(const void *at);

/**
 * Maps `bytes` from `at`, where a huge page of the file begins, once more, at an address where huge pages fit. NULL:
 * the kernel refuses, and errno says why. huge_unmap ends it; the first mapping is not touched.
 */
void *huge_map(void *at, uint64_t bytes);
void huge_unmap(void *at, uint64_t bytes);

/**
 * Fills what of [at, at + bytes) are whole huge pages with such pages, `at` being the beginning of one. Other processes
 * that map the same bytes so that huge pages fit then get them by themselves. False: not all could be had, and errno
 * says why. Bytes stay as they were either way.
 */
bool huge_fill(void *at, uint64_t bytes);

#endif
