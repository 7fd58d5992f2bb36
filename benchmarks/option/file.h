/* SPDX-License-Identifier: BSD-3-Clause */
/* file: a file of the user's as one text. */
#ifndef OPTION_FILE_H
#define OPTION_FILE_H

#include <stddef.h>

/**
 * Reads a file of at most so many bytes. The text, with a NUL behind it, for free(3), and its length where that is not
 * NULL. NULL: it cannot be read, and errno says why; EFBIG: it is longer.
 */
char *file_read(const char *path, size_t most, size_t *length);

#endif
