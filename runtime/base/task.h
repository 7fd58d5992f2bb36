/* SPDX-License-Identifier: BSD-3-Clause */
/* task: a thread as the system knows it, whoever made it: its id, how the scheduler ranks it, how long it has run. */
#ifndef BATON_BASE_TASK_H
#define BATON_BASE_TASK_H

#include <stdint.h>

/** The system's id of the calling thread. A system call at the thread's first call alone. */
uint32_t task_id(void);

/**
 * How the scheduler ranks the calling thread: of two threads, the one with the greater number comes first. Policies
 * come before nice values: real time, normal, batch, idle. It is looked up again where the last look is more than 100
 * ms before `now_ns`; 0: now.
 */
int task_rank(uint64_t now_ns);

/** The rank of a normal thread of nice value 0. */
#define TASK_NORMAL 200

/** How long a thread of this process has run, by its id, in ns; 0: the system does not say. */
uint64_t task_ran_ns(uint32_t id);

#endif
