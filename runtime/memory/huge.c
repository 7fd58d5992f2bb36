/* SPDX-License-Identifier: BSD-3-Clause */
/* huge: see huge.h. */
#include "memory/huge.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/maps.h"

uint64_t huge_offset(const void *at)
{
    struct maps_range *range;
    const uint64_t address = (uint64_t)(uintptr_t)at;
    uint64_t behind = HUGE_BYTES;
    int num = maps_read(address, address + 1, &range);
    if (num < 1)
        return HUGE_BYTES;
    if (range->is_shared && range->inode != 0)
        behind = (HUGE_BYTES - (range->offset + address - range->begin) % HUGE_BYTES) % HUGE_BYTES;
    free(range);
    return behind;
}

/* Addresses that nothing is mapped at, and that begin at a multiple of HUGE_BYTES. */
static uint8_t *reserve(uint64_t bytes)
{
    uint8_t *room = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    uint64_t before = (HUGE_BYTES - (uint64_t)(uintptr_t)room % HUGE_BYTES) % HUGE_BYTES;
    if (before > 0)
        munmap(room, before);
    if (before < HUGE_BYTES)
        munmap(room + before + bytes, HUGE_BYTES - before);
    return room + before;
}

void *huge_map(void *at, uint64_t bytes)
{
    uint8_t *room = reserve(bytes);
    if (room == NULL)
        return NULL;
    /*
     * No bytes of the old mapping are moved: so it stays, and the new one shows the same pages (mremap(2)). Not by the
     * C library: UCX may have put a function of its own in place of its mremap, which loses the fifth argument.
     */
    if (syscall(SYS_mremap, at, (size_t)0, (size_t)bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room) == (long)(intptr_t)room)
        return room;
    const int error = errno;
    munmap(room, bytes);
    errno = error;
    return NULL;
}

void huge_unmap(void *at, uint64_t bytes)
{
    munmap(at, bytes);
}

/* Until it does not fail for a reason that passes. */
static bool advise(void *at, uint64_t bytes, int advice)
{
    int rc;
    do
        rc = madvise(at, bytes, advice);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

bool huge_fill(void *at, uint64_t bytes)
{
    const uint64_t whole = bytes - bytes % HUGE_BYTES;
    /* A huge page takes the place of small ones: of one at least, whose NUMA node it takes too. */
    for (uint64_t i = 0; i < whole; i += HUGE_BYTES)
        if (!advise((uint8_t *)at + i, 4096, MADV_POPULATE_READ))
            return false;
    return whole == 0 || advise(at, whole, MADV_COLLAPSE);
}
