/* SPDX-License-Identifier: BSD-3-Clause */
/* textbuf: see textbuf.h. */
#include "base/textbuf.h"

#include <stdarg.h>
#include <stdio.h>

void textbuf_print(struct textbuf *p, const char *format, ...)
{
    size_t at = (size_t)p->length < p->size ? (size_t)p->length : p->size;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(p->size > at ? p->text + at : NULL, p->size - at, format, args);
    va_end(args);
    p->length += n > 0 ? n : 0;
}
