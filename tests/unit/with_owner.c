/* SPDX-License-Identifier: BSD-3-Clause */
/* with_owner: see with_owner.h. */
#include "with_owner.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/process.h"

void owner_need(bool condition)
{
    if (!condition)
        _exit(1);
}

static void tell(int to)
{
    char byte = 1;
    if (write(to, &byte, 1) != 1)
        _exit(1);
}

static bool hear(int from)
{
    char byte;
    return read(from, &byte, 1) == 1;
}

void owner_rest(struct owner *self)
{
    tell(self->there);
    owner_need(hear(self->here));
}

void owner_start(struct owner *o, void (*life)(struct owner *self, void *arg), void *arg)
{
    int up[2], down[2];
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    o->id = fork();
    assert_true(o->id >= 0);
    if (o->id == 0) {
        struct owner self = {.there = up[1], .here = down[0]};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(up[0]);
        close(down[1]);
        life(&self, arg);
        owner_rest(&self);
        _exit(0);
    }
    close(up[1]);
    close(down[0]);
    o->there = down[1];
    o->here = up[0];
    hear(o->here);
}

void owner_go(struct owner *o)
{
    tell(o->there);
    hear(o->here);
}

void owner_end(struct owner *o)
{
    kill(o->id, SIGKILL);
    assert_int_equal(waitpid(o->id, NULL, 0), o->id);
    close(o->there);
    close(o->here);
}

int owner_elsewhere(int (*run)(void *arg), void *arg, uid_t user)
{
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        owner_need(user == 0 || (setgid(user) == 0 && setuid(user) == 0));
        _exit(run(arg));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void *owner_common(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

bool owner_can_attach(void)
{
    char from = 7, to = 0;
    const struct iovec mine = {&to, 1}, theirs = {&from, 1};
    struct process self = process_of(getpid());
    bool has_descriptor = process_alive(&self) == PROCESS_ALIVE;
    process_forget(&self);
    return has_descriptor && process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == 1 && to == 7;
}
