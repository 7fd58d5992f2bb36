/* SPDX-License-Identifier: BSD-3-Clause */
/* process: see process.h. */
#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open /* headers of before Linux 5.3; an older kernel says that it knows no such call */
#define SYS_pidfd_open 434
#endif

enum { UNOPENED = -1, GONE = -2, UNKNOWN = -3 };

/* A poll that does not wait fails too where a signal is pending (EINTR), whatever the handler's flags. */
#define ASKED_MOST 100

struct process process_of(int id)
{
    return (struct process){.id = id, .descriptor = id == 0 ? UNKNOWN : UNOPENED};
}

static int descriptor_of(int id)
{
    int descriptor = (int)syscall(SYS_pidfd_open, id, 0);
    return descriptor >= 0 ? descriptor : errno == ESRCH ? GONE : UNKNOWN;
}

enum process_life process_alive(struct process *p)
{
    if (p->descriptor == UNOPENED)
        p->descriptor = descriptor_of(p->id);
    return process_is(p);
}

enum process_life process_is(const struct process *p)
{
    if (p->descriptor == GONE)
        return PROCESS_DEAD;
    if (p->descriptor < 0)
        return PROCESS_UNKNOWN;
    struct pollfd ended = {.fd = p->descriptor, .events = POLLIN}; /* readable once the process has ended */
    int answers = poll(&ended, 1, 0);
    for (int asked = 1; answers < 0 && errno == EINTR && asked < ASKED_MOST; asked++)
        answers = poll(&ended, 1, 0);
    if (answers == 0)
        return PROCESS_ALIVE;
    return answers == 1 && (ended.revents & POLLIN) != 0 ? PROCESS_DEAD : PROCESS_UNKNOWN;
}

void process_forget(struct process *p)
{
    if (p->descriptor >= 0)
        close(p->descriptor);
    p->descriptor = UNKNOWN;
}
