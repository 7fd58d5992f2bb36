/* SPDX-License-Identifier: BSD-3-Clause */
/* places: each has one member at a time, however many claim at once; who dies with a claim leaves no place behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/places.h"

enum { PLACES = 3, CLAIMERS = 8, LIVES = 400 };

static void test_one_place_a_member(void **state)
{
    (void)state;
    struct place of[PLACES] = {{0}};
    const struct places p = {of, PLACES};
    bool seen[PLACES] = {false};
    for (uint64_t member = 1; member <= PLACES; member++) {
        const uint32_t place = places_claim(&p, 7 * member);
        assert_true(place < PLACES && !seen[place]);
        seen[place] = true;
        assert_int_equal(places_claim(&p, 7 * member), place);
        assert_false(places_is_open(&p, place, 7 * member));
    }
    assert_int_equal(places_claim(&p, 1000), PLACES_NONE);
    assert_false(places_is_open(&p, PLACES_NONE, 1000));
    assert_int_equal(places_claim(&(struct places){of, 0}, 7), PLACES_NONE);
    assert_int_equal(places_bytes(PLACES), sizeof of);
}

static void test_the_owner_opens_and_takes_back(void **state)
{
    (void)state;
    struct place of[PLACES] = {{0}};
    const struct places p = {of, PLACES};
    uint32_t place = 0;
    uint64_t member = 0;
    assert_false(places_next_claim(&p, &place, &member));
    const uint32_t a = places_claim(&p, 11), b = places_claim(&p, 12);
    unsigned found = 0;
    for (place = 0; places_next_claim(&p, &place, &member); place++) {
        assert_true(member == (place == a ? 11 : 12));
        found++;
    }
    assert_int_equal(found, 2);
    assert_false(places_open(&p, a, 12)); /* it is another's */
    assert_false(places_open(&p, PLACES, 11));
    assert_true(places_open(&p, a, 11));
    assert_true(places_is_open(&p, a, 11));
    assert_false(places_is_open(&p, a, 12));
    place = 0;
    assert_true(places_next_claim(&p, &place, &member));
    assert_int_equal(place, b);
    places_give_back(&p, 12); /* it was never opened */
    places_give_back(&p, 13);
    assert_true(places_is_open(&p, a, 11));
    assert_false(places_open(&p, b, 12)); /* taken for gone: it never is opened again */
    places_give_back(&p, 11);
    assert_false(places_is_open(&p, a, 11));
    for (uint64_t next = 21; next <= 20 + PLACES; next++)
        assert_true(places_claim(&p, next) < PLACES);
    assert_false(places_is_open(&p, a, 11));
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

struct ground {
    struct place of[PLACES];
    _Atomic uint32_t users[PLACES];
    _Atomic uint64_t word[PLACES], used, wrong;
};

/* Claims a place, waits a while that it is opened, uses it, and ends somewhere in between. */
static void live(struct ground *g, uint64_t member, unsigned ends)
{
    const struct places p = {g->of, PLACES};
    const uint32_t place = places_claim(&p, member);
    if (place == PLACES_NONE || ends % 3 == 0)
        return;
    for (int i = 0; i < 2000 && !places_is_open(&p, place, member); i++)
        usleep(1);
    if (!places_is_open(&p, place, member))
        return;
    g->wrong += atomic_fetch_add(&g->users[place], 1) != 0 || atomic_load(&g->word[place]) != 0;
    atomic_store(&g->word[place], member);
    atomic_fetch_add(&g->used, 1);
    usleep(50);
    g->wrong += atomic_load(&g->word[place]) != member;
    atomic_fetch_sub(&g->users[place], 1);
}

/* The owner takes a process for gone when it is, and gives its place back then. */
static void test_members_come_at_once(void **state)
{
    (void)state;
    struct ground *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct places p = {g->of, PLACES};
    pid_t pid[CLAIMERS] = {0};
    uint64_t member[CLAIMERS], last = 100;
    unsigned begun = 0, living = 0;
    assert_true(g != MAP_FAILED);
    while (begun < LIVES || living > 0) {
        for (unsigned i = 0; i < CLAIMERS; i++) {
            if (pid[i] == 0 && begun < LIVES) {
                member[i] = ++last;
                begun++;
                living++;
                pid[i] = fork();
                assert_true(pid[i] >= 0);
                if (pid[i] == 0) {
                    live(g, member[i], (unsigned)member[i]);
                    _exit(0);
                }
            } else if (pid[i] > 0 && waitpid(pid[i], NULL, WNOHANG) == pid[i]) {
                for (uint32_t k = 0; k < PLACES; k++)
                    if (atomic_load(&g->word[k]) == member[i])
                        atomic_store(&g->word[k], 0);
                places_give_back(&p, member[i]);
                pid[i] = 0;
                living--;
            }
        }
        uint64_t claimer;
        for (uint32_t place = 0; places_next_claim(&p, &place, &claimer); place++)
            for (unsigned i = 0; i < CLAIMERS; i++)
                if (pid[i] > 0 && member[i] == claimer)
                    assert_true(places_open(&p, place, claimer));
    }
    assert_int_equal(g->wrong, 0);
    assert_true(g->used > LIVES / 10);
    for (uint32_t i = 0; i < PLACES; i++)
        assert_true(g->of[i].claimed == 0 && g->of[i].open == 0);
    munmap(g, sizeof *g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_place_a_member),
        cmocka_unit_test(test_the_owner_opens_and_takes_back),
        cmocka_unit_test(test_members_come_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
