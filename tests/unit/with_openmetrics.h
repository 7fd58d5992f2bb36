/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * with_openmetrics: whether a text is OpenMetrics 1.0, or the older form 0.0.4 with "# EOF" as its last line, as
 * strictly as their specifications are, for what Baton writes.
 */
#ifndef TESTS_WITH_OPENMETRICS_H
#define TESTS_WITH_OPENMETRICS_H

#include <stdbool.h>
#include <stddef.h>

/** `is_old`: 0.0.4. False: *why says in which line what is wrong. */
bool openmetrics_is_good(const char *text, bool is_old, char *why, size_t size);

#endif
