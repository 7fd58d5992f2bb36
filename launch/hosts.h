/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts: the file by which mpirun is told the host of each rank. It alone reads it, on this host. */
#ifndef BATON_LAUNCH_HOSTS_H
#define BATON_LAUNCH_HOSTS_H

#include <stdint.h>

#define HOSTS_PATH_BYTES 4096

/** Makes a file with a name a line in TMPDIR. 0, or -1 with errno; after 0 the caller unlinks it. */
int hosts_make_file(const char *const *names, uint32_t num, char path[HOSTS_PATH_BYTES]);

#endif
