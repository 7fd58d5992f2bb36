/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint: see endpoint.h. */
#include "metrics/endpoint.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

bool endpoint_read(const char *text, struct endpoint *out)
{
    const char *colon = strrchr(text, ':'), *at = colon != NULL ? colon + 1 : text;
    char address[INET_ADDRSTRLEN] = "127.0.0.1";
    uint32_t port = 0;
    if (colon != NULL && colon - text < (ptrdiff_t)sizeof address)
        snprintf(address, sizeof address, "%.*s", (int)(colon - text), text);
    else if (colon != NULL)
        return false;
    if (!number_take(&at, UINT16_MAX, &port) || *at != '\0' || port == 0)
        return false;
    out->port = (uint16_t)port;
    return inet_pton(AF_INET, address, &out->address) == 1;
}

bool endpoint_is_local(const struct endpoint *e)
{
    return ntohl(e->address.s_addr) >> 24 == IN_LOOPBACKNET;
}
