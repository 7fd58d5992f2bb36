/* SPDX-License-Identifier: BSD-3-Clause */
/* server: what it answers, and that clients who are slow, silent, wrong or many neither stop nor crash it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "metrics/server.h"

enum { LARGE = 4 << 20 };

static char *small(void *arg, size_t *size)
{
    *size = strlen(arg);
    return strdup(arg);
}

/* More than the buffers of a connection hold. */
static char *large(void *arg, size_t *size)
{
    (void)arg;
    *size = LARGE;
    return calloc(1, LARGE);
}

static char *nothing(void *arg, size_t *size)
{
    (void)arg;
    (void)size;
    return NULL;
}

/* A server that listens, and its port. */
static uint16_t open_at(struct server *s, const char *address)
{
    struct endpoint free_port = {.port = 0};
    struct sockaddr_in at = {0};
    socklen_t size = sizeof at;
    assert_int_equal(inet_pton(AF_INET, address, &free_port.address), 1);
    assert_int_equal(server_open(s, &free_port), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

static uint16_t start(struct server *s, char *(*text)(void *arg, size_t *size), const char *arg)
{
    uint16_t port = open_at(s, "127.0.0.1");
    assert_int_equal(server_start(s, text, (void *)(uintptr_t)arg), 0);
    return port;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* All that comes back until the server hangs up; `size` its bytes. It may hang up before it has read all. */
static char *ask(uint16_t port, const char *request, size_t request_size, size_t *size)
{
    char *text = calloc(1, 2 * LARGE);
    size_t length = 0;
    ssize_t n;
    int fd = connect_to(port);
    (void)!send(fd, request, request_size, MSG_NOSIGNAL);
    while (length < 2 * LARGE - 1 && (n = read(fd, text + length, 2 * LARGE - 1 - length)) > 0)
        length += (size_t)n;
    close(fd);
    if (size != NULL)
        *size = length;
    return text;
}

/* The request but its end. The answer has this status, this line among its header's, and this body. */
static void expect(uint16_t port, const char *lines, const char *status, const char *line, const char *body)
{
    char request[256];
    snprintf(request, sizeof request, "%s\r\nConnection: close\r\n\r\n", lines);
    char *text = ask(port, request, strlen(request), NULL);
    const char *end = strstr(text, "\r\n\r\n"), *space = strchr(text, ' ');
    if (end == NULL || space == NULL || strncmp(space + 1, status, strlen(status)) != 0 || strstr(text, line) == NULL)
        fail_msg("\"%s\" got \"%s\", not \"%s\" with \"%s\"", lines, text, status, line);
    assert_string_equal(end + 4, body);
    free(text);
}

static const char good[] = "GET /metrics HTTP/1.1\r\nHost: localhost";

static void test_answers(void **state)
{
    (void)state;
    struct server s;
    static const char type[] = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n",
                      text[] = "a 1\n# EOF\n";
    const uint16_t port = start(&s, small, text);
    expect(port, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9", "200 OK\r\n", type, text);
    expect(port, good, "200 OK\r\n", "\r\nContent-Length: 10\r\n", text);
    expect(port, "GET /metrics?x=1 HTTP/1.1\r\nA: b\r\nhost:[::1]", "200 OK\r\n", type, text);
    expect(port, "GET /metrics HTTP/1.0", "200 OK\r\n", type, text);
    expect(port, "HEAD /metrics HTTP/1.1\r\nHost: localhost", "200 OK\r\n", "\r\nContent-Length: 10\r\n", "");
    expect(port, "GET /metricsx HTTP/1.1\r\nHost: localhost", "404 Not Found\r\n", "", "");
    expect(port, "GET /../etc/passwd HTTP/1.1\r\nHost: localhost", "404 Not Found\r\n", "", "");
    expect(port, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0", "405 Method Not Allowed\r\n",
           "\r\nAllow: GET, HEAD\r\n", "");
    expect(port, "BREW /metrics HTTP/1.1\r\nHost: localhost", "405 ", "\r\nAllow: GET, HEAD\r\n", "");
    expect(port, "GET /metrics HTTP/1.1\r\nHost: rebound.example", "421 ", "", "");
    expect(port, "GET /metrics HTTP/1.1\r\nHost: localhost.example", "421 ", "", "");
    expect(port, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.2:9464", "200 OK\r\n", type, text);
    expect(port, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.2.example", "421 ", "", "");
    expect(port, "GET /metrics HTTP/1.1\r\nHost: 128.0.0.1", "421 ", "", "");
    server_close(&s);
}

static void test_large_and_none(void **state)
{
    (void)state;
    struct server s;
    uint16_t port = start(&s, large, NULL);
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    size_t size;
    free(ask(port, request, strlen(request), &size));
    assert_true(size > LARGE);
    int fd = connect_to(port); /* reads nothing: the close below does not wait for it */
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    usleep(50000);
    uint64_t began = clock_now_ns();
    server_close(&s);
    assert_true(clock_now_ns() - began < CLOCK_NS_PER_S);
    close(fd);
    port = start(&s, nothing, NULL);
    expect(port, good, "503 ", "", "");
    server_close(&s);
}

/* What is no request, or a very long one, is refused or hung up on. */
static void test_no_requests(void **state)
{
    (void)state;
    struct server s;
    const uint16_t port = start(&s, small, "# EOF\n");
    static const char *const starts[] = {"", "GET /",
                                         "GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: ", "\x16\x03\x01\xff"};
    static char flood[1 << 20];
    for (unsigned i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        memset(flood, i == 0 ? '\0' : 'a', sizeof flood);
        memcpy(flood, starts[i], strlen(starts[i]));
        char *text = ask(port, flood, sizeof flood, NULL);
        if (text[0] != '\0' && strncmp(text, "HTTP/1.1 4", 10) != 0)
            fail_msg("a flood of \"%s\" got \"%s\"", starts[i], text);
        free(text);
        expect(port, good, "200 OK\r\n", "", "# EOF\n");
    }
    server_close(&s);
}

/* Waits until the server hangs up, and closes. */
static void await_end(int fd)
{
    char byte;
    while (recv(fd, &byte, 1, 0) > 0)
        ;
    close(fd);
}

/* Whoever says nothing, or goes on saying a little, keeps nobody out, however many there are, and is hung up on. */
static void test_slow_clients(void **state)
{
    (void)state;
    struct server s;
    const uint16_t port = start(&s, small, "# EOF\n");
    enum { SLOW = 4 * SERVER_CLIENTS };
    int slow[SLOW];
    uint64_t began = clock_now_ns();
    for (unsigned i = 0; i < SLOW; i++) {
        slow[i] = connect_to(port);
        assert_int_equal(send(slow[i], "GET", i % 3, MSG_NOSIGNAL), i % 3);
        (void)!send(slow[i / 2], "/", 1, MSG_NOSIGNAL);
    }
    expect(port, good, "200 OK\r\n", "", "# EOF\n");
    assert_true(clock_now_ns() - began < SERVER_IDLE_S * CLOCK_NS_PER_S / 2);
    for (unsigned i = 0; i < SLOW; i++)
        await_end(slow[i]);
    assert_true(clock_now_ns() - began < (SERVER_IDLE_S + 5) * CLOCK_NS_PER_S);
    int silent = connect_to(port);
    usleep(50000);
    began = clock_now_ns();
    server_close(&s);
    assert_true(clock_now_ns() - began < CLOCK_NS_PER_S);
    await_end(silent);
}

static void test_a_port_in_use(void **state)
{
    (void)state;
    struct server s, other;
    char text[16];
    struct endpoint at;
    snprintf(text, sizeof text, "%u", open_at(&s, "127.0.0.1"));
    assert_true(endpoint_read(text, &at));
    assert_int_equal(server_open(&other, &at), EADDRINUSE);
    server_close(&s);
    assert_int_equal(server_open(&s, &at), 0);
    server_close(&s);
}

static void test_others_reach_it_if_they_may(void **state)
{
    (void)state;
    struct server s;
    struct endpoint at;
    const uint16_t port = open_at(&s, "0.0.0.0");
    assert_int_equal(server_start(&s, small, (void *)(uintptr_t) "# EOF\n"), 0);
    expect(port, "GET /metrics HTTP/1.1\r\nHost: n07.example:9464", "200 OK\r\n", "", "# EOF\n");
    server_close(&s);
    assert_true(endpoint_read("9464", &at) && at.port == 9464 && endpoint_is_local(&at));
    assert_true(endpoint_read("127.0.0.2:1", &at) && at.port == 1 && endpoint_is_local(&at));
    assert_true(endpoint_read("10.0.0.7:65535", &at) && at.port == 65535 && !endpoint_is_local(&at));
    assert_true(endpoint_read("0.0.0.0:9464", &at) && !endpoint_is_local(&at));
    static const char *const none[] = {
        "",         "0",        "65536",       ":1",        "1:2:3",      "localhost:9464",
        "10.0.0.7", "10.0.0:1", "10.0.0.7:1x", "10.0.0.7:", "[::1]:9464", "1000000000000000:1"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (endpoint_read(none[i], &at))
            fail_msg("\"%s\" was taken for an endpoint", none[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),       cmocka_unit_test(test_large_and_none),
        cmocka_unit_test(test_no_requests),   cmocka_unit_test(test_slow_clients),
        cmocka_unit_test(test_a_port_in_use), cmocka_unit_test(test_others_reach_it_if_they_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
