/* SPDX-License-Identifier: BSD-3-Clause */
/* front: see the header. */
#include "unit/with_front.h"

#include "base/thread.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* most of these ask for nothing */

struct front front;

#define WEAK __attribute__((weak))

/* A function that counts its calls, and one that has an answer too. */
#define COUNTED(name, ...)                                                                                             \
    WEAK void name(__VA_ARGS__)                                                                                        \
    {                                                                                                                  \
        front.asked.name++;                                                                                            \
    }
#define ANSWERED(type, name, ...)                                                                                      \
    WEAK type name(__VA_ARGS__)                                                                                        \
    {                                                                                                                  \
        front.asked.name++;                                                                                            \
        return (type)front.says.name;                                                                                  \
    }

COUNTED(core_shut, struct core *core, uint64_t now)
COUNTED(core_leave, struct core *core, uint64_t now)
COUNTED(core_tell_left, struct core *core, uint64_t now)
ANSWERED(bool, core_is_busy, const struct core *core)
ANSWERED(bool, core_is_serving, const struct core *core)
ANSWERED(uint64_t, core_next_ns, const struct core *core)
ANSWERED(int64_t, core_loss, const struct core *core)
ANSWERED(bool, core_is_quiet, const struct core *core)
ANSWERED(bool, core_is_given_up, const struct core *core)
ANSWERED(bool, admission_tell, struct admission *a, const baton_event_t *event)
ANSWERED(enum calls_passing, calls_pass, struct calls *c, struct outcome *outcome)
ANSWERED(bool, events_are_watched, const struct events *e)
ANSWERED(int, start_forgo, struct baton *b)
ANSWERED(int, late_close, struct baton *b)
ANSWERED(int, late_run, struct baton *b)
ANSWERED(uint64_t, meter_due_ns, const struct meter *m)
COUNTED(meter_hear, struct baton *b, const struct outcome *outcome)
COUNTED(meter_news, struct meter *m, uint64_t now)
COUNTED(meter_take, struct baton *b, uint64_t now)
ANSWERED(bool, paths_may_take_long, const struct paths *p)
ANSWERED(bool, paths_hold_events, const struct paths *p)
ANSWERED(bool, paths_has_driver, const struct paths *p)
COUNTED(paths_wake, struct paths *p)
ANSWERED(bool, paths_ask, const struct paths *p)
ANSWERED(bool, paths_help, const struct paths *p)
ANSWERED(bool, stall_take_given_up, struct stall *s)
ANSWERED(uint32_t, turns_look, struct baton *b)
COUNTED(turns_ring_all, struct baton *b)
ANSWERED(bool, turns_rest, struct baton *b, uint64_t until_ns)
ANSWERED(bool, reactor_must_poll, const struct baton *b)
ANSWERED(bool, reactor_must_end, const struct loop *l)
ANSWERED(int, pthread_join, pthread_t thread, void **value)

WEAK struct rings *paths_rings(struct paths *p)
{
    return front.rings;
}

WEAK const char *binding_cpus(const struct binding *b)
{
    return NULL;
}

WEAK int thread_start(pthread_t *thread, const char *name, const char *cpus, void *(*run)(void *arg), void *arg)
{
    front.asked.thread_start++;
    front.run = run;
    front.arg = arg;
    return (int)front.says.thread_start;
}

WEAK void thread_ask(uint64_t slice_us, uint64_t nice)
{
}

void front_init(void)
{
    front = (struct front){.says = {.core_next_ns = -1, /* never */
                                    .meter_due_ns = -1,
                                    .core_loss = -1, /* nobody */
                                    .core_is_quiet = true,
                                    .admission_tell = true,
                                    .calls_pass = CALLS_PASS,
                                    .turns_rest = true}};
}
