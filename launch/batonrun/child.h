/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child: a process that this one started and stays responsible for, with all that it starts in turn: how it is started,
 * waited for, and ended. Nothing here runs in a signal handler: signals wait until they are asked for.
 *
 * This process may have strangers for children, which it did not start: those of the shell that became it by exec, or,
 * in the first process of a container, all whose parents end. Strangers get no signal, and nothing waits for them.
 */
#ifndef BATON_LAUNCH_CHILD_H
#define BATON_LAUNCH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid; /* 0: none was started */
    bool is_in_our_group;
    bool has_strangers; /* among our children: of these only the child, or the group that it has, is known to be ours */
    bool has_ended;
    int status;        /* once it has ended, as a shell gives it: the exit status, or 128 and the signal's number */
    int asked;         /* the last signal that asked this process to end; 0: none did */
    bool child_has_it; /* the terminal sent the last signal, and sent it to the child too */
    sigset_t taken;    /* signals that wait for child_wait */
    sigset_t before;   /* what was blocked before */
};

/** How a child is started. What is 0 is as in this process. */
struct child_way {
    char *const *envp;
    int input, output, errors; /* its standard files */
    int last_signal;           /* the kernel sends it when this process dies, however that happens; 0: none */
    bool is_in_our_group;      /* else it gets a group of its own: a signal to our whole group reaches it once, by us */
};

/**
 * Prepares *c. From now on signals wait for child_wait, except those that this process ignores, and a write that nobody
 * reads fails without a signal. Unless there are strangers, descendants whose parents end become children of this
 * process.
 */
void child_hold(struct child *c);

/**
 * Signals do again what they did before child_hold, and so does one that asked this process to end meanwhile: it ends
 * it now. Call it once the child has ended.
 */
void child_release(const struct child *c);

/**
 * Runs argv, found by PATH, after child_hold. Call it in the main thread: the kernel watches the thread that forks.
 * 0, or an errno: then nothing runs.
 */
int child_start(struct child *c, char *const argv[], const struct child_way *way);

/**
 * Forks a process that runs on here, and gets a KILL when this one dies. Call it in the main thread. As fork: -1 on
 * error, 0 in the new process.
 */
pid_t child_fork(void);

/** Between these two a write that nobody reads fails without a signal. *before: what was blocked, and is again. */
void child_hold_pipe(sigset_t *before);
void child_release_pipe(const sigset_t *before);

/** Waits for a signal, at most until `deadline_ns` of clock_now_ns. Its number; 0: none came. */
int child_wait(struct child *c, uint64_t deadline_ns);

/** Reaps all children that have ended, strangers too. Returns c->has_ended. */
bool child_ended(struct child *c);

/**
 * Waits until this process has no children, also none that others left to it; where it has strangers, until the child
 * and its group have ended. They get the signal `number` again and again (0: none). Those that are left after
 * `patience_ns` get a KILL. False: some are still there five seconds after that. They wait in the kernel, perhaps for
 * ever, and are left to themselves.
 */
bool child_clear(struct child *c, int number, uint64_t patience_ns);

/**
 * Waits until a process of child_fork that is about to end has ended; *raw is then its status by waitpid. False: it has
 * not after five seconds, and so waits in the kernel, perhaps for ever. It is left to itself.
 */
bool child_reap(pid_t pid, int *raw);

/** True for the signals that ask a program to end. */
bool child_is_ending(int number);

/**
 * Opens /dev/null for reading where a standard file is closed, so that no other file gets its number; what is written
 * there fails as before. Call it first of all.
 */
void child_open_standard(void);

#endif
