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
#include "with_fakes.h"

#define MS CLOCK_NS_PER_MS

/* ---- a port whose answers can be told apart ---------------------------------------------------------------------- */

static struct fakes below;

static struct faults *make(const char *text)
{
    struct faults *f;
    fakes_init(&below);
    below.says.send = 10;
    below.says.read = 11;
    below.says.board = 12;
    below.says.move = 13;
    below.says.settle = 14;
    below.says.park = PATH_PARK_NEVER;
    below.says.alive = PORT_DEAD;
    below.says.ended = true;
    below.says.take = HANDOFF_TAKEN;
    below.grant.slot = 15;
    assert_int_equal(faults_create(text, 0, &below.port, 2, NULL, true, &f), 0);
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

/* Makes one of these events happen. Returns what the port or the filter said, if it says something. */
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
        return 0;
    case DO_LEAVE:
        p->handoff->leave(p->handoff->self, 17);
        return 0;
    case DO_LEASE:
        return p->handoff->take(p->handoff->self, 1, &(struct handoff_want){.engine = 1}, &grant) ? grant.slot : 0;
    case DO_GIVE_BACK:
        p->handoff->give_back(p->handoff->self, 1, 2, 3, -4);
        return 0;
    }
    return faults_filter(f, 0, &e, 1);
}

static void test_what_the_port_says_is_handed_on(void **state)
{
    (void)state;
    struct faults *f = make("double@send.*,drop@take.*#2,corrupt@card,stall@move");
    const struct port *p = faults_port(f);
    assert_int_equal(p->path.read(p->path.self, 1, 2, 3, 4), 11);
    assert_called("read 1 2 3 4");
    assert_int_equal(do_one(f, DO_SEND), 10);
    assert_called("send 1 4");
    assert_int_equal(do_one(f, DO_TAKE), 1);
    assert_int_equal(do_one(f, DO_TAKE), 0);
    assert_int_equal(do_one(f, DO_CARD), 1);
    assert_int_equal(do_one(f, DO_TABLE), 1);
    assert_int_equal(do_one(f, DO_BOARD), 12);
    assert_called("board 1 2 3");
    assert_int_equal(do_one(f, DO_MOVE), 13);
    assert_called("move 1 0 2 0");
    assert_int_equal(do_one(f, DO_SETTLE), 14);
    assert_called("settle 1 2");
    do_one(f, DO_ENTER);
    assert_called("enter 16");
    do_one(f, DO_LEAVE);
    assert_called("leave_slot 17");
    assert_int_equal(do_one(f, DO_LEASE), 15);
    do_one(f, DO_GIVE_BACK);
    assert_called("give_back 1 2 3 -4");
    below.says.take = HANDOFF_ASK;
    assert_int_equal(do_one(f, DO_LEASE), 0);
    assert_int_equal(p->path.park(p->path.self, 1, 2), PATH_PARK_NEVER);
    assert_called("park 1 2");
    assert_int_equal(p->alive(p->self, 1), PORT_DEAD);
    assert_true(p->path.ended(p->path.self, 1));
    below.says.ended = false;
    assert_false(p->path.ended(p->path.self, 0));
    assert_called("ended 0");
    p->raise(p->self, 5, 6, true);
    assert_called("raise 5 6 1");
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
    below.says.move = BATON_EAGAIN;
    for (int i = 0; i < 3; i++)
        assert_int_equal(p->path.move(p->path.self, &leg, 1), BATON_EAGAIN);
    below.says.move = 13;
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
