/* SPDX-License-Identifier: BSD-3-Clause */
/* report: see report.h. The folder belongs to this user alone (mkdtemp), so its names need no guard. */
#include "launch/report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES (PATH_MAX + 32)

static void name(char path[PATH_BYTES], const char *folder, uint32_t rank, const char *suffix)
{
    snprintf(path, PATH_BYTES, "%.*s/rank.%" PRIu32 "%s", PATH_MAX, folder, rank, suffix);
}

static int write_line(const char *path, int status, bool told)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return errno;
    int error = fprintf(file, "status %d told %d at %" PRIu64 "\n", status, told, now) < 0 ? errno : 0;
    if (fclose(file) != 0 && error == 0)
        error = errno;
    return error;
}

int report_write(const char *folder, uint32_t rank, int status, bool told)
{
    char path[PATH_BYTES], part[PATH_BYTES];
    name(path, folder, rank, "");
    name(part, folder, rank, ".part");
    int error = write_line(part, status, told);
    return error == 0 && rename(part, path) != 0 ? errno : error;
}

static void read_line(FILE *file, struct report *r)
{
    char end = '\0';
    int told = 0;
    r->present =
        fscanf(file, "status %d told %d at %" SCNu64 "%c", &r->status, &told, &r->ended_ns, &end) == 4 && end == '\n';
    r->told = told != 0;
}

struct report report_take(const char *folder, uint32_t rank)
{
    char path[PATH_BYTES];
    struct report r = {0};
    name(path, folder, rank, ".part");
    unlink(path); /* of a shim that was killed as it wrote */
    name(path, folder, rank, "");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return r;
    read_line(file, &r);
    fclose(file);
    unlink(path);
    return r;
}

int64_t report_culprit(const struct report *reports, uint32_t ranks)
{
    int64_t first = -1;
    for (uint32_t i = 0; i < ranks; i++) {
        const struct report *r = &reports[i];
        if (r->present && r->status != 0 && !r->told && (first < 0 || r->ended_ns < reports[first].ended_ns))
            first = i;
    }
    return first;
}
