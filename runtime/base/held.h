/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held: a file by whose name other processes see that one process is there. That process holds a lock on the open file,
 * which the kernel drops when its last descriptor and mapping have gone, however the process ends. A second holder in
 * the same process counts as another one. Any process of the user may remove a file that nobody holds.
 *
 * Two rules keep a name from being taken from under a new holder: who removes a file holds its lock meanwhile, and who
 * has made one looks, once it has the lock, whether the name still leads to it.
 *
 * A forked process has what its parent had open: it keeps the file held, unless the holder maps the file, closes the
 * descriptor, and keeps the mapping out of forks (MADV_DONTFORK).
 *
 * In a folder where other users may make files too, such as /tmp, the file is safe from them: it is made anew, under a
 * name that nothing has, for this user alone. What had the name before is replaced only if it is a regular file of this
 * user. Its bytes are not touched then, since another user may have made the name, as a hard link, to any such file.
 */
#ifndef BATON_BASE_HELD_H
#define BATON_BASE_HELD_H

#include <stdbool.h>

/**
 * Makes an empty file and holds it, in place of one that nobody holds. A descriptor to read and write, or -1 with
 * errno: EEXIST: another one holds it, or it is no file of this user.
 */
int held_make(const char *path);

/**
 * As held_make, on file systems without locks too: there nobody holds anything, and any process of the user may replace
 * the file.
 */
int held_make_anyway(const char *path);

/** Closes the file and no longer holds it, although a forked process may have it open still. */
void held_drop(int fd);

/** Why neither of them could make a file of that name (EEXIST), for a message: "that is another user's file". */
const char *held_why(const char *path);

/** Whether anybody holds the open file. */
bool held_is(int fd);

/** Removes the file, unless somebody holds it or it is no file of this user. Whether it did. */
bool held_remove(const char *path);

#endif
