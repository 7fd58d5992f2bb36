/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments: batonrun's command line. It is parsed only: nothing is run, printed or read from the environment. */
#ifndef BATON_LAUNCH_ARGUMENTS_H
#define BATON_LAUNCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "launch/placement_options.h"

#define ARGUMENTS_EXPORTS_MAX 64

struct arguments {
    bool help, dry_run, survive;
    struct layout layout;
    uint32_t timeout_s;                         /* 0: none */
    const char *exports[ARGUMENTS_EXPORTS_MAX]; /* VAR or VAR=VALUE */
    unsigned num_exports;
    struct placement_options placement;
    char **program[2]; /* of the prefill and of the decode ranks: NULL-terminated, within argv */
    char error[512];
};

/** 0, or -1 with a sentence in error. argv must be NULL-terminated and outlive *out. A ":" in it becomes NULL. */
int arguments_parse(int argc, char **argv, struct arguments *out);

/** Of both sides. */
uint32_t arguments_ranks(const struct arguments *a);

/** The manual on standard output. */
void arguments_help(void);

#endif
