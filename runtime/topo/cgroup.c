/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cgroup: /proc/self/cgroup says which groups this process is in, /proc/self/mountinfo where their hierarchies are
 * mounted. There it reads the limit of each group, and of all above it up to the mount's top, since these hold too.
 * What cannot be read counts as no limit: that can only make the result larger, and the caller also knows the machine's
 * own size.
 */
#include "topo/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the two kinds of hierarchy that may limit a resource. */
struct version {
    const char *filesystem; /* its type in mountinfo */
    const char *controller; /* what the mount's options must list; NULL: anything */
    const char *limit;      /* the file of a group's limit */
};

/* The limits that are read, in cgroups of both versions, and how. */
struct resource {
    struct version version1, version2;
    uint64_t (*read)(const char *folder, const char *file); /* UINT64_MAX: none */
};

struct mount {
    char top[PATH_MAX];   /* the group that the mount shows as its top */
    char point[PATH_MAX]; /* where it is mounted */
};

/* Whether `word` is one of the names between commas in the first `length` bytes of `list`. */
static bool lists(const char *list, size_t length, const char *word)
{
    const size_t size = strlen(word);
    const char *end = list + length;
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma != NULL ? comma : end;
        if ((size_t)(stop - list) == size && memcmp(list, word, size) == 0)
            return true;
        list = stop + 1;
    }
    return false;
}

static FILE *open_under(const char *root, const char *path)
{
    char full[PATH_MAX];
    const int length = snprintf(full, sizeof full, "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof full ? fopen(full, "re") : NULL;
}

/* One line of mountinfo: id, parent, device, top, point, options, any more, "-", type, source, options. */
static bool parse_mount(const char *line, const struct version *version, struct mount *mount)
{
    char type[32], options[1024];
    _Static_assert(PATH_MAX == 4096, "the widths below are one less");
    if (sscanf(line, "%*s %*s %*s %4095s %4095s", mount->top, mount->point) != 2)
        return false;
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
        return false;
    return strcmp(type, version->filesystem) == 0 &&
           (version->controller == NULL || lists(options, strlen(options), version->controller));
}

static bool find_mount(const char *root, const struct version *version, struct mount *mount)
{
    FILE *file = open_under(root, "/proc/self/mountinfo");
    if (file == NULL)
        return false;
    char *line = NULL; /* of any length: layered file systems have long ones */
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, file) >= 0)
        found = parse_mount(line, version, mount);
    free(line);
    fclose(file);
    return found;
}

/* The part of `group` below the mount's top; "" (the top itself) where the group is outside of what is mounted. */
static const char *below_top(const char *group, const char *top)
{
    if (strstr(group, "/..") != NULL)
        return "";
    if (strcmp(top, "/") == 0)
        return group;
    const size_t length = strlen(top);
    if (strncmp(group, top, length) == 0 && (group[length] == '/' || group[length] == '\0'))
        return group + length;
    return "";
}

/* Up to two numbers of a file, before which "max" may stand. Returns how many there are. */
static int read_numbers(const char *folder, const char *name, uint64_t numbers[2])
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    int n = fscanf(file, "%" SCNu64 " %" SCNu64, &numbers[0], &numbers[1]);
    fclose(file);
    return n > 0 ? n : 0;
}

static uint64_t read_bytes(const char *folder, const char *file)
{
    uint64_t numbers[2];
    return read_numbers(folder, file, numbers) > 0 ? numbers[0] : UINT64_MAX;
}

/* A quota is a time in each period. Version 1 has a file for each of them, and -1 (here a large number) for none. */
static uint64_t read_quota(const char *folder, const char *file)
{
    uint64_t numbers[2], period[2];
    int n = read_numbers(folder, file, numbers);
    if (n == 1 && read_numbers(folder, "cpu.cfs_period_us", period) > 0) {
        numbers[1] = period[0];
        n = 2;
    }
    bool is_limit = n == 2 && numbers[1] > 0 && numbers[0] < UINT64_MAX / 1000;
    return is_limit ? numbers[0] * 1000 / numbers[1] : UINT64_MAX;
}

static const struct resource memory = {
    {"cgroup", "memory", "memory.limit_in_bytes"}, {"cgroup2", NULL, "memory.max"}, read_bytes};
static const struct resource cpu = {{"cgroup", "cpu", "cpu.cfs_quota_us"}, {"cgroup2", NULL, "cpu.max"}, read_quota};

static uint64_t walk_up(const char *root, const struct resource *resource, const struct version *version,
                        const struct mount *mount, const char *group)
{
    char folder[PATH_MAX];
    const char *below = below_top(group, mount->top);
    const int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount->point, below);
    if (length < 0 || (size_t)length >= sizeof folder)
        return UINT64_MAX;
    const size_t top_length = strlen(root) + strlen(mount->point);
    uint64_t least = UINT64_MAX;
    for (;;) {
        const uint64_t limit = resource->read(folder, version->limit);
        least = limit < least ? limit : least;
        char *slash = strrchr(folder + top_length, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup: hierarchy:controllers:group. Version 2 is hierarchy 0 and names no controllers. */
static uint64_t limit_of_line(const char *root, const struct resource *resource, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    const char *controllers = strchr(line, ':');
    const char *group = controllers != NULL ? strchr(++controllers, ':') : NULL;
    if (group == NULL)
        return UINT64_MAX;
    const size_t length = (size_t)(group++ - controllers);
    const struct version *version = NULL;
    if (length == 0)
        version = &resource->version2;
    else if (lists(controllers, length, resource->version1.controller))
        version = &resource->version1;
    struct mount mount;
    if (version == NULL || !find_mount(root, version, &mount))
        return UINT64_MAX;
    return walk_up(root, resource, version, &mount, group);
}

static uint64_t find_limit(const char *root, const struct resource *resource)
{
    FILE *file = open_under(root, "/proc/self/cgroup");
    if (file == NULL)
        return UINT64_MAX;
    char *line = NULL;
    size_t size = 0;
    uint64_t least = UINT64_MAX;
    while (getline(&line, &size, file) >= 0) {
        const uint64_t limit = limit_of_line(root, resource, line);
        least = limit < least ? limit : least;
    }
    free(line);
    fclose(file);
    return least;
}

uint64_t cgroup_memory_limit(const char *root)
{
    return find_limit(root, &memory);
}

uint64_t cgroup_cpu_limit(const char *root)
{
    return find_limit(root, &cpu);
}
