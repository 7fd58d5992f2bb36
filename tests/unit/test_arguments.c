/* SPDX-License-Identifier: BSD-3-Clause */
/* batonrun's command line: what is accepted, and that everything else is refused with a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batonrun/arguments.h"

#define PARSE(a, ...)                                                                                                  \
    char *words_[] = {"batonrun", __VA_ARGS__, NULL};                                                                  \
    int rc_ = arguments_parse((int)(sizeof words_ / sizeof words_[0]) - 1, words_, a)

static void test_good(void **state)
{
    struct arguments a;
    (void)state;
    PARSE(&a, "--prefill", "2x4", "--decode", "1x8x2", "-x", "A=b", "-x", "C", "--timeout", "7", "prog", "--layers",
          "3");
    assert_int_equal(rc_, 0);
    assert_int_equal(layout_ranks(&a.layout.prefill), 8);
    assert_int_equal(layout_ranks(&a.layout.decode), 16);
    assert_int_equal(a.layout.decode.pp, 2);
    assert_int_equal(a.num_exports, 2);
    assert_string_equal(a.exports[0], "A=b");
    assert_int_equal(a.timeout_s, 7);
    assert_string_equal(a.program[0][0], "prog");
    assert_string_equal(a.program[0][2], "3"); /* the program's options are its own */
    assert_null(a.program[0][3]);
}

static void test_one_side(void **state)
{
    struct arguments a;
    (void)state;
    PARSE(&a, "--prefill", "1x2", "--", "-prog");
    assert_int_equal(rc_, 0);
    assert_int_equal(layout_ranks(&a.layout.decode), 0);
    assert_string_equal(a.program[0][0], "-prog");
}

static void test_no_engines(void **state)
{
    static const char *const texts[] = {"0x0", "0x1", "0x4x2", "0x0x0"};
    (void)state;
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct layout_side s;
        assert_true(layout_read_side(texts[i], &s));
        assert_int_equal(layout_ranks(&s), 0);
        assert_int_equal(s.tp * s.pp, 1); /* a divisor, never 0 */
    }
}

static void test_flags(void **state)
{
    struct arguments a;
    (void)state;
    PARSE(&a, "-n", "--decode", "2x1", "p");
    assert_int_equal(rc_, 0);
    assert_true(a.dry_run);
    assert_false(a.help);
    assert_int_equal(layout_ranks(&a.layout.decode), 2);
    assert_false(a.check);
}

static void test_check(void **state)
{
    struct arguments a;
    (void)state;
    PARSE(&a, "--check", "--host", "a,b");
    assert_int_equal(rc_, 0);
    assert_true(a.check);
    assert_string_equal(a.placement.hosts, "a,b");
}

static void test_check_of_a_whole_line(void **state)
{
    struct arguments a;
    (void)state;
    PARSE(&a, "--prefill", "1x1", "--check", "p", "q");
    assert_int_equal(rc_, 0);
    assert_true(a.check);
}

static void test_one_word_forms(void **state)
{
    struct arguments a;
    (void)state;
    PARSE(&a, "--prefill=2x4", "--timeout=7", "p", ":", "--decode=1x8x2", "q");
    assert_int_equal(rc_, 0);
    assert_int_equal(layout_ranks(&a.layout.prefill), 8);
    assert_int_equal(layout_ranks(&a.layout.decode), 16);
    assert_int_equal(a.timeout_s, 7);
    assert_string_equal(a.program[0][0], "p");
    assert_string_equal(a.program[1][0], "q");
}

