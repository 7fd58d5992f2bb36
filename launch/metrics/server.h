/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server: answers GET /metrics by libmicrohttpd. A thread of its own does this, and makes the text anew for each
 * request. A client that sends and takes nothing for IDLE_S is hung up on; where there are more than CLIENTS, so is the
 * oldest. At a loopback address, a request that names another host than localhost or such an address gets 421.
 */
#ifndef BATON_LAUNCH_METRICS_SERVER_H
#define BATON_LAUNCH_METRICS_SERVER_H

#include <stddef.h>

#include "metrics/endpoint.h"

#define SERVER_CLIENTS 32
#define SERVER_IDLE_S 2

struct server {
    int listener;
    bool is_local;
    struct MHD_Daemon *daemon;              /* NULL: not started */
    char *(*text)(void *arg, size_t *size); /* malloc'ed; NULL: there is no memory */
    void *arg;
    int clients[SERVER_CLIENTS]; /* their sockets; 0: none */
    unsigned next;               /* the client to come */
};

/** Listens there. 0 or an errno. */
int server_open(struct server *s, const struct endpoint *where);
/** Makes the thread, in which `text` is called. 0 or an errno. */
int server_start(struct server *s, char *(*text)(void *arg, size_t *size), void *arg);
/** Ends the thread, whatever a client does. Of one that was only opened too. */
void server_close(struct server *s);

#endif
