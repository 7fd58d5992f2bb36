/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps: the collective steps of start and close. Each has a deadline, and by most of them the ranks agree on a result.
 * A collective that MPI offers without blocking is polled until the deadline; any other runs under a watchdog.
 *
 * NUMBERS. Each step has a number. A rank that comes to a step tells rank 0 that number by a tiny message, so that rank
 * 0 can name the silent ranks when the deadline passes.
 *
 * LOST. After a deadline, or an error of MPI, the ranks are `lost` to each other: requests are still open in MPI, so
 * their buffers (here) must stay, and no collective may follow.
 *
 * The thread that opens, starts and closes the context; leaving is the reactor's.
 */
#ifndef BATON_MPI_STEPS_H
#define BATON_MPI_STEPS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "mpi/watchdog.h"
#include "observe/log.h"

#define STEPS_SENTENCE_BYTES 256

/** An MPI_2INT, for MPI_MINLOC. */
struct steps_ballot {
    int code, rank;
};

struct steps {
    MPI_Comm comm; /* the world's */
    int rank, size;
    const struct settings *settings;
    const struct logger *log;
    bool is_lost, is_leaving;
    uint32_t number;     /* of the step under way */
    uint32_t agreements; /* so far */

    /* MPI's until the step's requests are complete. */
    uint32_t announced; /* what I told rank 0 */
    MPI_Request announcement;
    struct steps_ballot ballot, verdict;
    int least_in[2], least_out[2];
    uint64_t sums_in[2], sums_out[2];    /* of windows_open */
    char sentence[STEPS_SENTENCE_BYTES]; /* broadcast by the rank that failed */

    char agreed[STEPS_SENTENCE_BYTES]; /* the last such sentence: it names its rank already */
    uint32_t *arrived;                 /* rank 0: by rank, the step it came to */
    int first_silent;                  /* rank 0: all ranks before it came to this step */
    MPI_Request *leave_sends;          /* rank 0: by rank */
    bool is_releasing;                 /* rank 0: they were begun */
};

/** *s zeroed before. `settings` and `log` must live as long. */
void steps_init(struct steps *s, const struct settings *settings, const struct logger *log);
void steps_fini(struct steps *s);

/** The ranks of `comm` are those that take the steps. Local, before the first step. 0 or BATON_ENOMEM. */
int steps_attach(struct steps *s, MPI_Comm comm);

/** Begins a step: counts it and tells rank 0. Then start one nonblocking collective and steps_finish it. */
int steps_begin(struct steps *s, const char *step);
/** Polls the step's request until the deadline. `rc` is what the call that started it returned. */
int steps_finish(struct steps *s, const char *step, int rc, MPI_Request *request);

/** See core/world.h. */
int steps_agree(struct steps *s, const char *step, int local);
/** Whether `mine` is true on every rank: one step. *all is set only on success. */
int steps_unanimous(struct steps *s, const char *step, bool mine, bool *all);
/** The least of all ranks' `mine`, number by number: one step. least[] is set only on success. */
int steps_least(struct steps *s, const char *step, const int mine[2], int least[2]);
/** MPI_Iallgather of `bytes` bytes a rank: one step. */
int steps_allgather(struct steps *s, const char *step, const void *in, int bytes, void *out);

/**
 * A barrier that does not block, before leaving: 0 when every rank has called it, BATON_EAGAIN before; call it until
 * then. With `late`, BATON_ETIMEDOUT instead of BATON_EAGAIN, and rank 0 names those that did not come. It goes point
 * to point, through rank 0: where a rank has died, a collective's request would end this process (Open MPI 4.1 raises
 * its errors on MPI_COMM_WORLD), whatever error handler its communicator has.
 */
int steps_leave(struct steps *s, bool late);

/** Ranks in a sentence: "0, 3, 4", the first few of them by number, and how many more there are. Zeroed at first. */
struct steps_ranks {
    char text[128];
    size_t at;
    int num;
};
void steps_name(struct steps_ranks *ranks, int rank);
/** The sentence. Nothing is named behind it. */
const char *steps_named(struct steps_ranks *ranks);

/** Puts a watchdog beside the blocking collective that follows; watchdog_stop ends it. */
void steps_watch(const struct steps *s, struct watchdog *d, const char *step);

/** Lets others run between two polls: yields at first, sleeps up to 1 ms after many. */
void steps_pause(unsigned polls);

#endif
