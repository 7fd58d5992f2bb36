/* SPDX-License-Identifier: BSD-3-Clause */
/* with_owner: another process, made by fork, that owns memory which the test reaches from outside. */
#ifndef BATON_TESTS_WITH_OWNER_H
#define BATON_TESTS_WITH_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct owner {
    pid_t id;
    int there, here; /* ends of pipes: what the other side writes to, what this one reads from */
};

/**
 * Starts the process, which runs `life` and then waits to be ended. Returns when it has called owner_rest for the first
 * time, or has ended.
 */
void owner_start(struct owner *o, void (*life)(struct owner *self, void *arg), void *arg);
/** In the owner: tells the test to go on, and waits until the test calls owner_go. */
void owner_rest(struct owner *self);
/** In the owner: ends it, unless the condition holds; the test then finds it dead. */
void owner_need(bool condition);
/** Lets the owner go on up to its next owner_rest. */
void owner_go(struct owner *o);
/** Kills it and waits until it is gone. */
void owner_end(struct owner *o);

/** Runs `run` in a process of its own, as another user where `user` is not 0. Returns its result, 0 to 99. */
int owner_elsewhere(int (*run)(void *arg), void *arg, uid_t user);

/** Memory that this process and those that it forks have in common. */
void *owner_common(size_t bytes);

/** Whether this system has cross-memory attach and pidfds; emulators of other processors do not. */
bool owner_can_attach(void);

#endif
