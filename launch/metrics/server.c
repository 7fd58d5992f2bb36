/* SPDX-License-Identifier: BSD-3-Clause */
/* server: see server.h. Without libmicrohttpd nothing listens. */
#include "metrics/server.h"

#include <errno.h>

#ifdef LAUNCH_HTTP

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Whether the request names this host by a word for itself, or none: a page in a browser that has its own name lead
 * here must not read what is here.
 */
static bool is_for_here(struct MHD_Connection *client)
{
    static const char *const names[] = {"localhost", "[::1]"};
    const char *host = MHD_lookup_connection_value(client, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (host == NULL)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i]);
        if (strncasecmp(host, names[i], length) == 0 && (host[length] == '\0' || host[length] == ':'))
            return true;
    }
    char address[INET_ADDRSTRLEN];
    struct endpoint named;
    snprintf(address, sizeof address, "%.*s", (int)strcspn(host, ":"), host);
    return inet_pton(AF_INET, address, &named.address) == 1 && endpoint_is_local(&named);
}

/* `text`: malloc'ed; NULL: the status says all. */
static enum MHD_Result give(struct MHD_Connection *client, unsigned status, char *text, size_t size)
{
    static const char type[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    if (text != NULL)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(client, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *server, struct MHD_Connection *client, const char *path, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **request)
{
    const struct server *s = server;
    size_t size = 0;
    (void)version, (void)upload, (void)upload_size, (void)request;
    if (s->is_local && !is_for_here(client))
        return give(client, MHD_HTTP_MISDIRECTED_REQUEST, NULL, 0);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return give(client, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, 0);
    if (strcmp(path, "/metrics") != 0)
        return give(client, MHD_HTTP_NOT_FOUND, NULL, 0);
    char *text = s->text(s->arg, &size);
    return text != NULL ? give(client, MHD_HTTP_OK, text, size) : give(client, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, 0);
}

/* A client takes the place of the one that came CLIENTS before it: slow ones never keep others out. */
static void note(void *server, struct MHD_Connection *client, void **place, enum MHD_ConnectionNotificationCode what)
{
    struct server *s = server;
    const int socket = MHD_get_connection_info(client, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int *own = &s->clients[s->next++ % SERVER_CLIENTS];
        if (*own != 0)
            shutdown(*own, SHUT_RDWR);
        *own = socket;
        *place = own;
    } else if (*(int *)*place == socket) {
        *(int *)*place = 0;
    }
}

int server_open(struct server *s, const struct endpoint *where)
{
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(where->port), .sin_addr = where->address};
    const int on = 1;
    *s = (struct server){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                         .is_local = endpoint_is_local(where)};
    if (s->listener < 0)
        return errno;
    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* after a job that has just ended */
    if (bind(s->listener, (const struct sockaddr *)&at, sizeof at) == 0 && listen(s->listener, SOMAXCONN) == 0)
        return 0;
    int error = errno;
    server_close(s);
    return error;
}

int server_start(struct server *s, char *(*text)(void *arg, size_t *size), void *arg)
{
    s->text = text;
    s->arg = arg;
    errno = 0;
    /* Twice as many: those that were hung up on go in their next turn. */
    s->daemon =
        MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, answer, s, MHD_OPTION_LISTEN_SOCKET, s->listener,
                         MHD_OPTION_CONNECTION_LIMIT, 2u * SERVER_CLIENTS, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)SERVER_IDLE_S, MHD_OPTION_NOTIFY_CONNECTION, note, s, MHD_OPTION_END);
    s->listener = -1; /* the daemon's, which closes it */
    return s->daemon != NULL ? 0 : errno != 0 ? errno : ENOMEM;
}

void server_close(struct server *s)
{
    MHD_stop_daemon(s->daemon);
    if (s->listener >= 0)
        close(s->listener);
    *s = (struct server){.listener = -1};
}

#else

int server_open(struct server *s, const struct endpoint *where)
{
    (void)s, (void)where;
    return ENOTSUP;
}

int server_start(struct server *s, char *(*text)(void *arg, size_t *size), void *arg)
{
    (void)s, (void)text, (void)arg;
    return ENOTSUP;
}

void server_close(struct server *s)
{
    (void)s;
}

#endif