/* Words behind a program are its own, even those that batonrun has options of. */
static void test_stray_word(void **state)
{
    struct arguments a;
    const char *program = NULL;
    (void)state;
    {
        PARSE(&a, "--prefill", "1x1", "p", "--model", "--decode", "1x1");
        assert_int_equal(rc_, 0);
        assert_string_equal(arguments_stray_word(&a, &program), "--decode");
        assert_string_equal(program, "p");
    }
    {
        PARSE(&a, "--prefill", "1x1", "p", ":", "--decode", "1x1", "q", "--prefill", "1x1");
        assert_int_equal(rc_, 0);
        assert_string_equal(arguments_stray_word(&a, &program), "--prefill");
        assert_string_equal(program, "q");
    }
    {
        PARSE(&a, "--prefill", "1x1", "--decode", "1x1", "p", ":", "q");
        assert_int_equal(rc_, 0);
        assert_string_equal(arguments_stray_word(&a, &program), ":");
        assert_string_equal(program, "p");
    }
    {
        PARSE(&a, "--prefill", "1x1", "p", "--decoder", "prefill", ":", "--decode", "1x1", "q");
        assert_int_equal(rc_, 0);
        assert_null(arguments_stray_word(&a, &program));
    }
    {
        PARSE(&a, "--prefill", "1x1", "--explain");
        assert_int_equal(rc_, 0);
        assert_null(arguments_stray_word(&a, &program));
    }
}

static void test_version(void **state)
{
    struct arguments a;
    (void)state;
    {
        PARSE(&a, "--prefill", "1x1", "--version", "--bogus");
        assert_int_equal(rc_, 0);
        assert_true(a.version && !a.help);
    }
    {
        PARSE(&a, "--prefill", "1x1", "p", ":", "--decode", "1x1", "--version");
        assert_int_equal(rc_, 0);
        assert_true(a.version);
    }
}

