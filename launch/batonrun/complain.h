/* SPDX-License-Identifier: BSD-3-Clause */
/* complain: what batonrun and its shims have to say beside the ranks' own output. */
#ifndef BATON_LAUNCH_COMPLAIN_H
#define BATON_LAUNCH_COMPLAIN_H

/** Prints "batonrun: " and a sentence on standard error. Returns `status`. */
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
