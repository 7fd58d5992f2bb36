/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint: where a server of metrics listens, as a user writes it. */
#ifndef BATON_LAUNCH_METRICS_ENDPOINT_H
#define BATON_LAUNCH_METRICS_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>

struct endpoint {
    struct in_addr address;
    uint16_t port; /* 0: a free one */
};

/** "9464": at 127.0.0.1; "10.0.0.7:9464": at an address of this host; "0.0.0.0:9464": at all. False: it is none. */
bool endpoint_read(const char *text, struct endpoint *out);
/** Only this host's processes reach it. */
bool endpoint_is_local(const struct endpoint *e);

#endif
