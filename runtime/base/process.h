/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: whether other processes live, by descriptors of theirs (pidfd). The system may give the id of a process that
 * has ended to another one, but a descriptor means the same process for ever.
 */
#ifndef BATON_BASE_PROCESS_H
#define BATON_BASE_PROCESS_H

enum process_life { PROCESS_ALIVE, PROCESS_DEAD, PROCESS_UNKNOWN };

/** One process; `id` 0: not known. The descriptor is opened when it is first asked for. */
struct process {
    int id, descriptor;
};

struct process process_of(int id);
/**
 * PROCESS_DEAD is said only of a process that has surely ended. PROCESS_UNKNOWN: its id or descriptor is not known here,
 * or the system gave no answer.
 */
enum process_life process_alive(struct process *p);
/** The same of one that was asked for before. Any thread. */
enum process_life process_is(const struct process *p);
void process_forget(struct process *p);

#endif
