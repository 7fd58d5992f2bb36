/* SPDX-License-Identifier: BSD-3-Clause */
/* child: see child.h. It waits for signals: nothing here runs in a signal handler. */
#include "batonrun/child.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REAP_NS UINT64_C(5000000000)

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

uint64_t child_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void take_signals(sigset_t *taken, sigset_t *before)
{
    sigemptyset(taken);
    for (unsigned i = 0; i < LENGTH(ending); i++)
        sigaddset(taken, ending[i]);
    for (unsigned i = 0; i < LENGTH(passing); i++)
        sigaddset(taken, passing[i]);
    signal(SIGCHLD, SIG_DFL); /* under an inherited SIG_IGN, children vanish without a status */
    sigprocmask(SIG_BLOCK, taken, before);
}

/* In the new process. An error goes through the pipe `errors`; a successful exec closes it. */
static void become(char **argv, int last_signal, pid_t parent, const sigset_t *mask, int errors, int input_from,
                   int errors_to)
{
    if (input_from >= 0)
        dup2(input_from, STDIN_FILENO);
    if (errors_to >= 0)
        dup2(errors_to, STDERR_FILENO);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, last_signal);
    if (getppid() != parent) /* it died before the line above */
        _exit(1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    int error = errno;
    (void)!write(errors, &error, sizeof error);
    _exit(127);
}

int child_start(struct child *c, char **argv, int last_signal, int input_from, int errors_to)
{
    int ends[2], error = 0;
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    take_signals(&c->taken, &c->before);
    c->pid = fork();
    if (c->pid == 0)
        become(argv, last_signal, parent, &c->before, ends[1], input_from, errors_to);
    if (c->pid < 0)
        error = errno;
    close(ends[1]);
    if (c->pid > 0 && read(ends[0], &error, sizeof error) == (ssize_t)sizeof error)
        waitpid(c->pid, NULL, 0);
    close(ends[0]);
    if (error != 0)
        child_release(c);
    return error;
}

int child_spawn(pid_t *pid, char *const argv[], char *const envp[], int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, envp);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

void child_release(const struct child *c)
{
    sigprocmask(SIG_SETMASK, &c->before, NULL);
}

int child_wait(const struct child *c, uint64_t deadline_ns)
{
    uint64_t now = child_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
    int number = sigtimedwait(&c->taken, NULL, &t);
    return number > 0 ? number : 0;
}

bool child_ended(const struct child *c, int *status)
{
    int raw;
    pid_t pid;
    while ((pid = waitpid(-1, &raw, WNOHANG)) != c->pid)
        if (pid <= 0)
            return false;
    *status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    return true;
}

void child_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool child_signal_all(int number)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (fscanf(file, "%d", &pid) == 1)
        kill(pid, number);
    fclose(file);
    return true;
}

bool child_reap(pid_t pid, int *raw)
{
    uint64_t deadline = child_now_ns() + REAP_NS;
    pid_t ended;
    while ((ended = waitpid(pid, raw, WNOHANG)) == 0 && child_now_ns() < deadline)
        usleep(1000);
    return ended == pid;
}

bool child_none_left(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        continue;
    return pid < 0;
}
