/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper: runs another program that may hang, abort or not start at all, such as all that starts MPI, with a deadline.
 * What it says by lines (line.h) is taken; what else it prints is kept to be quoted. Nothing of it outlives the call,
 * unless SIGKILL cannot end it: that is a problem of its own.
 */
#ifndef BATON_INFO_HELPER_H
#define BATON_INFO_HELPER_H

#include "info/info.h"

#define HELPER_SAID_BYTES 720

struct helper {
    struct info info;             /* what it says; after the call of whoever started it to free */
    char said[HELPER_SAID_BYTES]; /* the last other lines that it printed */
    int status;                   /* as a shell gives it; 127: it could not be started */
    bool is_late;                 /* it had not ended at the deadline */
    bool is_whole;                /* it said all that it had to say */
};

/** Fills *h. `envp`: its environment. A path without a slash is looked for in PATH. */
void helper_run(struct helper *h, char *const argv[], char *const envp[], unsigned deadline_s);

/** A problem: `what` with how it ended ("… ended with status 1"), and what it printed. */
void helper_blame(const struct helper *h, struct info *i, const char *what, const char *remedy);

/**
 * Runs the program of that name (helper_path) with an argument, or NULL, and adds what it says to *i. False: it did not
 * say all, and that is a problem in *i.
 */
bool helper_ask(struct info *i, const char *name, const char *argument, unsigned deadline_s, const char *what,
                const char *remedy);

/** The file of a program beside this one's: "batonrun", or INFO_HELPERS "/baton-info-mpi". */
void helper_path(const char *name, char *path, size_t size);

#endif
