/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus: sets of hardware threads, by the system's numbers, as lists such as "0-7,32-39". Any thread. */
#ifndef BATON_BASE_CPUS_H
#define BATON_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A set of as many hardware threads as Linux can have. */
struct cpus {
    cpu_set_t *set;
    size_t bytes;
};

/** An empty set. False: no memory. Call cpus_fini in both cases. */
bool cpus_init(struct cpus *c);
void cpus_fini(struct cpus *c);

/** Adds those of a list to an initialised set. False: the list is malformed, or names none. */
bool cpus_read(struct cpus *c, const char *list);

/** Writes the set as a list. False: it is cut, to whole numbers. */
bool cpus_write(const struct cpus *c, char *list, size_t size);
/** The same of `num` numbers in ascending order. */
bool cpus_write_numbers(const uint32_t *numbers, uint32_t num, char *list, size_t size);

#endif
