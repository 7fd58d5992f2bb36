/* SPDX-License-Identifier: BSD-3-Clause */
/* server: see server.h. Every wait is a poll with the client's deadline, and ends when the server does. */
#include "metrics/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define WAITING 16 /* clients that the kernel keeps */

/* Waits until the descriptor is ready. False: the time is over, or the server ends. `due_ns` 0: for ever. */
static bool await(const struct server *s, int fd, short what, uint64_t due_ns)
{
    struct pollfd p[2] = {{.fd = fd, .events = what}, {.fd = s->wake[0], .events = POLLIN}};
    for (;;) {
        uint64_t now = clock_now_ns();
        int ms = due_ns == 0 ? -1 : due_ns > now ? (int)((due_ns - now) / CLOCK_NS_PER_MS) + 1 : 0;
        int n = poll(p, 2, ms);
        if (n < 0 && errno == EINTR)
            continue;
        return n > 0 && p[1].revents == 0;
    }
}

/* ---- one client -------------------------------------------------------------------------------------------------- */

/* Reads up to the empty line. False: it does not come. */
static bool take_request(const struct server *s, int fd, uint64_t due_ns, char request[SERVER_REQUEST_MOST + 1])
{
    size_t length = 0;
    request[0] = '\0';
    while (strstr(request, "\r\n\r\n") == NULL && strstr(request, "\n\n") == NULL) {
        if (length == SERVER_REQUEST_MOST || !await(s, fd, POLLIN, due_ns))
            return false;
        ssize_t n = recv(fd, request + length, SERVER_REQUEST_MOST - length, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return false;
        length += (size_t)n;
        request[length] = '\0';
    }
    return true;
}

static void give(const struct server *s, int fd, uint64_t due_ns, const char *bytes, size_t count)
{
    while (count > 0 && await(s, fd, POLLOUT, due_ns)) {
        ssize_t n = send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
}

/* Whether the request's line is METHOD and that path, perhaps with a query behind it. */
static bool asks(const char *request, const char *method, const char *path)
{
    const size_t m = strlen(method), p = strlen(path);
    return strncmp(request, method, m) == 0 && request[m] == ' ' && strncmp(request + m + 1, path, p) == 0 &&
           strchr(" ?", request[m + 1 + p]) != NULL && request[m + 1 + p] != '\0';
}

/*
 * Whether the request names this host by a word for itself, or none: a page in a browser that has its own name lead
 * here must not read what is here.
 */
static bool is_for_here(const char *request)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host = strcasestr(request, "\nHost:");
    if (host == NULL)
        return true;
    host += strlen("\nHost:");
    host += strspn(host, " \t");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncasecmp(host, names[i], strlen(names[i])) == 0 && strchr(":\r\n ", host[strlen(names[i])]) != NULL)
            return true;
    return false;
}

static void answer(const struct server *s, int fd)
{
    static const char misdirected[] =
        "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    static const char type[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const uint64_t now = clock_now_ns(), due_ns = now + SERVER_CLIENT_NS;
    char request[SERVER_REQUEST_MOST + 1], head[256];
    const char *status = "404 Not Found";
    char *text = NULL;
    size_t size = 0;
    if (!take_request(s, fd, now + SERVER_REQUEST_NS, request))
        return;
    if (!is_for_here(request)) {
        give(s, fd, due_ns, misdirected, strlen(misdirected));
        return;
    }
    bool is_get = asks(request, "GET", "/metrics"), is_head = asks(request, "HEAD", "/metrics");
    if (is_get || is_head) {
        text = s->text(s->arg, &size);
        status = text != NULL ? "200 OK" : "503 Service Unavailable";
    } else if (strncmp(request, "GET ", 4) != 0 && strncmp(request, "HEAD ", 5) != 0) {
        status = "405 Method Not Allowed\r\nAllow: GET, HEAD";
    }
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
                     text != NULL ? type : "text/plain", size);
    give(s, fd, due_ns, head, (size_t)n);
    if (is_get)
        give(s, fd, due_ns, text, size);
    free(text);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *server_main(void *arg)
{
    const struct server *s = arg;
    while (await(s, s->listener, POLLIN, 0)) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            await(s, -1, 0, clock_now_ns() + CLOCK_NS_PER_S / 10); /* of descriptors, say: not again at once */
            continue;
        }
        answer(s, fd);
        close(fd);
    }
    return NULL;
}

int server_open(struct server *s, uint16_t port)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *s = (struct server){.listener = -1, .wake = {-1, -1}};
    if (pipe2(s->wake, O_CLOEXEC) != 0)
        return errno;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = s->listener < 0 ? errno : 0;
    const int on = 1;
    if (error == 0)
        setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* after a job that has just ended */
    if (error == 0 &&
        (bind(s->listener, (const struct sockaddr *)&at, sizeof at) != 0 || listen(s->listener, WAITING) != 0))
        error = errno;
    if (error != 0)
        server_close(s);
    return error;
}

uint16_t server_port(const struct server *s)
{
    struct sockaddr_in at = {0};
    socklen_t size = sizeof at;
    return getsockname(s->listener, (struct sockaddr *)&at, &size) == 0 ? ntohs(at.sin_port) : 0;
}

int server_start(struct server *s, char *(*text)(void *arg, size_t *size), void *arg)
{
    s->text = text;
    s->arg = arg;
    int error = pthread_create(&s->thread, NULL, server_main, s);
    if (error != 0)
        s->text = NULL;
    return error;
}

void server_close(struct server *s)
{
    if (s->wake[1] >= 0)
        close(s->wake[1]); /* the thread sees the end of the pipe */
    if (s->text != NULL)
        pthread_join(s->thread, NULL);
    if (s->wake[0] >= 0)
        close(s->wake[0]);
    if (s->listener >= 0)
        close(s->listener);
    *s = (struct server){.listener = -1, .wake = {-1, -1}};
}
