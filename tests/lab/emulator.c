/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emulator: a network link between two network namespaces, by a TAP device in each, that can be impaired while it runs.
 *
 *   lab_emulator CONTROL ANSWER SEED NAMESPACE INTERFACE NAMESPACE INTERFACE
 *
 * CONTROL and ANSWER are FIFOs, NAMESPACE a path such as /proc/PID/ns/net. Each line of CONTROL holds settings (see
 * link.h) for both directions. One line answers it: what became of all frames so far; or "error: ..." where a word is
 * wrong, and then nothing changes. The answer to an empty first line says that the link is up.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "lab/link.h"

#define BATCH 64 /* frames of one direction before it is the other's turn */

static struct {
    int tap[2], control, answer;
    struct link *link[2]; /* link[i] carries what was read from tap[i] */
    uint64_t refused;     /* frames that a TAP did not take */
    char line[512];
    size_t length;
} emulator;

static void die(const char *what)
{
    fprintf(stderr, "lab_emulator: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_tap(const char *namespace, const char *interface)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open(namespace, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        die(namespace);
    close(fd);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        die(interface);
    return fd;
}

/* Opened for reading and writing, so that it never reaches its end. */
static int open_fifo(const char *path)
{
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        die(path);
    return fd;
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static void answer(const char *bad)
{
    char text[512];
    const struct link_counts *a = link_counts(emulator.link[0]), *b = link_counts(emulator.link[1]);
#define BOTH(field) (unsigned long long)(a->field + b->field)
    if (bad != NULL)
        snprintf(text, sizeof text, "error: \"%s\" is not a setting of a link\n", bad);
    else
        snprintf(text, sizeof text,
                 "taken=%llu given=%llu lost=%llu duplicated=%llu reordered=%llu cut=%llu full=%llu refused=%llu\n",
                 BOTH(taken), BOTH(given), BOTH(lost), BOTH(duplicated), BOTH(reordered), BOTH(cut), BOTH(full),
                 (unsigned long long)emulator.refused);
#undef BOTH
    if (write(emulator.answer, text, strlen(text)) < 0)
        fprintf(stderr, "lab_emulator: nobody takes its answers: %s\n", strerror(errno));
}

static void obey(const char *line)
{
    struct link_settings s;
    char bad[64];
    if (!link_settings_parse(line, &s, bad, sizeof bad)) {
        answer(bad);
        return;
    }
    link_set(emulator.link[0], &s);
    link_set(emulator.link[1], &s);
    answer(NULL);
}

static void read_control(void)
{
    ssize_t n = read(emulator.control, emulator.line + emulator.length, sizeof emulator.line - 1 - emulator.length);
    if (n <= 0)
        return;
    emulator.length += (size_t)n;
    emulator.line[emulator.length] = '\0';
    char *end;
    while ((end = strchr(emulator.line, '\n')) != NULL) {
        *end = '\0';
        obey(emulator.line);
        emulator.length -= (size_t)(end + 1 - emulator.line);
        memmove(emulator.line, end + 1, emulator.length + 1);
    }
    if (emulator.length == sizeof emulator.line - 1) {
        answer("a line without end");
        emulator.length = 0;
    }
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static void take_frames(int i)
{
    static uint8_t frame[LINK_FRAME_MAX];
    for (int n = 0; n < BATCH; n++) {
        ssize_t size = read(emulator.tap[i], frame, sizeof frame);
        if (size <= 0)
            return;
        link_take(emulator.link[i], now_ns(), frame, (uint32_t)size);
    }
}

static void give_frames(int i)
{
    static uint8_t frame[LINK_FRAME_MAX];
    uint32_t size;
    uint64_t now = now_ns();
    while ((size = link_give(emulator.link[i], now, frame)) > 0)
        emulator.refused += write(emulator.tap[!i], frame, size) != (ssize_t)size;
}

static void wait_for_work(void)
{
    struct pollfd fds[3] = {{.fd = emulator.tap[0], .events = POLLIN},
                            {.fd = emulator.tap[1], .events = POLLIN},
                            {.fd = emulator.control, .events = POLLIN}};
    uint64_t now = now_ns(), due = link_due_ns(emulator.link[0]), other = link_due_ns(emulator.link[1]);
    struct timespec left = {.tv_sec = 60};
    due = due < other ? due : other;
    if (due < now + UINT64_C(60000000000)) {
        uint64_t ns = due > now ? due - now : 0;
        left = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    }
    if (ppoll(fds, 3, &left, NULL) < 0 && errno != EINTR)
        die("ppoll");
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fputs("usage: lab_emulator CONTROL ANSWER SEED NAMESPACE INTERFACE NAMESPACE INTERFACE\n", stderr);
        return 2;
    }
    emulator.control = open_fifo(argv[1]);
    emulator.answer = open_fifo(argv[2]);
    uint64_t seed = strtoull(argv[3], NULL, 10);
    for (int i = 0; i < 2; i++) {
        emulator.tap[i] = open_tap(argv[4 + 2 * i], argv[5 + 2 * i]);
        emulator.link[i] = link_create(2 * seed + (uint64_t)i);
        if (emulator.link[i] == NULL)
            die("memory");
    }
    for (;;) {
        wait_for_work();
        read_control();
        for (int i = 0; i < 2; i++) {
            take_frames(i);
            give_frames(i);
        }
    }
}
