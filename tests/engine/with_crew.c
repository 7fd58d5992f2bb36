/* SPDX-License-Identifier: BSD-3-Clause */
/* crew: see with_crew.h. */
#include "engine/with_crew.h"

#include <stdlib.h>
#include <string.h>

static uint32_t number_of(const struct crew_member *m)
{
    return m->team.seat.pp_rank * m->team.seat.tp + m->team.seat.tp_rank;
}

static int sum(void *self, int64_t *numbers, uint64_t count)
{
    struct crew_member *m = self;
    struct crew *c = m->crew;
    pthread_barrier_t *stage = &c->stage[m->team.seat.pp_rank];
    const uint32_t first = m->team.seat.pp_rank * c->tp;
    int64_t *all = calloc(count, sizeof *all);
    c->numbers[number_of(m)] = numbers;
    pthread_barrier_wait(stage);
    for (uint32_t r = 0; r < c->tp; r++)
        for (uint64_t i = 0; i < count; i++)
            all[i] += c->numbers[first + r][i];
    pthread_barrier_wait(stage);
    memcpy(numbers, all, count * sizeof *all);
    free(all);
    return 0;
}

static int send_on(void *self, const float *hidden, uint64_t count)
{
    struct crew_member *m = self;
    const uint32_t next = number_of(m) + m->crew->tp;
    (void)count;
    m->crew->hidden[next] = hidden;
    pthread_barrier_wait(&m->crew->seam[next]);
    pthread_barrier_wait(&m->crew->seam[next]);
    return 0;
}

static int receive(void *self, float *hidden, uint64_t count)
{
    struct crew_member *m = self;
    const uint32_t mine = number_of(m);
    pthread_barrier_wait(&m->crew->seam[mine]);
    memcpy(hidden, m->crew->hidden[mine], count * sizeof *hidden);
    pthread_barrier_wait(&m->crew->seam[mine]);
    return 0;
}

void crew_run(uint32_t tp, uint32_t pp, void *(*body)(void *member), void *const users[])
{
    struct crew c = {.tp = tp, .pp = pp};
    for (uint32_t r = 0; r < tp * pp; r++) {
        c.members[r] = (struct crew_member){.crew = &c, .user = users[r]};
        c.members[r].team = (struct team){.seat = {.tp = tp, .tp_rank = r % tp, .pp = pp, .pp_rank = r / tp},
                                          .self = &c.members[r],
                                          .sum = sum,
                                          .receive = receive,
                                          .send = send_on};
        pthread_barrier_init(&c.stage[r], NULL, tp);
        pthread_barrier_init(&c.seam[r], NULL, 2);
    }
    for (uint32_t r = 0; r < tp * pp; r++)
        pthread_create(&c.members[r].thread, NULL, body, &c.members[r]);
    for (uint32_t r = 0; r < tp * pp; r++)
        pthread_join(c.members[r].thread, NULL);
    for (uint32_t r = 0; r < tp * pp; r++) {
        pthread_barrier_destroy(&c.stage[r]);
        pthread_barrier_destroy(&c.seam[r]);
    }
}
