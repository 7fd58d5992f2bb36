/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics_folder: the folder of a user's own in which pages of metrics lie (metrics_page.h), so that nobody else can
 * take the names of his files. It stands in a folder that everybody may write to, such as /dev/shm.
 *
 * Its name is METRICS_FOLDER_PREFIX and the user's number. Another user can have taken that name: then a dot and six
 * characters that cannot be guessed follow it. Whose a folder is, its owner says and not its name. One that others
 * may write to is nobody's, and no link is followed.
 *
 * Whoever needs the folder makes it, and whoever removes the last file in it removes it. What processes leave that were
 * killed is removed with the files (metrics_pages_sweep).
 */
#ifndef BATON_OBSERVE_METRICS_FOLDER_H
#define BATON_OBSERVE_METRICS_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#define METRICS_FOLDER_PREFIX "baton-metrics."
#define METRICS_PATH_BYTES 4096

/**
 * Makes a file of that name in this user's folder, and holds it (base/lockfile.h). A descriptor, and where the file is;
 * or -1 with errno: EEXIST: another one holds it.
 */
int metrics_folder_hold(const char *root, const char *name, char path[METRICS_PATH_BYTES]);

/**
 * Calls `found` for each folder of this user, of which there may be several, or of any user. Returns how many folders
 * of others it left out.
 */
uint32_t metrics_folders_find(const char *root, bool of_anybody, void (*found)(void *arg, const char *folder),
                              void *arg);

/** Removes the folders of this user that are empty. */
void metrics_folders_tidy(const char *root);

#endif
