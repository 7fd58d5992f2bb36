/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * measure: runs a command, its output to nowhere, and prints the time that it computed and the most memory that it had.
 * Other work on the machine makes that time hardly longer.
 *
 *   measure SECONDS MIB COMMAND...     status 1: it took more than that, or failed
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(char **command)
{
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0)
        execvp(command[0], command);
    fprintf(stderr, "measure: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

static double seconds_of(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: measure SECONDS MIB COMMAND...\n", stderr);
        return 2;
    }
    double most_s = strtod(argv[1], NULL), most_mib = strtod(argv[2], NULL);
    struct rusage use;
    int status;
    pid_t child = fork();
    if (child == 0)
        become(&argv[3]);
    if (child < 0 || wait4(child, &status, 0, &use) != child) {
        fprintf(stderr, "measure: %s\n", strerror(errno));
        return 2;
    }
    double seconds = seconds_of(&use.ru_utime) + seconds_of(&use.ru_stime), mib = (double)use.ru_maxrss / 1024;
    printf("%.2f s, %.0f MiB\n", seconds, mib);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0 && seconds <= most_s && mib <= most_mib);
}
