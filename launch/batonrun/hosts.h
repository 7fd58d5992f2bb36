/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts: the file by which a launcher is told the hosts of the ranks. It alone reads it, on this host. */
#ifndef BATON_LAUNCH_HOSTS_H
#define BATON_LAUNCH_HOSTS_H

#define HOSTS_PATH_BYTES 4096

/** Makes a file with this text in TMPDIR. 0, or -1 with errno; after 0 the caller unlinks it. */
int hosts_make_file(const char *text, char path[HOSTS_PATH_BYTES]);

#endif
