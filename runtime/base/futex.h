/* SPDX-License-Identifier: BSD-3-Clause */
/* futex: the system call, which the C library does not wrap (futex(2)). For the files of base that sleep on a word. */
#ifndef BATON_BASE_FUTEX_H
#define BATON_BASE_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is a plain word of 32 bits");

/** `timeout`: of a wait, from now on; NULL: none. Whoever waits looks at the word afterwards. Keeps errno. */
static inline void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    const int saved = errno;
    syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
    errno = saved;
}

#endif
