/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * harness: for tests that all ranks of a world run together. Every rank runs each case, and a case that failed on one
 * rank has failed; rank 0 prints TAP. The rank where a check fails prints it, with both operands, and goes on with the
 * case, since the others wait for it in collectives.
 */
#ifndef BATON_TESTS_HARNESS_H
#define BATON_TESTS_HARNESS_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct harness {
    int rank, size;
    int cases, failed_cases;
    int failures;     /* of this rank in this case */
    const char *skip; /* why this case was skipped */
};

static struct harness harness;

#define HARNESS_PRINTED_MAX 20 /* failures that a rank prints in one case */

/** Checks a condition; true where it holds. Evaluates the operand once. */
#define CHECK(condition) harness_check((condition) != 0, __FILE__, __LINE__, #condition)

/** Checks that two whole numbers are equal. Evaluates each once. */
#define CHECK_EQ(a, b) harness_check_eq((long long)(a), (long long)(b), __FILE__, __LINE__, #a " == " #b)

/** Checks that a text contains another. */
#define CHECK_HAS(text, part) harness_check_has((text), (part), __FILE__, __LINE__, #text)

/** Skips this case, on all ranks alike: `return SKIP("one node");`. */
#define SKIP(why) ((void)(harness.skip = (why)))

static inline int harness_failed(const char *file, int line)
{
    if (harness.failures++ >= HARNESS_PRINTED_MAX)
        return 0;
    fprintf(stderr, "# rank %d: %s:%d: ", harness.rank, file, line);
    return 1;
}

static inline int harness_check(int holds, const char *file, int line, const char *text)
{
    if (!holds && harness_failed(file, line))
        fprintf(stderr, "%s does not hold\n", text);
    return holds;
}

static inline int harness_check_eq(long long a, long long b, const char *file, int line, const char *text)
{
    if (a != b && harness_failed(file, line))
        fprintf(stderr, "%s: %lld and %lld\n", text, a, b);
    return a == b;
}

static inline int harness_check_has(const char *text, const char *part, const char *file, int line, const char *name)
{
    int has = strstr(text, part) != NULL;
    if (!has && harness_failed(file, line))
        fprintf(stderr, "%s has no \"%s\": \"%s\"\n", name, part, text);
    return has;
}

/** Whether the world is one node, as far as BATON_FAKE_NODES says: tests run on one machine. */
static inline int is_one_node(void)
{
    const char *fake = getenv("BATON_FAKE_NODES");
    return fake == NULL || atoi(fake) <= 1;
}

/** MPI_Init_thread with MPI_THREAD_MULTIPLE. */
static inline void harness_begin(int *argc, char ***argv)
{
    int level;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness.size);
}

/** Runs one case on all ranks and prints its line. */
static inline void harness_run(const char *name, void (*run)(void))
{
    int failures = 0;
    harness.failures = 0;
    harness.skip = NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    run();
    MPI_Allreduce(&harness.failures, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    harness.cases++;
    harness.failed_cases += failures > 0;
    if (harness.rank != 0)
        return;
    if (harness.skip && failures == 0)
        printf("ok %d - %s # SKIP %s\n", harness.cases, name, harness.skip);
    else
        printf("%s %d - %s\n", failures ? "not ok" : "ok", harness.cases, name);
    fflush(stdout);
}
#define RUN(function) harness_run(#function, function)

/** Prints the plan and finalises MPI. Returns the program's exit status. */
static inline int harness_end(void)
{
    if (harness.rank == 0)
        printf("1..%d\n", harness.cases);
    MPI_Finalize();
    return harness.failed_cases ? 1 : 0;
}

/** Where MPI cannot be finalised: prints the plan and how many cases failed, and leaves by `leave`, with status 0. */
static inline void harness_leave(void (*leave)(int status))
{
    if (harness.rank == 0) {
        printf("1..%d: %d failed\n", harness.cases, harness.failed_cases);
        fflush(stdout);
        usleep(200000); /* the launcher ends the world with the first rank, and drops what it has not read by then */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    leave(0);
}

#endif
