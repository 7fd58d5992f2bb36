/* SPDX-License-Identifier: BSD-3-Clause */
/* context: see the header. The engine's thread runs all of it. */
#include "bench/context.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/fail.h"

void context_set(const char *variable, const char *value)
{
    if ((value != NULL ? setenv(variable, value, 1) : unsetenv(variable)) != 0)
        fail("the environment does not take %s", variable);
}

void context_open(struct bench *b, struct context *c, const baton_open_params_t *self, const baton_geometry_t *geometry)
{
    context_open_over(b, c, self, geometry, &(struct own){.kind = OWN_SLAB});
}

void context_open_over(struct bench *b, struct context *c, const baton_open_params_t *self,
                       const baton_geometry_t *geometry, const struct own *own)
{
    baton_open_params_t params = *self;
    *c = (struct context){.hears = b->options.latency.verdicts};
    if (c->hears)
        params.verdicts = BATON_VERDICTS_ALL;
    if (b->options.pin && pin_to_reactor(&b->pin) != 0)
        fail("cannot move to the reactor's CPU");
    fail_on(baton_open(b->world, &params, &c->baton), "baton_open");
    if (geometry && own->kind == OWN_SLAB)
        fail_on(baton_cache_create(c->baton, geometry, BATON_MEMORY_HOST, &c->cache), "baton_cache_create");
    else if (geometry)
        own_wrap(own, c->baton, geometry, &c->cache);
    fail_on(baton_start(c->baton), "baton_start");
    if (b->options.pin && pin_to_caller(&b->pin) != 0)
        fail("cannot move to the caller's CPU");
    c->pool = own->kind != OWN_SLAB ? own->bases[0] : c->cache ? baton_cache_base(c->cache) : NULL;
    if (b->busy.wanted && !b->busy.running && busy_start(&b->busy, &b->pin) != 0)
        fail("cannot start the computing thread");
    effort_meter_init(&c->meter, &b->busy);
}

void context_close(struct bench *b, struct context *c)
{
    busy_stop(&b->busy);
    int rc = baton_close(c->baton);
    if (rc == BATON_EPEER)
        b->lost = true;
    else
        fail_on(rc, "baton_close");
    *c = (struct context){0};
}

bool context_await(const struct context *c, baton_event_t *event, uint64_t timeout_ms)
{
    struct pollfd fd = {.fd = c->polls ? -1 : baton_event_fd(c->baton), .events = POLLIN};
    uint64_t end = 0; /* the first poll comes before the first look at the clock: it may find the event */
    for (;;) {
        int n = baton_poll(c->baton, event, 1);
        fail_on(n, "baton_poll");
        if (n == 1)
            return true;
        uint64_t now = clock_now_ns();
        if (end == 0)
            end = now + timeout_ms * CLOCK_NS_PER_MS;
        if (now >= end)
            return false;
        if (c->polls)
            continue;
        uint64_t left_ms = (end - now) / CLOCK_NS_PER_MS + 1;
        if (poll(&fd, 1, left_ms > 1000000 ? 1000000 : (int)left_ms) < 0 && errno != EINTR)
            fail("poll on the event descriptor failed");
    }
}
