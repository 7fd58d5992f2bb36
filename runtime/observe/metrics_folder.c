/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics_folder: see metrics_folder.h. */
#include "observe/metrics_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lockfile.h"

#define TRIES 1000 /* to make a file in a folder that others remove meanwhile, since it is empty */

enum whose { NOBODYS, MINE, OTHERS };

static enum whose whose_is(const char *folder)
{
    struct stat s;
    if (lstat(folder, &s) != 0 || !S_ISDIR(s.st_mode) || (s.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return NOBODYS;
    return s.st_uid == geteuid() ? MINE : OTHERS;
}

uint32_t metrics_folders_find(const char *root, bool of_anybody, void (*found)(void *arg, const char *folder),
                              void *arg)
{
    char folder[METRICS_PATH_BYTES];
    uint32_t others = 0;
    struct dirent *entry;
    DIR *dir = opendir(root);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, METRICS_FOLDER_PREFIX, strlen(METRICS_FOLDER_PREFIX)) != 0 ||
            snprintf(folder, sizeof folder, "%s/%s", root, entry->d_name) >= (int)sizeof folder)
            continue;
        const enum whose whose = whose_is(folder);
        if (whose == MINE || (whose == OTHERS && of_anybody))
            found(arg, folder);
        else
            others += whose == OTHERS;
    }
    if (dir != NULL)
        closedir(dir);
    return others;
}

/* The first one by name, so that all processes of the user take the same. */
static void take_first(void *arg, const char *folder)
{
    char *first = arg;
    if (first[0] == '\0' || strcmp(folder, first) < 0)
        snprintf(first, METRICS_PATH_BYTES, "%s", folder);
}

/* This user's folder, old or new. 0 or an errno. */
static int make_folder(const char *root, char folder[METRICS_PATH_BYTES])
{
    char name[32];
    snprintf(name, sizeof name, METRICS_FOLDER_PREFIX "%u", (unsigned)geteuid());
    if (snprintf(folder, METRICS_PATH_BYTES, "%s/%s", root, name) >= METRICS_PATH_BYTES)
        return ENAMETOOLONG;
    if (mkdir(folder, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return errno;
    if (whose_is(folder) == MINE)
        return 0;
    folder[0] = '\0';
    metrics_folders_find(root, false, take_first, folder);
    if (folder[0] != '\0')
        return 0;
    if (snprintf(folder, METRICS_PATH_BYTES, "%s/%s.XXXXXX", root, name) >= METRICS_PATH_BYTES)
        return ENAMETOOLONG;
    return mkdtemp(folder) != NULL ? 0 : errno;
}

int metrics_folder_hold(const char *root, const char *name, char path[METRICS_PATH_BYTES])
{
    char folder[METRICS_PATH_BYTES];
    int fd = -1, error = ENOENT;
    for (unsigned i = 0; i < TRIES && fd < 0 && error == ENOENT; i++) {
        error = make_folder(root, folder);
        if (error == 0 && snprintf(path, METRICS_PATH_BYTES, "%s/%s", folder, name) >= METRICS_PATH_BYTES)
            error = ENAMETOOLONG;
        else if (error != 0)
            break; /* ENOENT too: there is no such root */
        else if ((fd = lockfile_make(path)) < 0)
            error = errno; /* ENOENT: the folder was empty, and has been removed */
    }
    errno = error;
    return fd;
}

static void remove_empty(void *arg, const char *folder)
{
    (void)arg;
    rmdir(folder); /* fails where a file is in it */
}

void metrics_folders_tidy(const char *root)
{
    metrics_folders_find(root, false, remove_empty, NULL);
}
