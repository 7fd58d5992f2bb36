/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * front: what stands around a part of front, made up: functions of the core, of front's other parts and of threads.
 * Each counts its calls and returns what `says` has under its name; in the beginning nothing is to be done. They are
 * weak: a function that a test defines itself is used instead, and so is a real one that was linked for something else.
 */
#ifndef BATON_TESTS_WITH_FRONT_H
#define BATON_TESTS_WITH_FRONT_H

#include "front/context.h"

#define FRONT_NAMES                                                                                                    \
    core_shut, core_leave, core_tell_left, core_is_busy, core_is_serving, core_next_ns, core_loss, core_is_quiet,      \
        core_is_given_up, admission_tell, calls_pass, events_are_watched, start_forgo, late_close, late_run,           \
        meter_due_ns, meter_hear, meter_news, meter_take, paths_may_take_long, paths_hold_events, paths_has_driver,    \
        paths_wake, paths_ask, paths_help, stall_take_given_up, turns_look, turns_ring_all, turns_rest,                \
        reactor_must_poll, reactor_must_end, thread_start, pthread_join

struct front {
    struct {
        int64_t FRONT_NAMES;
    } says;
    struct {
        unsigned FRONT_NAMES;
    } asked;                 /* how often */
    struct rings *rings;     /* paths_rings */
    void *(*run)(void *arg); /* of the thread that was started last */
    void *arg;
};

extern struct front front;

void front_init(void);

#endif
