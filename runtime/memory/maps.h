/* SPDX-License-Identifier: BSD-3-Clause */
/* maps: what the kernel says of this process's memory (/proc/self/maps), and the files that it is mapped from. */
#ifndef BATON_MEMORY_MAPS_H
#define BATON_MEMORY_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A range of addresses, [begin, end), that is mapped alike. */
struct maps_range {
    uint64_t begin, end;
    bool is_readable, is_writable, is_shared;
    uint64_t device, inode, offset; /* of the file; inode 0: none */
};

/** All ranges that lie within [low, high), by address: *out is malloc'ed. Their number, or BATON_E... */
int maps_read(uint64_t low, uint64_t high, struct maps_range **out);

/** The files of this process, read when the first of them is asked for. Zeroed at first. */
struct maps_files {
    struct maps_descriptor *descriptor; /* by file */
    struct maps_name *name;             /* by address */
    size_t num_descriptors, num_names;
    bool knows_descriptors, knows_names;
};

/**
 * Opens the file that a shared range is mapped from. It tries the descriptors that this process has of the file (one
 * that may write before others), then the file's name, then /proc/self/map_files, where that is permitted. Returns a
 * descriptor, which the caller closes. -1: none of these works, or it is no regular file.
 */
int maps_open(struct maps_files *files, const struct maps_range *range);
void maps_files_fini(struct maps_files *files);

#endif
