/* SPDX-License-Identifier: BSD-3-Clause */
/* maps: see maps.h. A line of maps: "begin-end rwxs offset major:minor inode   name". */
#include "memory/maps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"

/* False: not a line of maps. *name: where the name begins in the line; 0: it has none. */
static bool range_of(const char *line, struct maps_range *r, int *name)
{
    char mode[5];
    unsigned major = 0, minor = 0;
    *name = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &r->begin, &r->end, mode,
               &r->offset, &major, &minor, &r->inode, name) != 7)
        return false;
    r->device = makedev(major, minor);
    r->is_readable = mode[0] == 'r';
    r->is_writable = mode[1] == 'w';
    r->is_shared = mode[3] == 's';
    return true;
}

/* Room for one item more behind `num`. NULL: no memory; the array stays as it is. */
static void *grow(void *array, size_t num, size_t *room, size_t item_bytes)
{
    if (num < *room)
        return array;
    size_t more = *room > 0 ? 2 * *room : 64;
    void *grown = realloc(array, more * item_bytes);
    if (grown != NULL)
        *room = more;
    return grown;
}

int maps_read(uint64_t low, uint64_t high, struct maps_range **out)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    struct maps_range *ranges = NULL, r;
    size_t num = 0, room = 0, size = 0;
    char *line = NULL;
    int name, rc = 0;
    if (maps == NULL)
        return error_set(BATON_ESYSTEM, "/proc/self/maps: %s", strerror(errno));
    while (rc == 0 && getline(&line, &size, maps) > 0) {
        if (!range_of(line, &r, &name) || r.end <= low || r.begin >= high)
            continue;
        struct maps_range *grown = grow(ranges, num, &room, sizeof *grown);
        if (grown == NULL) {
            rc = error_set(BATON_ENOMEM, "no memory for the ranges of /proc/self/maps");
            break;
        }
        ranges = grown;
        ranges[num++] = r;
    }
    free(line);
    fclose(maps);
    if (rc != 0) {
        free(ranges);
        return rc;
    }
    *out = ranges;
    return (int)num;
}

/* ---- the files of this process ----------------------------------------------------------------------------------- */

/* A descriptor of this process. */
struct maps_descriptor {
    uint64_t device, inode;
    int number, mode; /* how it was opened */
};

/* The name of the file that a range is mapped from. */
struct maps_name {
    uint64_t begin;
    char *text;
};

static int by_file(const void *a, const void *b)
{
    const struct maps_descriptor *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Orders descriptors by file. Among those of one file, the ones that may write come first, then those that may read. */
static int by_file_and_mode(const void *a, const void *b)
{
    static const int order[] = {[O_RDWR] = 0, [O_RDONLY] = 1, [O_WRONLY] = 2, [O_ACCMODE] = 2};
    const struct maps_descriptor *x = a, *y = b;
    int file = by_file(a, b);
    return file != 0 ? file : order[x->mode] - order[y->mode];
}

static int by_address(const void *a, const void *b)
{
    const struct maps_name *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Regular files alone. */
static bool stat_file(int number, struct maps_descriptor *out)
{
    struct stat s;
    if (fstat(number, &s) != 0 || !S_ISREG(s.st_mode))
        return false;
    *out = (struct maps_descriptor){s.st_dev, s.st_ino, number, fcntl(number, F_GETFL) & O_ACCMODE};
    return true;
}

/* Keeps one descriptor for each file. Their number. */
static size_t keep_first(struct maps_descriptor *descriptor, size_t num)
{
    size_t kept = 0;
    for (size_t i = 0; i < num; i++)
        if (kept == 0 || by_file(&descriptor[kept - 1], &descriptor[i]) != 0)
            descriptor[kept++] = descriptor[i];
    return kept;
}

/* Without memory for all of them, files are opened in another way, or not at all. */
static void read_descriptors(struct maps_files *files)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    size_t room = 0;
    files->knows_descriptors = true;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct maps_descriptor found;
        char *end;
        long number = strtol(entry->d_name, &end, 10);
        if (end == entry->d_name || *end != '\0' || number == dirfd(folder) || !stat_file((int)number, &found))
            continue;
        struct maps_descriptor *grown = grow(files->descriptor, files->num_descriptors, &room, sizeof *grown);
        if (grown == NULL)
            break;
        files->descriptor = grown;
        files->descriptor[files->num_descriptors++] = found;
    }
    if (folder != NULL)
        closedir(folder);
    if (files->num_descriptors > 0)
        qsort(files->descriptor, files->num_descriptors, sizeof *files->descriptor, by_file_and_mode);
    files->num_descriptors = keep_first(files->descriptor, files->num_descriptors);
}

