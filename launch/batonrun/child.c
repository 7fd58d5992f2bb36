/* SPDX-License-Identifier: BSD-3-Clause */
/* child: see child.h. */
#include "batonrun/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "batonrun/descriptor.h"

#define GIVE_UP_NS UINT64_C(5000000000) /* after a KILL */
#define TURN_NS UINT64_C(50000000)

static const int ending[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
static const int passing[] = {SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

bool child_is_ending(int number)
{
    for (unsigned i = 0; i < LENGTH(ending); i++)
        if (ending[i] == number)
            return true;
    return false;
}

void child_open_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
        continue;
    if (fd >= 0)
        close(fd);
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static sigset_t pipe_alone(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

void child_hold_pipe(sigset_t *before)
{
    const sigset_t set = pipe_alone();
    sigprocmask(SIG_BLOCK, &set, before);
}

void child_release_pipe(const sigset_t *before)
{
    const sigset_t set = pipe_alone();
    sigtimedwait(&set, NULL, &(struct timespec){0}); /* of a write that failed meanwhile */
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* Linux queues an ignored signal while it is blocked, as if somebody waited for it. */
static void add_unless_ignored(sigset_t *set, const int *numbers, size_t num)
{
    struct sigaction now;
    for (size_t i = 0; i < num; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, numbers[i]);
}

/* Under an inherited SIG_IGN, children vanish without a status. */
static void keep_statuses(void)
{
    signal(SIGCHLD, SIG_DFL);
}

static bool has_children(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        continue;
    return pid == 0;
}

void child_hold(struct child *c)
{
    keep_statuses();
    *c = (struct child){.has_strangers = getpid() == 1 || has_children()};
    sigemptyset(&c->taken);
    add_unless_ignored(&c->taken, ending, LENGTH(ending));
    add_unless_ignored(&c->taken, passing, LENGTH(passing));
    child_hold_pipe(&c->before);
    sigprocmask(SIG_BLOCK, &c->taken, NULL);
    if (!c->has_strangers) /* what strangers start would come to us too */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void child_release(const struct child *c)
{
    child_release_pipe(&c->before);
    if (c->asked == 0)
        return;
    raise(c->asked);
    exit(128 + c->asked); /* no signal ends the first process of a container that has no handler for it */
}

int child_wait(struct child *c, uint64_t deadline_ns)
{
    siginfo_t info = {0};
    uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
    int number = sigtimedwait(&c->taken, &info, &t);
    if (number <= 0)
        return 0;
    if (child_is_ending(number))
        c->asked = number;
    c->child_has_it = c->is_in_our_group && info.si_code == SI_KERNEL;
    return number;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* In a new process: the kernel ends it with its parent. */
static void tie(pid_t parent, int last_signal)
{
    prctl(PR_SET_PDEATHSIG, last_signal);
    if (getppid() != parent) /* it died before the line above */
        _exit(1);
}

pid_t child_fork(void)
{
    keep_statuses();
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        tie(parent, SIGKILL);
    return pid;
}

extern char **environ;

/* In the new process. An error goes through the pipe `errors`; a successful exec closes it. */
static void become(char *const argv[], const struct child_way *way, const sigset_t *mask, int errors)
{
    const int files[] = {way->input, way->output, way->errors};
    for (int i = 0; i < (int)LENGTH(files); i++)
        if (files[i] > 0)
            dup2(files[i], i);
    if (!way->is_in_our_group)
        setpgid(0, 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvpe(argv[0], argv, way->envp != NULL ? way->envp : environ);
    int error = errno;
    (void)!write(errors, &error, sizeof error);
    _exit(127);
}

int child_start(struct child *c, char *const argv[], const struct child_way *way)
{
    int ends[2], error = 0;
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    pid_t pid = fork();
    if (pid == 0) {
        tie(parent, way->last_signal);
        become(argv, way, &c->before, ends[1]);
    }
    if (pid < 0)
        error = errno;
    close(ends[1]);
    if (pid > 0 && descriptor_read(ends[0], &error, sizeof error))
        waitpid(pid, NULL, 0);
    close(ends[0]);
    if (error == 0) {
        c->pid = pid;
        c->is_in_our_group = way->is_in_our_group;
    }
    return error;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* Sends a signal to the child and its group, or to it alone in ours. False: there is nobody who can get it. */
static bool signal_child(const struct child *c, int number)
{
    if (c->pid == 0 || (c->is_in_our_group && c->has_ended))
        return false;
    return kill(c->is_in_our_group ? c->pid : -c->pid, number) == 0;
}

/* False: none is left whose end child_clear waits for. */
static bool reap(struct child *c)
{
    int raw;
    pid_t pid;
    while ((pid = waitpid(-1, &raw, WNOHANG)) > 0)
        if (pid == c->pid) {
            c->has_ended = true;
            c->status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
        }
    return c->has_strangers ? signal_child(c, 0) : pid == 0;
}

bool child_ended(struct child *c)
{
    reap(c);
    return c->has_ended;
}

/* Where the kernel does not tell which children there are, the child and its group get the signal. */
static void signal_all(const struct child *c, int number)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = c->has_strangers ? NULL : fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &pid) == 1)
        kill(pid, number);
    if (file != NULL)
        fclose(file);
    else
        signal_child(c, number);
}

bool child_clear(struct child *c, int number, uint64_t patience_ns)
{
    uint64_t now, patience_end = clock_now_ns() + patience_ns;
    while (reap(c)) {
        now = clock_now_ns();
        if (now >= patience_end + GIVE_UP_NS)
            return false;
        if (now >= patience_end)
            number = SIGKILL;
        if (number != 0)
            signal_all(c, number);
        child_wait(c, now + TURN_NS);
    }
    return true;
}

bool child_reap(pid_t pid, int *raw)
{
    uint64_t deadline = clock_now_ns() + GIVE_UP_NS;
    pid_t ended;
    while ((ended = waitpid(pid, raw, WNOHANG)) == 0 && clock_now_ns() < deadline)
        usleep(1000);
    return ended == pid;
}
