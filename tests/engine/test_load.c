/* SPDX-License-Identifier: BSD-3-Clause */
/* load: turns begin with all that was said before; requests that share ids share tokens; the trace's ids are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load.h"

static void check_turns(const struct load *l, uint32_t turns_at_least)
{
    uint16_t *prompt = malloc(load_most_tokens(l) * sizeof *prompt),
             *before = malloc(load_most_tokens(l) * sizeof *before);
    uint16_t *spoken = malloc(load_most_tokens(l) * sizeof *spoken);
    uint32_t turns = 0;
    for (uint32_t i = 0; i < load_most_tokens(l); i++)
        spoken[i] = (uint16_t)(i % l->vocab);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct load_request *r = &l->requests[i];
        assert_in_range(r->prompt, 2, 1 << 24);
        assert_in_range(r->output, 1, 1 << 24);
        if (r->parent == LOAD_NONE) {
            assert_int_equal(r->root, i);
            assert_int_equal(r->spoken, 0);
            continue;
        }
        const struct load_request *p = &l->requests[r->parent];
        assert_true(r->parent < i && p->child == i && p->root == r->root);
        assert_int_equal(r->spoken, p->spoken + p->output);
        assert_true(r->prompt > p->prompt + p->output);
        load_prompt(l, r->parent, spoken, before);
        load_prompt(l, i, spoken, prompt);
        assert_memory_equal(prompt, before, p->prompt * sizeof *prompt);
        assert_memory_equal(prompt + p->prompt, spoken + p->spoken, p->output * sizeof *prompt);
        turns++;
    }
    assert_true(turns >= turns_at_least);
    free(prompt);
    free(before);
    free(spoken);
}

static void made(void **state)
{
    (void)state;
    struct load l, again;
    struct why why;
    uint16_t one[4096], two[4096];
    assert_int_equal(load_make(&l, 60, 64, 500, 3, &why), 0);
    assert_int_equal(load_make(&again, 60, 64, 500, 3, &why), 0);
    check_turns(&l, 10);
    for (uint32_t i = 0; i < 60; i++)
        assert_memory_equal(&l.requests[i], &again.requests[i], sizeof *l.requests);
    load_prompt(&l, 0, NULL, one);
    load_prompt(&l, 1, NULL, two); /* they begin alike, and differ then */
    assert_memory_equal(one, two, 1024 / 64 * sizeof *one);
    assert_memory_not_equal(one, two, l.requests[0].prompt * sizeof *one);
    load_fini(&again);
    load_fini(&l);
}

static void from_a_trace(void **state)
{
    (void)state;
    static const char text[] = "{\"timestamp\":0,\"input_length\":1100,\"output_length\":64,\"hash_ids\":[7,8,9]}\n"
                               "{\"timestamp\":1,\"input_length\":1030,\"output_length\":1,\"hash_ids\":[7,5,6]}\n"
                               "{\"timestamp\":2,\"input_length\":1700,\"output_length\":1,\"hash_ids\":[7,8,10,11]}\n"
                               "{\"timestamp\":3,\"input_length\":1,\"output_length\":0,\"hash_ids\":[9]}\n";
    char name[] = "/tmp/baton-test-load-XXXXXX";
    struct load l;
    struct why why;
    uint16_t one[64], two[64];
    const int fd = mkstemp(name);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(load_open(&l, name, 100, 64, 300, &why), 0);
    remove(name);
    assert_int_equal(l.count, 4);
    check_turns(&l, 1);
    assert_int_equal(l.requests[0].prompt, 17);
    assert_int_equal(l.requests[0].child, 2);
    assert_int_equal(l.requests[1].parent, LOAD_NONE);
    assert_int_equal(l.requests[3].prompt, 2);
    assert_int_equal(l.requests[3].output, 1);
    load_prompt(&l, 0, NULL, one);
    load_prompt(&l, 1, NULL, two); /* id 7 is the first for both: 8 tokens */
    assert_memory_equal(one, two, 8 * sizeof *one);
    assert_memory_not_equal(one + 8, two + 8, 8 * sizeof *one);
    load_fini(&l);
    assert_int_equal(load_open(&l, "/nonexistent", 1, 64, 300, &why), -1);
    load_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(made), cmocka_unit_test(from_a_trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
