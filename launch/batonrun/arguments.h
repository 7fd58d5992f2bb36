/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments: batonrun's command line. It is parsed only: nothing is run, printed or read from the environment. */
#ifndef BATON_LAUNCH_ARGUMENTS_H
#define BATON_LAUNCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "batonrun/launcher.h"
#include "batonrun/placement_options.h"
#include "batonrun/script.h"

#define ARGUMENTS_EXPORTS_MAX 64

struct arguments {
    bool help, version, dry_run, survive;
    bool check; /* no ranks: the hosts are looked at */
    struct layout layout;
    uint32_t timeout_s;                         /* 0: none */
    const char *trace;                          /* the file of the job's timeline; NULL: none is wanted */
    const char *exports[ARGUMENTS_EXPORTS_MAX]; /* VAR or VAR=VALUE */
    unsigned num_exports;
    struct placement_options placement;
    enum launcher_kind launcher; /* LAUNCHER_FIND: not said */
    const char *mpirun;          /* its program; NULL: not said */
    const char *metrics;         /* the file that they are written to, or an endpoint; NULL: none */
    char **launcher_words;       /* for it, NULL-terminated, within argv; NULL: there are none */
    enum script_kind script;
    char **program[2]; /* of the prefill and of the decode ranks: NULL-terminated, within argv */
    struct arguments_marks {
        char **colon; /* the word ":" between two programs; NULL: there is one program */
        char **end;   /* the word "--" behind the launcher's words; NULL: there are none */
    } marks;
    char error[512];
};

/**
 * 0, or -1 with a sentence in error. argv must be NULL-terminated and outlive *out. Some of its words become NULL: the
 * marks, and the options that a job's file does not repeat (script.h).
 */
int arguments_parse(int argc, char **argv, struct arguments *out);

/** The first word behind a program that is "--prefill", "--decode" or ":", and which program's. NULL: there is none. */
const char *arguments_stray_word(const struct arguments *a, const char **program);

/** Of both sides. */
uint32_t arguments_ranks(const struct arguments *a);

/** The manual on standard output. */
void arguments_help(void);

#endif
