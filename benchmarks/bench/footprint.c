/* SPDX-License-Identifier: BSD-3-Clause */
/* footprint: see the header. */
#include "bench/footprint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static bool is_private_page_line(const char *line, uint64_t *kib)
{
    return sscanf(line, "Private_Clean: %" SCNu64 " kB", kib) == 1 ||
           sscanf(line, "Private_Dirty: %" SCNu64 " kB", kib) == 1;
}

/* Whether the line begins a mapping. If so, also whether the mapping holds `address`, and whether it is private. */
static bool begins_mapping(const char *line, uint64_t address, bool *holds, bool *is_private)
{
    uint64_t from, to;
    char marks[8];
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, marks) != 3)
        return false;
    *is_private = marks[3] == 'p';
    *holds = from <= address && address < to;
    return true;
}

/* Sums over private mappings, and says whether the mapping at `address` is one of them. */
static int sum_private(uint64_t address, uint64_t *out, bool *held_private)
{
    char line[4096];
    bool holds, is_private = false;
    uint64_t kib;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (!file)
        return -1;
    *out = 0;
    *held_private = false;
    while (fgets(line, sizeof line, file)) {
        if (begins_mapping(line, address, &holds, &is_private))
            *held_private |= holds && is_private;
        else if (is_private && is_private_page_line(line, &kib))
            *out += kib;
    }
    fclose(file);
    return 0;
}

static int sum_all(uint64_t *out)
{
    char line[4096];
    uint64_t kib;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file)
        return -1;
    *out = 0;
    while (fgets(line, sizeof line, file)) {
        if (is_private_page_line(line, &kib))
            *out += kib;
    }
    fclose(file);
    return 0;
}

int footprint_read(const void *pool, uint64_t pool_bytes, uint64_t *private_kib, uint64_t *rollup_kib)
{
    uint64_t part, whole;
    bool pool_is_private;
    if (sum_private((uint64_t)(uintptr_t)pool, &part, &pool_is_private) != 0 || sum_all(&whole) != 0)
        return -1;
    *private_kib = pool_is_private ? part - pool_bytes / 1024 : part;
    *rollup_kib = whole;
    return 0;
}
