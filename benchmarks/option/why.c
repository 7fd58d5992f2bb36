/* SPDX-License-Identifier: BSD-3-Clause */
/* why: see why.h. */
#include "option/why.h"

#include <stdarg.h>
#include <stdio.h>

int why_set(struct why *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return -1;
}
