/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that stall or signal at every event; and the wrapper returns what the port below returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fault/fault.h"

#define MS CLOCK_NS_PER_MS

/* ---- a port whose answers can be told apart ---------------------------------------------------------------------- */

static uint64_t raised;

static int port_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    (void)self, (void)message;
    return peer == 1 && bytes == 4 ? 10 : 0;
}

static int port_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    (void)self;
    return peer == 1 && offset == 2 && bytes == 3 && tag == 4 ? 11 : 0;
}

static int port_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    (void)self;
    return peer == 1 && offset == 2 && tag == 3 ? 12 : 0;
}

static int64_t port_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    (void)self;
    return leg->peer == 1 && budget == 2 ? 13 : BATON_EAGAIN;
}

static int port_settle(void *self, uint32_t peer, uint64_t tag)
{
    (void)self;
    return peer == 1 && tag == 2 ? 14 : 0;
}

static enum path_park port_park(void *self, uint32_t peer, uint64_t tag)
{
    (void)self;
    return peer == 1 && tag == 2 ? PATH_PARK_NEVER : PATH_PARK_QUIET;
}

static void port_raise(void *self, uint32_t slot, uint64_t generation)
{
    (void)self;
    raised = slot * 100 + generation;
}

static enum port_alive port_alive(void *self, uint32_t peer)
{
    (void)self;
    return peer == 1 ? PORT_DEAD : PORT_ALIVE;
}

static bool port_ended(void *self, uint32_t peer)
{
    (void)self;
    return peer == 1;
}

static void hand_slot(void *self, uint32_t slot)
{
    (void)self;
    raised = slot;
}

static enum handoff_taken hand_take(void *self, uint32_t peer, const struct handoff_want *want,
                                    struct handoff_grant *grant)
{
    (void)self;
    (void)want;
    grant->slot = 15;
    return peer == 1 ? HANDOFF_TAKEN : HANDOFF_ASK;
}

static void hand_give_back(void *self, uint32_t peer, uint32_t slot, uint64_t generation, int error)
{
    (void)self;
    raised = peer * 1000 + slot * 100 + generation * 10 + (uint64_t)-error;
}

static const struct port_handoff hand = {
    .enter = hand_slot, .leave = hand_slot, .take = hand_take, .give_back = hand_give_back};

static const struct port under = {.path = {.read = port_read,
                                           .board = port_board,
                                           .move = port_move,
                                           .settle = port_settle,
                                           .park = port_park,
                                           .ended = port_ended},
                                  .send = port_send,
                                  .raise = port_raise,
                                  .alive = port_alive,
                                  .handoff = &hand};

