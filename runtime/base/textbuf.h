/* SPDX-License-Identifier: BSD-3-Clause */
/* textbuf: text that is printed piece by piece into the caller's memory, which may be too small for all of it. */
#ifndef BATON_BASE_TEXTBUF_H
#define BATON_BASE_TEXTBUF_H

#include <stddef.h>

struct textbuf {
    char *text; /* NUL-terminated where size > 0 */
    size_t size;
    int length; /* of the whole text, also where it does not fit */
};

void textbuf_print(struct textbuf *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
