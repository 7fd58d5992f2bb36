/* SPDX-License-Identifier: BSD-3-Clause */
/* process: see process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
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
    return (struct process){.id = id, .descriptor = id == 0 ? UNKNOWN : UNOPENED, .memory = -1};
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

/* Opened while the process is known to live: its id was no other one's then. */
void process_watch(struct process *p)
{
    char path[64];
    if (p->memory >= 0 || process_alive(p) != PROCESS_ALIVE)
        return;
    snprintf(path, sizeof path, "/proc/%d/pagemap", p->id);
    p->memory = open(path, O_RDONLY | O_CLOEXEC);
    if (p->memory >= 0 && process_is(p) != PROCESS_ALIVE) {
        close(p->memory);
        p->memory = -1;
    }
}

/*
 * The file belongs to the memory of the program that ran when it was opened. A read of a part of an entry is refused
 * (EINVAL), but at the end of that memory, by execve(2) or with the process, it reads nothing (proc(5); pagemap_read in
 * fs/proc/task_mmu.c, since Linux 4.2). It needs no lock of that memory, which a fork of the process may hold for long.
 */
enum process_life process_program(const struct process *p)
{
    char part;
    const enum process_life life = process_is(p);
    if (life == PROCESS_DEAD || p->memory < 0)
        return life == PROCESS_DEAD ? PROCESS_DEAD : PROCESS_UNKNOWN;
    const ssize_t n = pread(p->memory, &part, 1, 0);
    return n == 0 ? PROCESS_DEAD : n < 0 && errno == EINVAL ? PROCESS_ALIVE : PROCESS_UNKNOWN;
}

void process_forget(struct process *p)
{
    if (p->descriptor >= 0)
        close(p->descriptor);
    if (p->memory >= 0)
        close(p->memory);
    p->descriptor = UNKNOWN;
    p->memory = -1;
}
