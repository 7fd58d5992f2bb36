/* SPDX-License-Identifier: BSD-3-Clause */
/* with_descriptors: what a test may ask of this process's descriptors. */
#ifndef BATON_TESTS_WITH_DESCRIPTORS_H
#define BATON_TESTS_WITH_DESCRIPTORS_H

#include <dirent.h>
#include <unistd.h>

/** How many are open; -1: the system does not say. */
static inline int descriptors_open(void)
{
    int n = -1; /* that of the folder itself */
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return -1;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(folder);
    return n;
}

/** Closes the standard input, so that the next descriptor is 0. What descriptor_back takes: the input. */
static inline int descriptor_free_lowest(void)
{
    const int input = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    return input;
}

static inline void descriptor_back(int input)
{
    if (input < 0)
        return; /* there was none */
    dup2(input, STDIN_FILENO);
    close(input);
}

#endif
