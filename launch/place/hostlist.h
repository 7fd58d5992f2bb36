/* SPDX-License-Identifier: BSD-3-Clause */
/* hostlist: names with numbers in brackets, as Slurm writes them: "gpu[001-004,007],rack[0-1]n[0-3],login". */
#ifndef BATON_PLACE_HOSTLIST_H
#define BATON_PLACE_HOSTLIST_H

#include "option/why.h"

#define HOSTLIST_NAME_BYTES 256
#define HOSTLIST_NAMES_MAX 65536

/** Takes one name; 0, or -1 with *why, which ends the list. */
typedef int (*hostlist_fn)(void *arg, const char *name, struct why *why);

/** Hands each name over, in order. 0, or -1 with *why: what cannot be read is quoted. */
int hostlist_each(const char *text, hostlist_fn take, void *arg, struct why *why);

#endif
