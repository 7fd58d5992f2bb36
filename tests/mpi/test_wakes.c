/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_wakes: an engine that sleeps on baton_event_fd is woken for events, and hardly ever for none. Ranks are pairs:
 * the first offers, the second wants, and both sleep until their events come.
 */
#include "with_engine.h"

enum { WANTS = 2000, MOST_AT_ONCE = 16 };

/* How often a rank was woken, how often there was nothing then, and how many events it took. */
struct wakes {
    uint32_t all, empty, events;
};

static void sleep_once(const struct engine *e, struct wakes *w)
{
    struct pollfd fd = {.fd = baton_event_fd(e->b), .events = POLLIN};
    baton_event_t events[MOST_AT_ONCE];
    if (!CHECK_EQ(poll(&fd, 1, 20000), 1))
        engine_need(BATON_ETIMEDOUT);
    const int n = baton_poll(e->b, events, MOST_AT_ONCE);
    for (int i = 0; i < n; i++)
        CHECK_EQ(events[i].status, BATON_STATUS_DONE);
    w->all++;
    w->empty += n == 0;
    w->events += (uint32_t)n;
}

/* WANTS of them, of which so many are open at once. */
static struct wakes transfer(const struct engine *e, uint32_t at_once)
{
    const bool offers = harness.rank % 2 == 0;
    struct wakes w = {0};
    char key[32], theirs[BATON_ENGINE_NAME_MAX];
    snprintf(theirs, sizeof theirs, "e%d", harness.rank ^ 1);
    for (uint32_t begun = 0; w.events < WANTS; sleep_once(e, &w))
        for (; begun < WANTS && begun < w.events + at_once; begun++) {
            snprintf(key, sizeof key, "%u of %u", begun, at_once);
            if (offers)
                engine_offer(e, key);
            else
                engine_want_from(e, theirs, key, 20000);
        }
    return w;
}

/* One want at a time, and several, so that events come while others are taken. */
static void sleepers_are_woken_for_events_alone(void)
{
    struct engine e;
    struct wakes sum = {0};
    if (harness.size % 2 != 0)
        return SKIP("pairs of ranks");
    engine_up(&e, NULL);
    for (uint32_t at_once = 1; at_once <= MOST_AT_ONCE; at_once *= 4) {
        const struct wakes w = transfer(&e, at_once);
        sum.all += w.all;
        sum.empty += w.empty;
    }
    if (!CHECK(sum.empty <= sum.all / 100))
        fprintf(stderr, "# rank %d: %u of %u wake-ups found nothing\n", harness.rank, sum.empty, sum.all);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(baton_close(e.b), 0);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    RUN(sleepers_are_woken_for_events_alone);
    return harness_end();
}
