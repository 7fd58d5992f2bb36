/* SPDX-License-Identifier: BSD-3-Clause */
/* task: see task.h. */
#include "base/task.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define RANK_FRESH_NS (100 * CLOCK_NS_PER_MS)
#define POLICY_DEADLINE 6                /* SCHED_DEADLINE of linux/sched.h, which glibc lacks */
#define RANKS_A_POLICY (TASK_NORMAL / 2) /* more than there are nice values */

uint32_t task_id(void)
{
    static _Thread_local uint32_t id;
    if (id == 0)
        id = (uint32_t)syscall(SYS_gettid);
    return id;
}

/* Where the system does not say, a thread counts as a normal one. */
static int look_up_rank(void)
{
    const int saved = errno;
    const int policy = sched_getscheduler(0);
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, 0); /* of the thread: Linux has a nice value for each */
    if (errno != 0)
        nice = 0;
    errno = saved;
    switch (policy >= 0 ? policy & ~SCHED_RESET_ON_FORK : SCHED_OTHER) {
    case SCHED_IDLE:
        return 0;
    case SCHED_BATCH:
        return RANKS_A_POLICY - nice;
    case SCHED_FIFO:
    case SCHED_RR:
    case POLICY_DEADLINE:
        return 3 * RANKS_A_POLICY;
    default:
        return TASK_NORMAL - nice;
    }
}

int task_rank(uint64_t now_ns)
{
    static _Thread_local struct {
        uint64_t looked_ns;
        int rank;
    } mine;
    if (now_ns == 0 || mine.looked_ns == 0 || now_ns > mine.looked_ns + RANK_FRESH_NS) {
        mine.rank = look_up_rank();
        mine.looked_ns = now_ns;
    }
    return mine.rank;
}

uint64_t task_ran_ns(uint32_t id)
{
    /* As pthread_getcpuclockid makes it: the kernel's include/linux/posix-timers.h has what these ids mean. */
    const clockid_t clock = (clockid_t)(~id << 3 | 6u);
    struct timespec ran;
    const int saved = errno;
    const bool is_known = id != 0 && clock_gettime(clock, &ran) == 0; /* 0 would be the calling thread */
    errno = saved;
    return is_known ? (uint64_t)ran.tv_sec * CLOCK_NS_PER_S + (uint64_t)ran.tv_nsec : 0;
}
