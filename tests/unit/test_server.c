/* SPDX-License-Identifier: BSD-3-Clause */
/* server: what it answers, and that clients who are slow, silent or wrong neither stop nor crash it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
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

static int connect_to(const struct server *s)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(server_port(s)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* All that comes back; `size` its bytes. */
static char *ask(const struct server *s, const char *request, size_t *size)
{
    char *text = calloc(1, 2 * LARGE);
    size_t length = 0;
    ssize_t n;
    int fd = connect_to(s);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    while (length < 2 * LARGE - 1 && (n = read(fd, text + length, 2 * LARGE - 1 - length)) > 0)
        length += (size_t)n;
    close(fd);
    if (size != NULL)
        *size = length;
    return text;
}

static void expect(const struct server *s, const char *request, const char *start, const char *body)
{
    char *text = ask(s, request, NULL);
    const char *end = strstr(text, "\r\n\r\n");
    if (strncmp(text, start, strlen(start)) != 0)
        fail_msg("\"%s\" got \"%s\", not \"%s\"", request, text, start);
    assert_non_null(end);
    assert_string_equal(end + 4, body);
    free(text);
}

static void test_answers(void **state)
{
    (void)state;
    struct server s;
    assert_int_equal(server_open(&s, 0), 0);
    assert_int_equal(server_start(&s, small, (void *)(uintptr_t) "a 1\n# EOF\n"), 0);
    expect(&s, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
           "Content-Length: 10\r\nConnection: close\r\n",
           "a 1\n# EOF\n");
    expect(&s, "GET /metrics?x=1 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "a 1\n# EOF\n");
    expect(&s, "GET /metrics HTTP/1.0\n\n", "HTTP/1.1 200 OK\r\n", "a 1\n# EOF\n");
    expect(&s, "HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "");
    expect(&s, "GET /metricsx HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "");
    expect(&s, "GET /../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "");
    expect(&s, "POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n", "");
    expect(&s, "\r\n\r\n", "HTTP/1.1 405 ", "");
    expect(&s, "GET /metrics HTTP/1.1\r\nA: b\r\nhost:localhost\r\n\r\n", "HTTP/1.1 200 OK\r\n", "a 1\n# EOF\n");
    expect(&s, "GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "HTTP/1.1 421 ", "");
    expect(&s, "GET /metrics HTTP/1.1\r\nHost: localhost.example\r\n\r\n", "HTTP/1.1 421 ", "");
    server_close(&s);
}

static void test_large_and_none(void **state)
{
    (void)state;
    struct server s;
    size_t size;
    assert_int_equal(server_open(&s, 0), 0);
    assert_int_equal(server_start(&s, large, NULL), 0);
    free(ask(&s, "GET /metrics HTTP/1.1\r\n\r\n", &size));
    assert_true(size > LARGE);
    int fd = connect_to(&s); /* reads nothing: the close below does not wait for it */
    assert_int_equal(send(fd, "GET /metrics HTTP/1.1\r\n\r\n", 25, 0), 25);
    usleep(50000);
    server_close(&s);
    close(fd);
    assert_int_equal(server_open(&s, 0), 0);
    assert_int_equal(server_start(&s, nothing, NULL), 0);
    expect(&s, "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 503 ", "");
    server_close(&s);
}

/* Whoever sends too much is hung up on; whoever goes away or sends nothing does not keep others for long. */
static void test_bad_clients(void **state)
{
    (void)state;
    struct server s;
    char flood[2 * SERVER_REQUEST_MOST];
    memset(flood, 'a', sizeof flood - 1);
    flood[sizeof flood - 1] = '\0';
    assert_int_equal(server_open(&s, 0), 0);
    assert_int_equal(server_start(&s, small, (void *)(uintptr_t) "# EOF\n"), 0);
    int fd = connect_to(&s);
    (void)!send(fd, flood, sizeof flood, MSG_NOSIGNAL);
    char byte;
    assert_true(recv(fd, &byte, 1, 0) <= 0); /* nothing is answered */
    close(fd);
    close(connect_to(&s));
    int silent[3];
    for (int i = 0; i < 3; i++) {
        silent[i] = connect_to(&s);
        assert_int_equal(send(silent[i], "GET", i, 0), i); /* and those that say a little are as slow */
    }
    uint64_t began = clock_now_ns();
    expect(&s, "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
           "# EOF\n"); /* once the silent ones were given up */
    assert_true(clock_now_ns() - began < SERVER_CLIENT_NS);
    for (int i = 0; i < 3; i++)
        close(silent[i]);
    silent[0] = connect_to(&s);
    usleep(50000);
    server_close(&s); /* at once */
    close(silent[0]);
}

static void test_a_port_in_use(void **state)
{
    (void)state;
    struct server s, other;
    assert_int_equal(server_open(&s, 0), 0);
    assert_int_not_equal(server_open(&other, server_port(&s)), 0);
    server_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_large_and_none),
        cmocka_unit_test(test_bad_clients),
        cmocka_unit_test(test_a_port_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
