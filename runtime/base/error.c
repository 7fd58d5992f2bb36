/* SPDX-License-Identifier: BSD-3-Clause */
/* error: numbers, names and messages from the one table in baton.h, and each thread's last sentence. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[512];

int error_set(int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return error;
}

const char *baton_errmsg(void)
{
    return sentence;
}

const char *baton_strerror(int error)
{
    switch (error) {
    case BATON_OK:
        return "no error";
#define MESSAGE(name, number, message)                                                                                 \
    case number:                                                                                                       \
        return message;
        BATON_ERRNO_MAP(MESSAGE)
#undef MESSAGE
    default:
        return "unknown error";
    }
}

const char *baton_errname(int error)
{
    switch (error) {
    case BATON_OK:
        return "BATON_OK";
#define NAME(name, number, message)                                                                                    \
    case number:                                                                                                       \
        return "BATON_" #name;
        BATON_ERRNO_MAP(NAME)
#undef NAME
    default:
        return "BATON_E?";
    }
}

const char *baton_version(void)
{
    return BATON_VERSION_STRING;
}
