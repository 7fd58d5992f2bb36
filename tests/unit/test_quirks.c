/* SPDX-License-Identifier: BSD-3-Clause */
/* quirks: which row applies, and when a peer is to be flushed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/quirks.h"

/* Sends each batch to the next peer that `choose` names. Returns how many of all operations were unflushed at most. */
static uint64_t most_unflushed(uint32_t peers, uint32_t (*choose)(uint32_t step, uint32_t peers), uint64_t *flushes)
{
    struct quirks q;
    uint64_t *of = calloc(peers, sizeof *of), all = 0, most = 0, used = 0;
    quirks_choose(&q, "Open MPI v4.1.4", "ucx window 3", 0);
    assert_non_null(of);
    assert_int_equal(q.flush_within, 1000000);
    *flushes = 0;
    for (uint32_t step = 0; step < 400000; step++) {
        uint32_t at = choose(step, peers);
        used += of[at] == 0;
        of[at] += 65;
        all += 65;
        most = all > most ? all : most;
        if (quirks_flush_due(&q, of[at], all, used)) {
            all -= of[at];
            of[at] = 0;
            used--;
            ++*flushes;
        }
    }
    free(of);
    return most;
}

static uint32_t evenly(uint32_t step, uint32_t peers)
{
    return step % peers;
}

static uint32_t at_random(uint32_t step, uint32_t peers)
{
    uint64_t x = (step + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 33) % peers;
}

/* Half of the peers fill up first, and are never used again. */
static uint32_t one_half_then_the_other(uint32_t step, uint32_t peers)
{
    return step < 8000 ? step % (peers / 2) : peers / 2 + step % (peers - peers / 2);
}

static void test_flushes_keep_any_number_of_peers_below_the_limit(void **state)
{
    (void)state;
    static uint32_t (*const ways[])(uint32_t, uint32_t) = {evenly, at_random, one_half_then_the_other};
    for (uint32_t peers = 2; peers <= 10000; peers = peers * 3 / 2 + 1)
        for (int i = 0; i < 3; i++) {
            uint64_t flushes;
            assert_true(most_unflushed(peers, ways[i], &flushes) < 800000);
            assert_true(flushes > 0);
        }
}

static void test_no_flush_where_no_limit_is_known(void **state)
{
    (void)state;
    struct quirks q;
    quirks_choose(&q, "MPICH Version:      4.0.2", "", 0);
    assert_false(quirks_flush_due(&q, UINT64_MAX / 4, UINT64_MAX / 2, 2));
}

static void test_a_limit_on_requests(void **state)
{
    (void)state;
    struct quirks q;
    quirks_choose(&q, "Open MPI v5.0.7", "ucx window 3", 0);
    assert_int_equal(q.requests_within, 254);
    quirks_choose(&q, "Open MPI v4.1.4", "ucx window 3", 0);
    assert_int_equal(q.requests_within, 0);
}

/* A window for one thread that is never freed: osc/ucx of Open MPI 5 alone. MPI_Finalize must not come before
 * baton_close: MPICH alone. */
static void test_what_the_program_must_keep_to(void **state)
{
    (void)state;
    static const struct {
        const char *library, *window;
        bool one_thread, close_first;
    } cases[] = {
        {"Open MPI v5.0.7, package: Debian OpenMPI", "ucx window 3", true, false},
        {"Open MPI v5.0.7, package: Debian OpenMPI", "rdma window 3", false, false},
        {"Open MPI v5.0.7, package: Debian OpenMPI", "", false, false}, /* there is one node */
        {"Open MPI v4.1.4", "ucx window 3", false, false},
        {"Open MPI v4.1.4", "rdma window 3", false, false},
        {"MPICH Version:      4.0.2", "", false, true},
        {"MPICH Version:      4.2.1", "", false, true},
        {"no version", "", false, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct quirks q;
        quirks_choose(&q, cases[i].library, cases[i].window, 0);
        if (q.one_thread != cases[i].one_thread || q.keeps_window != cases[i].one_thread ||
            q.close_first != cases[i].close_first)
            fail_msg("\"%s\" with \"%s\" chose the row \"%s\"", cases[i].library, cases[i].window, q.why);
    }
}

static void test_the_remedy_is_the_librarys(void **state)
{
    (void)state;
    assert_non_null(strstr(quirks_remedy("Open MPI v4.1.4, package: Debian"), "OMPI_MCA_osc=ucx,sm"));
    assert_non_null(strstr(quirks_remedy("Open MPI v5.0.7, package: Debian"), "OMPI_MCA_osc=rdma,sm"));
    assert_non_null(strstr(quirks_remedy("Open MPI v5.0.7, package: Debian"), "OMPI_MCA_pml=ob1"));
    assert_null(strstr(quirks_remedy("MPICH Version:      4.2.1"), "OMPI"));
    assert_null(strstr(quirks_remedy("no version"), "OMPI"));
}

static void test_rows_by_library_version_and_window(void **state)
{
    (void)state;
    static const struct {
        const char *library, *window;
        uint32_t gets;
        bool put_is_remote, holds_on_dead;
        uint32_t requests_within;
    } cases[] = {
        {"Open MPI v3.1.6, package: Open MPI", "ucx window 3", 1, false, false, 0}, /* not known */
        {"Open MPI v4.0.0, package: Open MPI", "ucx window 3", 64, true, false, 0},
        {"Open MPI v4.1.99", "ucx window 3", 64, true, false, 0},
        {"Open MPI of vendor 2, v4.1.4", "ucx window 3", 64, true, false, 0}, /* 2 has no dot */
        {"Open MPI v5.0.0rc1", "ucx window 3", 1, false, false, 254},
        {"Open MPI v6.0.0", "ucx window 3", 1, false, false, 0},
        {"Open MPI v4.1.4", "rdma window 3", 1, false, true, 0},
        {"Open MPI v4.1.4", "pt2pt window 3", 1, false, false, 0},
        {"MPICH Version:      4.0.2", "", 1, false, false, 0},
        {"no version", "", 1, false, false, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct quirks q;
        quirks_choose(&q, cases[i].library, cases[i].window, 0);
        if (q.per_request != cases[i].gets || q.put_is_remote != cases[i].put_is_remote ||
            q.holds_on_dead != cases[i].holds_on_dead || q.requests_within != cases[i].requests_within)
            fail_msg("\"%s\" with \"%s\" chose the row \"%s\"", cases[i].library, cases[i].window, q.why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flushes_keep_any_number_of_peers_below_the_limit),
        cmocka_unit_test(test_no_flush_where_no_limit_is_known),
        cmocka_unit_test(test_a_limit_on_requests),
        cmocka_unit_test(test_what_the_program_must_keep_to),
        cmocka_unit_test(test_the_remedy_is_the_librarys),
        cmocka_unit_test(test_rows_by_library_version_and_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
