/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked: whether this process is a copy of one that had opened a context. The copy has the memory of all that the
 * context is made of, and none of its threads; MPI, the segments and the descriptors are its parent's.
 *
 * The mark is a page that the kernel clears in every copy of the process (MADV_WIPEONFORK, Linux 4.14), also where no
 * handler of pthread_atfork runs: by _Fork or clone. To look at it costs two loads; getpid is a system call. Where the
 * kernel has no such pages, a handler clears the mark, after fork alone.
 */
#ifndef BATON_BASE_FORKED_H
#define BATON_BASE_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>

/** Of forked.c alone: 0 in a copy. */
extern const atomic_uchar *_Atomic forked_mark;

/**
 * From now on copies of this process are told apart. Once in a process; later calls, also in a copy, change nothing.
 * 0, or an errno. Any thread.
 */
int forked_watch(void);

/** Whether this process is a copy of one that had called forked_watch. Any thread. */
static inline bool forked_is(void)
{
    /* Acquire: whoever finds the page finds it marked. */
    return atomic_load_explicit(atomic_load_explicit(&forked_mark, memory_order_acquire), memory_order_relaxed) == 0;
}

#endif