static void refused(const char *part, char **words)
{
    struct arguments a;
    int n = 0;
    while (words[n] != NULL)
        n++;
    assert_int_equal(arguments_parse(n, words, &a), -1);
    if (strstr(a.error, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", a.error, part);
}
#define REFUSED(part, ...) refused(part, (char *[]){"batonrun", __VA_ARGS__, NULL})

static void test_timeline(void **state)
{
    (void)state;
    struct arguments a;
    PARSE(&a, "--trace", "job.json", "--prefill", "1x1", "p");
    assert_int_equal(rc_, 0);
    assert_string_equal(a.trace, "job.json");
    REFUSED("--trace", "--trace", "--survive", "--prefill", "1x1", "p");
}

static void test_bad(void **state)
{
    (void)state;
    REFUSED("unknown option --bogus", "--bogus", "x");
    REFUSED("unknown option --prefil (is it --prefill?)", "--prefil", "1x1", "p");
    REFUSED("unknown option --host-file=h (is it --hostfile?)", "--prefill", "1x1", "--host-file=h", "p");
    REFUSED("unknown option --dryrun (is it --dry-run?)", "--prefill", "1x1", "--dryrun", "p");
    REFUSED("name the engines", "prog");
    REFUSED("--check and --script exclude each other", "--check", "--script", "slurm");
    REFUSED("a program is missing", "--prefill", "1x1");
    REFUSED("\"--decode\" lacks its value", "--decode");
    REFUSED("a value is missing after -x", "-x");
    REFUSED("this option takes no value", "--survive=1", "p");
    REFUSED("name the engines", "--prefill", "0x0", "--decode", "0x0", "p");
    REFUSED("not 1x0", "--prefill", "1x0", "p");
    REFUSED("not 1x2x0", "--prefill", "1x2x0", "p");
    REFUSED("not 1x2x", "--prefill", "1x2x", "p");
    REFUSED("not 0x", "--prefill", "0x", "p");
    REFUSED("not 1", "--prefill", "1", "p");
    REFUSED("not x1", "--prefill", "x1", "p");
    REFUSED("not 1x-1", "--prefill", "1x-1", "p");
    REFUSED("not 1x2x3x4", "--prefill", "1x2x3x4", "p");
    REFUSED("not 1x99999999999999999999", "--prefill", "1x99999999999999999999", "p");
    REFUSED("not 65536x1024", "--prefill", "65536x1024", "p");
    REFUSED("not 1x2048", "--prefill", "1x2048", "p");
    REFUSED("-x takes", "-x", "=v", "p");
    REFUSED("--timeout must be a whole number from 1 to", "--timeout", "0", "p");
    REFUSED("--metrics takes a port", "--metrics", "0", "p");
    REFUSED("--metrics takes a port", "--metrics", "99999", "p");
    REFUSED("--metrics takes a port", "--metrics", "127.0.0.1:0", "p");
    REFUSED("--metrics takes a port", "--metrics", "n07:9464", "p");
    REFUSED("--metrics takes a port", "--metrics", "300.0.0.1:9464", "p");
    REFUSED("--metrics takes a port", "--metrics", ":9464", "p");
    REFUSED("--metrics takes a port", "--metrics", "1234567890123456789:9464", "p");
    REFUSED("--timeout must be a whole number from 1 to", "--timeout", "1s", "p");
}

static void test_two_programs(void **state)
{
    (void)state;
    struct arguments a;
    PARSE(&a, "--survive", "--decode", "2x1", "d", "x", ":", "--prefill", "1x4", "--pack", "p", ":", "y");
    assert_int_equal(rc_, 0);
    assert_int_equal(layout_ranks(&a.layout.prefill), 4);
    assert_int_equal(layout_ranks(&a.layout.decode), 2);
    assert_true(a.survive && a.placement.pack);
    assert_string_equal(a.program[0][0], "p");
    assert_string_equal(a.program[0][1], ":");
    assert_string_equal(a.program[0][2], "y");
    assert_string_equal(a.program[1][0], "d");
    assert_string_equal(a.program[1][1], "x");
    assert_null(a.program[1][2]);
    REFUSED("one has --prefill and the other one --decode", "--prefill", "1x1", "p", ":", "--prefill", "1x1", "q");
    REFUSED("one has --prefill and the other one --decode", "--prefill", "1x1", "--decode", "1x1", "p", ":", "--decode",
            "1x1", "q");
    REFUSED("\": --decod\" begins no second program: --decode does", "--prefill", "1x1", "p", ":", "--decod", "1x1");
    REFUSED("\": --prefill1=1x1\" begins no second program: --prefill does", "--decode", "1x1", "p", ":",
            "--prefill1=1x1", "q");
    REFUSED("\": --deocde\" begins no second program", "--prefill", "1x1", "p", ":", "x", ":", "--deocde", "1x1");
    REFUSED("a program is missing", "--prefill", "1x1", "p", ":", "--decode", "1x1");
    REFUSED("a program is missing", "--prefill", "1x1", "--", ":", "--decode", "1x1", "q");
    REFUSED("unknown option --bogus", "--prefill", "1x1", "p", ":", "--decode", "1x1", "--bogus", "q");
}

/* A ":" of the program's own, whatever follows it. */
static void test_own_colons(void **state)
{
    static const char *const words[] = {"decode", "--dry-run", "--", "", "--d", "-decode", "--encoder", "--decode-to"};
    (void)state;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct arguments a;
        PARSE(&a, "--prefill", "1x1", "p", ":", (char *)words[i], "1x1");
        if (rc_ != 0)
            fail_msg("%s: %s", words[i], a.error);
        assert_ptr_equal(a.program[0], a.program[1]);
        assert_string_equal(a.program[0][2], words[i]);
    }
}

static void test_placement(void **state)
{
    (void)state;
    struct arguments a;
    PARSE(&a, "--prefill", "1x1", "--host=a:1", "--tokens", "9", "--apart", "--inside", "0.5", "--explain");
    assert_int_equal(rc_, 0);
    assert_string_equal(a.placement.hosts, "a:1");
    assert_int_equal(a.placement.tokens, 9);
    assert_true(a.placement.apart && a.placement.explain && !a.placement.spread);
    assert_true(a.placement.inside == 0.5);
    REFUSED("--spread and --pack exclude", "--prefill", "1x1", "--spread", "--pack", "p");
    REFUSED("--together and --apart exclude", "--prefill", "1x1", "--together", "--apart", "p");
    REFUSED("--tokens must be", "--prefill", "1x1", "--tokens", "0", "p");
    REFUSED("\"--host\" lacks its value", "--prefill", "1x1", "--host");
    REFUSED("--svg needs a file: \"--explain\" is an option", "--prefill", "1x1", "--svg", "--explain", "true");
    REFUSED("--topology needs a file: \"--prefill\" is an option", "--topology", "--prefill", "1x1");
    static const char *const files[] = {"--hostfile", "--topology", "--network", "--costs", "--pairs", "--mpirun"};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++)
        REFUSED("needs a file: \"--pack\" is an option", "--prefill", "1x1", (char *)files[i], "--pack", "p");
}

