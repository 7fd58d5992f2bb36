/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: whether other processes live, by descriptors of theirs (pidfd). The system may give the id of a process that
 * has ended to another one, but a descriptor means the same process for ever. It says nothing of the program that the
 * process runs: execve(2) replaces that, and its memory, under the same id and descriptor.
 */
#ifndef BATON_BASE_PROCESS_H
#define BATON_BASE_PROCESS_H

#include <stdint.h>

enum process_life { PROCESS_ALIVE, PROCESS_DEAD, PROCESS_UNKNOWN };

/** How a program is recognised by its memory: bytes that no other program has in that place. */
struct process_sample {
    const uint8_t *known; /* here; NULL: none is known */
    uint64_t at;          /* their address there */
};
#define PROCESS_SAMPLE_BYTES 64

/** One process; `id` 0: not known. The descriptor is opened when it is first asked for. */
struct process {
    int id, descriptor;
    int memory;                   /* a descriptor that knows its program's memory; -1: none */
    struct process_sample sample; /* for who reads or writes its memory */
};

struct process process_of(int id);
/**
 * PROCESS_DEAD is said only of a process that has surely ended. PROCESS_UNKNOWN: its id or descriptor is not known
 * here, or the system gave no answer.
 */
enum process_life process_alive(struct process *p);
/** The same of one that was asked for before. Any thread. */
enum process_life process_is(const struct process *p);
/**
 * From now on process_program tells of the program that it runs now. Without effect where the system does not let us.
 */
void process_watch(struct process *p);
/**
 * Whether it still runs that program. PROCESS_DEAD: it has ended, or runs another one. PROCESS_UNKNOWN: it lives, as
 * far as is known, and the system does not say more. Never waits for that process. Any thread.
 */
enum process_life process_program(const struct process *p);
void process_forget(struct process *p);

#endif