static struct faults *make(const char *text)
{
    struct faults *f;
    assert_int_equal(faults_create(text, 0, &under, 2, NULL, true, &f), 0);
    return f;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

enum {
    DO_SEND,
    DO_TAKE,
    DO_CARD,
    DO_TABLE,
    DO_BOARD,
    DO_MOVE,
    DO_SETTLE,
    DO_ENTER,
    DO_LEAVE,
    DO_LEASE,
    DO_GIVE_BACK,
    DO_ALL
};
static const char *const does[] = {"send.*", "take.*", "card",  "table", "board",   "move",
                                   "settle", "enter",  "leave", "lease", "giveback"};

/* Makes one of these events happen. Returns what the port or the filter said. */
static int64_t do_one(struct faults *f, int what)
{
    const struct port *p = faults_port(f);
    uint8_t read[] = {what == DO_CARD ? 'B' : 'T', what == DO_CARD ? 'C' : 'B'};
    struct port_event e = {.kind = PORT_READ, .data = read, .bytes = sizeof read};
    struct plan_cursor cursor = {0};
    struct path_leg leg = {.peer = 1, .cursor = &cursor};
    struct handoff_grant grant;
    switch (what) {
    case DO_SEND:
        return p->send(p->self, 1, "what", 4);
    case DO_TAKE:
        e = (struct port_event){.kind = PORT_MESSAGE, .data = read, .bytes = sizeof read};
        break;
    case DO_BOARD:
        return p->path.board(p->path.self, 1, 2, 3);
    case DO_MOVE:
        return p->path.move(p->path.self, &leg, 2);
    case DO_SETTLE:
        return p->path.settle(p->path.self, 1, 2);
    case DO_ENTER:
        p->handoff->enter(p->handoff->self, 16);
        return (int64_t)raised;
    case DO_LEAVE:
        p->handoff->leave(p->handoff->self, 17);
        return (int64_t)raised;
    case DO_LEASE:
        return p->handoff->take(p->handoff->self, 1, &(struct handoff_want){.rank = 1}, &grant) ? grant.slot : 0;
    case DO_GIVE_BACK:
        p->handoff->give_back(p->handoff->self, 1, 2, 3, -4);
        return (int64_t)raised;
    }
    return faults_filter(f, 0, &e, 1);
}

static void test_what_the_port_says_is_handed_on(void **state)
{
    (void)state;
    struct faults *f = make("double@send.*,drop@take.*#2,corrupt@card,stall@move");
    const struct port *p = faults_port(f);
    assert_int_equal(p->path.read(p->path.self, 1, 2, 3, 4), 11);
    assert_int_equal(do_one(f, DO_SEND), 10);
    assert_int_equal(do_one(f, DO_TAKE), 1);
    assert_int_equal(do_one(f, DO_TAKE), 0);
    assert_int_equal(do_one(f, DO_CARD), 1);
    assert_int_equal(do_one(f, DO_TABLE), 1);
    assert_int_equal(do_one(f, DO_BOARD), 12);
    assert_int_equal(do_one(f, DO_MOVE), 13);
    assert_int_equal(do_one(f, DO_SETTLE), 14);
    assert_int_equal(do_one(f, DO_ENTER), 16);
    assert_int_equal(do_one(f, DO_LEAVE), 17);
    assert_int_equal(do_one(f, DO_LEASE), 15);
    assert_int_equal(do_one(f, DO_GIVE_BACK), 1234);
    assert_false(p->handoff->take(p->handoff->self, 0, &(struct handoff_want){.rank = 0}, &(struct handoff_grant){0}));
    assert_int_equal(p->path.park(p->path.self, 1, 2), PATH_PARK_NEVER);
    assert_int_equal(p->alive(p->self, 1), PORT_DEAD);
    assert_true(p->path.ended(p->path.self, 1));
    assert_false(p->path.ended(p->path.self, 0));
    p->raise(p->self, 5, 6);
    assert_int_equal(raised, 506);
    faults_destroy(f);
}

static void test_stalls(void **state)
{
    (void)state;
    for (int what = 0; what < DO_ALL; what++) {
        char text[64];
        snprintf(text, sizeof text, "stall@%s#2+20", does[what]);
        struct faults *f = make(text);
        do_one(f, what);
        uint64_t before = clock_now_ns();
        do_one(f, what);
        assert_true(clock_now_ns() - before >= 20 * MS);
        faults_destroy(f);
    }
}

/* A move that finds no room is tried again, and is an event only when the port takes some of it. */
static void test_a_refused_move_is_no_event(void **state)
{
    (void)state;
    struct faults *f = make("stall@move#2+20");
    const struct port *p = faults_port(f);
    struct plan_cursor cursor = {0};
    struct path_leg leg = {.peer = 1, .cursor = &cursor};
    do_one(f, DO_MOVE);
    uint64_t before = clock_now_ns();
    for (int i = 0; i < 3; i++)
        assert_int_equal(p->path.move(p->path.self, &leg, 1), BATON_EAGAIN);
    assert_true(clock_now_ns() - before < 20 * MS);
    do_one(f, DO_MOVE);
    assert_true(clock_now_ns() - before >= 20 * MS);
    faults_destroy(f);
}

enum { REACHED, GO };

/* A child process that does everything else three times and `what` twice, and ends when told to. */
static pid_t child(struct faults *f, int what, atomic_int *at)
{
    at[REACHED] = at[GO] = 0;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (int i = 0; i < 3 * DO_ALL; i++)
        if (i % DO_ALL != what)
            do_one(f, i % DO_ALL);
    do_one(f, what);
    at[REACHED] = 1;
    do_one(f, what);
    at[REACHED] = 2;
    for (int i = 0; i < 20000 && !at[GO]; i++)
        usleep(1000);
    _exit(7);
}

static void test_kill_and_stop(void **state)
{
    (void)state;
    atomic_int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    for (int i = 0; i < 4 * DO_ALL; i++) {
        int what = i / 4, later = i % 2, stop = i / 2 % 2, status;
        char text[64];
        snprintf(text, sizeof text, "%s@%s#2%s", stop ? "stop" : "kill", does[what], later ? "+30" : "");
        struct faults *f = make(text);
        uint64_t before = clock_now_ns();
        pid_t pid = child(f, what, at);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(clock_now_ns() - before >= (later ? 30 * MS : 0));
        assert_true(later ? at[REACHED] > 0 : at[REACHED] == 1);
        if (stop) {
            assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
            at[GO] = 1;
            kill(pid, SIGCONT);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        } else {
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        faults_destroy(f);
    }
    munmap(at, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_port_says_is_handed_on),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_a_refused_move_is_no_event),
        cmocka_unit_test(test_kill_and_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
