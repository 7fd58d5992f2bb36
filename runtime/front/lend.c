/* SPDX-License-Identifier: BSD-3-Clause */
/* lend: see lend.h. */
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

void lend_init(struct lent *l)
{
    *l = (struct lent){.wake_fd = -1, .timer_fd = -1};
    owned_init(&l->turn);
}

bool lend_open(struct lent *l, int event_fd)
{
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    l->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    return l->wake_fd >= 0 && watch(l->wake_fd, l->timer_fd) && watch(l->wake_fd, event_fd);
}

int lend_fd(const struct lent *l)
{
    return l->wake_fd;
}

void lend_fini(struct lent *l)
{
    if (l->timer_fd >= 0)
        close(l->timer_fd);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    l->timer_fd = l->wake_fd = -1;
}

/* Sets the timer. 0: it runs out at once, and stays due until it is set again. */
static void wake_in(struct lent *l, uint64_t ns)
{
    if (ns == 0 && l->is_due)
        return;
    l->is_due = ns == 0;
    ns += ns == 0; /* a timer of 0 ns would never run out */
    const struct itimerspec in = {
        .it_value = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)}};
    timerfd_settime(l->timer_fd, 0, &in, NULL);
}

void lend_take(struct lent *l)
{
    atomic_store_explicit(&l->thread, pthread_self(), memory_order_relaxed);
}

void lend_start(struct lent *l)
{
    wake_in(l, 0);
}

bool lend_is_mine(const struct baton *b)
{
    return b->on.mode == BATON_PROGRESS_CALLER &&
           pthread_equal(atomic_load_explicit(&b->lent.thread, memory_order_relaxed), pthread_self());
}

void lend_turn(struct baton *b)
{
    struct lent *l = &b->lent;
    if (!owned_try(&l->turn))
        return; /* another thread is making a turn */
    lend_take(l);
    bool active = reactor_turn(b, clock_now_ns());
    if (active)
        l->idle_since = 0;
    else if (l->idle_since == 0)
        l->idle_since = clock_now_ns();
    wake_in(l, active ? 0 : reactor_rest_ns(b, l->idle_since));
    owned_give(&l->turn);
}
