/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * canary: a read that MPI reports as successful although it wrote no byte must not be taken for a generation. Rank 1
 * reads a word of rank 0 many times, so that every place into which such a read can land holds the expected value. Rank
 * 0 changes its word and is killed. Rank 1 reads again: whatever MPI reports, none of these reads may bring the
 * expected value.
 *
 *   canary        two ranks, each a node of its own (BATON_FAKE_NODES=2); rank 0 is killed
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "front/context.h"
#include "mpi/fabric.h"

#define READS 512                      /* more than there are places to read into */
#define WORD_OFFSET GROUND_META_OFFSET /* the first word of the lease board */
#define EXPECTED UINT64_C(0x600dc0de600dc0de)
#define RAISED UINT64_C(0x0ddc0de0ddc0de00)

static void fail(const char *what)
{
    printf("canary: %s\n", what);
    fflush(stdout);
    baton_exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Reads the word once, waiting up to `seconds`. True: a value came, without an error. */
static bool read_word(struct fabric *f, uint64_t tag, double seconds, uint64_t *value)
{
    struct port_event events[8];
    bool asked = false;
    for (double until = now_s() + seconds; now_s() < until;) {
        if (!asked) {
            int rc = f->net.path.board(f, 0, WORD_OFFSET, tag);
            if (rc != 0 && rc != BATON_EAGAIN)
                return false;
            asked = rc == 0;
        }
        int n = f->net.path.progress(f, events, 8);
        for (int i = 0; i < n; i++)
            if (events[i].kind == PORT_BOARD && events[i].tag == tag) {
                *value = events[i].generation;
                return events[i].error == 0;
            }
    }
    return false;
}

static void set_word(struct fabric *f, uint64_t word)
{
    memcpy(f->ground.segment + WORD_OFFSET, &word, sizeof word);
    f->net.sync(f);
}

static void read_on(struct fabric *f)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < READS; i++)
        if (!read_word(f, 1 + i, 5, &value) || value != EXPECTED)
            fail("the word could not be read while its rank lived");
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD); /* by this, rank 0 kills itself */
    usleep(100000);
    unsigned good = 0, other = 0, none = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (!read_word(f, 10000 + i, 0.3, &value))
            none++;
        else if (value == EXPECTED)
            good++;
        else
            other++;
    }
    printf("canary: after the death: %u reads brought the expected word, %u another, %u nothing\n", good, other, none);
    if (good > 0)
        fail("a word that was not read was taken for one that was");
    fflush(stdout);
    baton_exit(0);
}

int main(int argc, char **argv)
{
    int level, rank, over = 0;
    baton_t *b;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    baton_open_params_t me = {.size = sizeof me,
                              .role = rank == 0 ? BATON_ROLE_PREFILL : BATON_ROLE_DECODE,
                              .tp = 1,
                              .pp = 1,
                              .progress = BATON_PROGRESS_CALLER}; /* so that this thread alone makes progress */
    snprintf(me.engine, sizeof me.engine, "e%d", rank);
    if (baton_open(MPI_COMM_WORLD, &me, &b) != 0 || baton_start(b) != 0)
        fail(baton_errmsg());
    struct fabric *f = b->on.net->self;
    if (rank == 0)
        set_word(f, EXPECTED);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        read_on(f);
    MPI_Request request;
    MPI_Irecv(&over, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
    for (over = 0; !over;) { /* makes progress for rank 1's reads until then */
        struct port_event events[8];
        f->net.path.progress(f, events, 8);
        MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    }
    set_word(f, RAISED);
    raise(SIGKILL);
}