static void test_too_many_exports(void **state)
{
    struct arguments a;
    char *words[2 * ARGUMENTS_EXPORTS_MAX + 4] = {"batonrun"};
    (void)state;
    for (int i = 0; i <= ARGUMENTS_EXPORTS_MAX; i++) {
        words[1 + 2 * i] = "-x";
        words[2 + 2 * i] = "V";
    }
    assert_int_equal(arguments_parse(2 * ARGUMENTS_EXPORTS_MAX + 3, words, &a), -1);
    assert_string_equal(a.error, "too many -x");
}

static void test_random_words(void **state)
{
    (void)state;
    static char *const pieces[] = {"--prefill", "--decode", "-x", "1x2", "2x",        "x",      "--", "--timeout",
                                   "9",         "",         "-",  "p",   "--dry-run", "4x4x4x", "=",  "99999x99999"};
    srand(1);
    for (int i = 0; i < 20000; i++) {
        struct arguments a;
        char *words[10] = {"batonrun"};
        int n = 1 + rand() % 8;
        for (int k = 1; k < n; k++)
            words[k] = pieces[(size_t)rand() % (sizeof pieces / sizeof pieces[0])];
        int rc = arguments_parse(n, words, &a);
        assert_true(rc == 0 || (rc == -1 && a.error[0] != '\0'));
        if (rc == 0 && !a.help) {
            assert_non_null(a.program);
            assert_true(arguments_ranks(&a) > 0);
        }
    }
}

/* Words between two "--" are the launcher's, if the first one is an option. */
static void test_launcher_words(void **state)
{
    struct arguments a;
    (void)state;
    {
        PARSE(&a, "--prefill", "1x1", "--launcher", "hydra", "--mpirun=/opt/mpiexec", "--", "--tag", "x", "--", "prog",
              "--", "y");
        assert_int_equal(rc_, 0);
        assert_int_equal(a.launcher, LAUNCHER_HYDRA);
        assert_string_equal(a.mpirun, "/opt/mpiexec");
        assert_string_equal(a.launcher_words[0], "--tag");
        assert_string_equal(a.launcher_words[1], "x");
        assert_null(a.launcher_words[2]);
        assert_string_equal(a.program[0][0], "prog");
        assert_string_equal(a.program[0][2], "y");
    }
    {
        PARSE(&a, "--prefill", "1x1", "--", "prog", "--", "y");
        assert_int_equal(rc_, 0);
        assert_null(a.launcher_words);
        assert_string_equal(a.program[0][0], "prog");
        assert_string_equal(a.program[0][1], "--");
    }
    {
        PARSE(&a, "--prefill", "1x1", "--", "-n", ":", "--", "prog");
        assert_int_equal(rc_, -1);
        assert_non_null(strstr(a.error, "\":\""));
    }
    {
        PARSE(&a, "--prefill", "1x1", "--", "-v", "--", "p", ":", "--decode", "1x1", "--", "-v", "--", "q");
        assert_int_equal(rc_, -1);
        assert_non_null(strstr(a.error, "before the first program"));
    }
    {
        PARSE(&a, "--prefill", "1x1", "--script", "lsf", "prog");
        assert_int_equal(rc_, -1);
        assert_non_null(strstr(a.error, "slurm, pbs"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launcher_words),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_one_side),
        cmocka_unit_test(test_no_engines),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_of_a_whole_line),
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_one_word_forms),
        cmocka_unit_test(test_stray_word),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_own_colons),
        cmocka_unit_test(test_two_programs),
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_too_many_exports),
        cmocka_unit_test(test_random_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
