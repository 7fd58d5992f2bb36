/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error: the names and messages of the error numbers, and for each thread one sentence that tells what went wrong.
 * There is no lock, since each thread has its own sentence. Never allocates, and leaves errno as it was, so that it can
 * be called between a failed system call and the report of it.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SENTENCE_MAX 512

static _Thread_local char sentence[SENTENCE_MAX];

const char *baton_strerror(int error)
{
    switch (error) {
    case BATON_OK:
        return "no error";
#define ERROR_MESSAGE(name, number, message)                                                                           \
    case number:                                                                                                       \
        return message;
        BATON_ERRNO_MAP(ERROR_MESSAGE)
#undef ERROR_MESSAGE
    default:
        return "unknown error";
    }
}

const char *baton_errname(int error)
{
    switch (error) {
    case BATON_OK:
        return "BATON_OK";
#define ERROR_NAME(name, number, message)                                                                              \
    case number:                                                                                                       \
        return "BATON_" #name;
        BATON_ERRNO_MAP(ERROR_NAME)
#undef ERROR_NAME
    default:
        return "BATON_UNKNOWN";
    }
}

const char *baton_errmsg(void)
{
    return sentence;
}

const char *baton_version(void)
{
    return BATON_VERSION_STRING;
}

int error_set(int error, const char *format, ...)
{
    const int saved = errno;
    /* Built apart, because the former sentence may be one of the arguments. */
    char text[SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0) /* vsnprintf failed: the number's message is better than nothing */
        snprintf(text, sizeof text, "%s", baton_strerror(error));
    else if ((size_t)length >= sizeof text)
        memcpy(text + sizeof text - sizeof "...", "...", sizeof "...");
    memcpy(sentence, text, strlen(text) + 1);
    errno = saved;
    return error;
}
