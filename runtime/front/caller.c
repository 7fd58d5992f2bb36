/* SPDX-License-Identifier: BSD-3-Clause */
/* caller: see caller.h. */
#include "front/context.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

static bool watch(int set, int fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    return fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0;
}

void caller_init(struct caller *l)
{
    *l = (struct caller){.wake_fd = -1, .timer_fd = -1};
    owned_init(&l->turn);
}

bool caller_open(struct caller *l, int event_fd)
{
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    l->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    return l->wake_fd >= 0 && watch(l->wake_fd, l->timer_fd) && watch(l->wake_fd, event_fd);
}

int caller_fd(const struct caller *l)
{
    return l->wake_fd;
}

void caller_fini(struct caller *l)
{
    if (l->timer_fd >= 0)
        close(l->timer_fd);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    l->timer_fd = l->wake_fd = -1;
}

/* Sets the timer. 0: it runs out at once, and stays due until it is set again. */
static void wake_in(struct caller *l, uint64_t ns)
{
    if (ns == 0 && l->is_due)
        return;
    l->is_due = ns == 0;
    ns += ns == 0; /* a timer of 0 ns would never run out */
    const struct itimerspec in = {
        .it_value = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)}};
    timerfd_settime(l->timer_fd, 0, &in, NULL);
}

void caller_take(struct caller *l)
{
    atomic_store_explicit(&l->thread, pthread_self(), memory_order_relaxed);
}

void caller_start(struct caller *l)
{
    wake_in(l, 0);
}

bool caller_is_mine(const struct baton *b)
{
    return b->on.mode == BATON_PROGRESS_CALLER &&
           pthread_equal(atomic_load_explicit(&b->caller.thread, memory_order_relaxed), pthread_self());
}

void caller_turn(struct baton *b)
{
    struct caller *l = &b->caller;
    if (!owned_try(&l->turn))
        return; /* another thread is making a turn */
    caller_take(l);
    bool active = reactor_turn(b, clock_now_ns());
    if (active)
        l->idle_since = 0;
    else if (l->idle_since == 0)
        l->idle_since = clock_now_ns();
    wake_in(l, active ? 0 : reactor_rest_ns(b, l->idle_since));
    owned_give(&l->turn);
}