/* The kernel tells ranges in the order of their addresses. Without memory: as above. */
static void read_names(struct maps_files *files)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    struct maps_range r;
    size_t room = 0, size = 0;
    char *line = NULL;
    int at;
    files->knows_names = true;
    while (maps != NULL && getline(&line, &size, maps) > 0) {
        if (!range_of(line, &r, &at) || !r.is_shared || at == 0 || line[at] != '/')
            continue;
        struct maps_name *grown = grow(files->name, files->num_names, &room, sizeof *grown);
        char *text = strndup(line + at, strcspn(line + at, "\n"));
        files->name = grown != NULL ? grown : files->name;
        if (grown == NULL || text == NULL) {
            free(text);
            break;
        }
        files->name[files->num_names++] = (struct maps_name){r.begin, text};
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
}

void maps_files_fini(struct maps_files *files)
{
    for (size_t i = 0; i < files->num_names; i++)
        free(files->name[i].text);
    free(files->name);
    free(files->descriptor);
    *files = (struct maps_files){0};
}

/* ---- the file of a range ----------------------------------------------------------------------------------------- */

/* The descriptor, or -1 after closing it: it is of another file. */
static int only_of(const struct maps_range *range, int descriptor)
{
    struct maps_descriptor file;
    if (descriptor < 0 || (stat_file(descriptor, &file) && file.inode == range->inode && file.device == range->device))
        return descriptor;
    close(descriptor);
    return -1;
}

static int open_by_descriptor(struct maps_files *files, const struct maps_range *range)
{
    const struct maps_descriptor key = {.device = range->device, .inode = range->inode};
    if (!files->knows_descriptors)
        read_descriptors(files);
    if (files->num_descriptors == 0)
        return -1;
    const struct maps_descriptor *found =
        bsearch(&key, files->descriptor, files->num_descriptors, sizeof *files->descriptor, by_file);
    /* Meanwhile another thread may have closed it, and its number may be another file's. */
    return found != NULL ? only_of(range, fcntl(found->number, F_DUPFD_CLOEXEC, 0)) : -1;
}

/*
 * Opens `name`, for writing too where that is permitted. -1: it cannot be opened, or is another file. Nothing else than
 * that file is opened, since to open a device may do something.
 */
static int open_as(const char *name, const struct maps_range *range)
{
    struct stat s;
    if (stat(name, &s) != 0 || !S_ISREG(s.st_mode) || s.st_ino != range->inode || s.st_dev != range->device)
        return -1;
    int descriptor = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        descriptor = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return only_of(range, descriptor);
}

static int open_by_name(struct maps_files *files, const struct maps_range *range)
{
    const struct maps_name key = {.begin = range->begin};
    if (!files->knows_names)
        read_names(files);
    if (files->num_names == 0)
        return -1;
    const struct maps_name *found = bsearch(&key, files->name, files->num_names, sizeof *files->name, by_address);
    return found != NULL ? open_as(found->text, range) : -1;
}

int maps_open(struct maps_files *files, const struct maps_range *range)
{
    char name[64];
    int found = open_by_descriptor(files, range);
    if (found < 0)
        found = open_by_name(files, range);
    if (found < 0) {
        snprintf(name, sizeof name, "/proc/self/map_files/%" PRIx64 "-%" PRIx64, range->begin, range->end);
        found = open_as(name, range);
    }
    return found;
}
