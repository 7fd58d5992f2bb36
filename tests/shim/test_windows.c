/* SPDX-License-Identifier: BSD-3-Clause */
/* test_windows: which windows a turn synchronises. Its own MPI_Win_sync notes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi/windows.h"

static MPI_Win synced[8];
static int num_synced;

int MPI_Win_sync(MPI_Win win)
{
    assert_in_range(num_synced, 0, 7);
    synced[num_synced++] = win;
    return MPI_SUCCESS;
}

/* Numbers: nobody looks into a window. */
static MPI_Win window(int n)
{
    return (MPI_Win)(uintptr_t)(0x7d7d0000 + n);
}

static void assert_synced(const struct windows *v, int first, int num)
{
    num_synced = 0;
    windows_sync(v);
    assert_int_equal(num_synced, num);
    for (int i = 0; i < num; i++)
        assert_true(synced[i] == window(first + i));
}

/* Each that there is, once: that of the node, that over all nodes, and those over engines' memory. */
static void test_every_window_is_synced(void **state)
{
    (void)state;
    struct windows v = {.shared = MPI_WIN_NULL, .overlay = MPI_WIN_NULL};
    assert_synced(&v, 0, 0);
    v.shared = window(0);
    assert_synced(&v, 0, 1);
    v.overlay = window(1);
    assert_synced(&v, 0, 2);
    v.exposure.windows[v.exposure.num++] = window(2);
    v.exposure.windows[v.exposure.num++] = window(3);
    assert_synced(&v, 0, 4);
    v.shared = MPI_WIN_NULL;
    assert_synced(&v, 1, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_window_is_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
