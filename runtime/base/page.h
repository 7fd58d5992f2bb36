/* SPDX-License-Identifier: BSD-3-Clause */
/* page: text that is written piece by piece into memory of the caller's, which may be too small for all of it. */
#ifndef BATON_BASE_PAGE_H
#define BATON_BASE_PAGE_H

#include <stddef.h>

struct page {
    char *text; /* NUL-terminated where size > 0 */
    size_t size;
    int length; /* of the whole text, also where it does not fit */
};

void page_print(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
