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

/* Sums the private pages of a file of smaps' form; with only_private those of mappings marked p alone. */
static int sum(const char *path, bool only_private, uint64_t *out)
{
    char line[4096], marks[8];
    bool counts = true;
    uint64_t kib, total = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*x-%*x %7s", marks) == 1)
            counts = !only_private || marks[3] == 'p';
        else if (counts && is_private_page_line(line, &kib))
            total += kib;
    }
    fclose(file);
    *out = total;
    return 0;
}

int footprint_read(uint64_t *private_kib, uint64_t *rollup_kib)
{
    uint64_t part, whole;
    if (sum("/proc/self/smaps", true, &part) != 0 || sum("/proc/self/smaps_rollup", false, &whole) != 0)
        return -1;
    *private_kib = part;
    *rollup_kib = whole;
    return 0;
}
