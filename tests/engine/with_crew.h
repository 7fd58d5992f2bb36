/* SPDX-License-Identifier: BSD-3-Clause */
/* crew: the ranks of one engine as threads of this process: a team whose sums and hand-overs go through plain
   memory. */
#ifndef TESTS_ENGINE_WITH_CREW_H
#define TESTS_ENGINE_WITH_CREW_H

#include <pthread.h>

#include "engine/team.h"

#define CREW_MAX 12

struct crew;

struct crew_member {
    struct crew *crew;
    struct team team;
    pthread_t thread;
    void *user;
};

struct crew {
    uint32_t tp, pp;
    struct crew_member members[CREW_MAX];
    pthread_barrier_t stage[CREW_MAX]; /* of the ranks of one stage */
    pthread_barrier_t seam[CREW_MAX];  /* of a rank and the one of the stage before */
    int64_t *numbers[CREW_MAX];
    const float *hidden[CREW_MAX];
};

/** Runs `body` in a thread for each rank of an engine of tp x pp, and waits for all. */
void crew_run(uint32_t tp, uint32_t pp, void *(*body)(void *member), void *const users[]);

#endif
