/* SPDX-License-Identifier: BSD-3-Clause */
/* error: the calling thread's last error sentence, which baton_errmsg returns. Any thread. */
#ifndef BATON_BASE_ERROR_H
#define BATON_BASE_ERROR_H

#include "baton.h"

/** Keeps the sentence for this thread's baton_errmsg and returns `error`: `return error_set(BATON_EINVAL, "…")`. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
