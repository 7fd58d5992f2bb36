/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server: answers GET /metrics on this host's loopback address, one client at a time. A request has REQUEST_MOST bytes
 * at most. A client has REQUEST_NS from its connection to its request's end, and CLIENT_NS to the last byte of its
 * answer: whoever is slower is hung up on. Whose request names another host than localhost or a loopback address gets
 * 421. A thread of its own does this, and makes the text anew for each request.
 */
#ifndef BATON_LAUNCH_METRICS_SERVER_H
#define BATON_LAUNCH_METRICS_SERVER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_REQUEST_MOST 4096
#define SERVER_REQUEST_NS UINT64_C(200000000)
#define SERVER_CLIENT_NS UINT64_C(2000000000)

struct server {
    int listener, wake[2];                  /* wake: a pipe that ends the thread */
    char *(*text)(void *arg, size_t *size); /* malloc'ed; NULL: there is no memory */
    void *arg;
    pthread_t thread;
};

/** Listens on this port of 127.0.0.1; 0: on a free one. 0 or an errno. */
int server_open(struct server *s, uint16_t port);
uint16_t server_port(const struct server *s);
/** Makes the thread, in which `text` is called. 0 or an errno. */
int server_start(struct server *s, char *(*text)(void *arg, size_t *size), void *arg);
/** Ends the thread, whatever a client does. Of one that was only opened too. */
void server_close(struct server *s);

#endif
