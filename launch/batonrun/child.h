/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child: a process that this one started and stays responsible for. It gets a process group of its own, so that a
 * terminal's or mpirun's signal to a whole group reaches it once, through us, and not twice.
 */
#ifndef BATON_LAUNCH_CHILD_H
#define BATON_LAUNCH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    sigset_t taken;  /* signals that wait for child_wait instead of ending this process */
    sigset_t before; /* what was blocked before */
};

/**
 * Runs argv, found by PATH. `input_from` becomes its standard input, and `errors_to` its standard error; -1: each is
 * this process's own. The kernel sends it `last_signal` when this process dies, however that happens. Call it while
 * this process has one thread: the kernel watches the thread that forked. 0, or an errno: then nothing runs.
 */
int child_start(struct child *c, char **argv, int last_signal, int input_from, int errors_to);

/**
 * Runs argv, found by PATH, without a struct child: signals of this process do what they did. It reads nothing, both of
 * its outputs go to `output`, and it has a process group of its own. 0, or an errno: then nothing runs.
 */
int child_spawn(pid_t *pid, char *const argv[], char *const envp[], int output);

/** Waits for a signal, at most until `deadline_ns` of child_now_ns. Its number; 0: none came. */
int child_wait(const struct child *c, uint64_t deadline_ns);

/**
 * True once it has ended. *status is then what a shell gives: the exit status, or 128 and the signal's number. Other
 * children that have ended are reaped.
 */
bool child_ended(const struct child *c, int *status);

/** Signals do again what they did before child_start. Call it once the child has ended, before another is started. */
void child_release(const struct child *c);

/** From now on, descendants whose parents end become children of this process. */
void child_adopt(void);

/** Signals every child that is left. False: the kernel does not tell which they are. */
bool child_signal_all(int number);

/**
 * Waits until a child that is about to end, as by SIGKILL, has ended; *raw is then its status by waitpid. False: it has
 * not after five seconds, and so waits in the kernel, perhaps for ever. It is left to itself.
 */
bool child_reap(pid_t pid, int *raw);

/** True once no child is left. Those that have ended are reaped. */
bool child_none_left(void);

/** True for the signals that ask a program to end. */
bool child_is_ending(int number);

uint64_t child_now_ns(void);

#endif
