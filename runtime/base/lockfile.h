/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockfile: a file by whose name other processes see that its holder is alive. The holder has a lock on the open
 * file. The kernel drops the lock when the last descriptor and mapping of the file are gone, however the process ends.
 * A second holder in the same process counts as another one. Any process of the user may remove a file that nobody
 * holds.
 *
 * Two rules keep a process from removing the file of a new holder. To remove a file, a process must hold its lock. And
 * a process that has made a file checks, once it has the lock, that the name still leads to that file.
 *
 * A forked process has what its parent had open: it keeps the file held, unless the holder maps the file, closes the
 * descriptor, and keeps the mapping out of forks (MADV_DONTFORK).
 *
 * Other users may make files in the same folder, as in /tmp. So a file is always made anew (O_EXCL), for this user
 * alone. A file that has the name already is removed first, only if it is a regular file of this user that nobody
 * holds. It is never written: another user may have made the name as a hard link to any file of this user.
 */
#ifndef BATON_BASE_LOCKFILE_H
#define BATON_BASE_LOCKFILE_H

#include <stdbool.h>

/**
 * Makes an empty file and holds it, in place of one that nobody holds. A descriptor to read and write, or -1 with
 * errno: EEXIST: another one holds it, or it is no file of this user.
 */
int lockfile_make(const char *path);

/**
 * As lockfile_make, on file systems without locks too: there nobody holds anything, and any process of the user may
 * replace the file.
 */
int lockfile_make_anyway(const char *path);

/** Closes the file and no longer holds it, although a forked process may have it open still. */
void lockfile_drop(int fd);

/** Why neither of them could make a file of that name (EEXIST), for a message: "that is another user's file". */
const char *lockfile_why(const char *path);

/** Whether anybody holds the open file. */
bool lockfile_is(int fd);

/** Removes the file, unless somebody holds it or it is no file of this user. Whether it did. */
bool lockfile_remove(const char *path);

#endif
