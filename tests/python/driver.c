/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver: a driver of Baton in a shared library, for test_driver.py. Its device's pages are mapped twice: where they
 * are wrapped nobody may touch them, and `distance` bytes from there the driver does.
 */
#define BATON_NO_MPI
#include "baton.h"

#include <string.h>

#define CALLS_MOST 16

BATON_API ptrdiff_t distance;
BATON_API uint64_t copied; /* bytes */

static uint64_t ended[CALLS_MOST];
static int num_ended;

static int copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    (void)self;
    if (num_ended == CALLS_MOST)
        return BATON_EAGAIN;
    for (uint32_t i = 0; i < num; i++) {
        char *kernel = (char *)pieces[i].device + distance;
        memcpy(to_device ? kernel : pieces[i].host, to_device ? pieces[i].host : kernel, pieces[i].bytes);
        copied += pieces[i].bytes;
    }
    ended[num_ended++] = tag;
    return 0;
}

static int poll_ended(void *self, uint64_t *tags, int *errors, int max)
{
    (void)self;
    int n = 0;
    for (; n < max && num_ended > 0; n++) {
        tags[n] = ended[--num_ended];
        errors[n] = 0;
    }
    return n;
}

BATON_API const baton_driver_t good = {
    .size = sizeof good, .name = "of a shared library", .copy = copy, .poll = poll_ended};
BATON_API const baton_driver_t nameless = {.size = sizeof nameless, .copy = copy, .poll = poll_ended};
