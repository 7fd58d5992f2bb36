/* SPDX-License-Identifier: BSD-3-Clause */
/* option: values of each kind, what is refused and with which message, and the manual. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "option/option.h"
#include "unit/with_line.h"

struct values {
    bool loud;
    const char *name, *file;
    uint32_t count;
    uint64_t bytes;
    double share;
    unsigned bits;
    struct option_list list;
    uint32_t left, right;
};

static const struct option_choice colours[] = {{"red", 1}, {"green", 2}, {NULL, 0}};

static const struct option_row rows[] = {
    {.help = "a heading"},
    {"loud", NULL, "speaks up", OPTION_SWITCH(struct values, loud)},
    {"name", "NAME", "is called so", OPTION_TEXT(struct values, name)},
    {"file", "FILE", "lies there", OPTION_FILE(struct values, file)},
    {"count", "N", "so many", OPTION_WHOLE(struct values, count, 2, 4096)},
    {"bytes", "BYTES", "so large", OPTION_WHOLE(struct values, bytes, 0, UINT64_MAX)},
    {"share", "X", "so much of it", OPTION_REAL(struct values, share, 0, 1)},
    {"colour", "red|green", "of this colour", OPTION_CHOICE(struct values, bits, colours), .mask = 3},
    {"list", "LIST", "these", OPTION_LIST(struct values, list, 1, 1u << 20)},
    {"side", "N", "of each side", OPTION_WHOLE(struct values, left, 1, 9), .second = offsetof(struct values, right)},
    {0},
};

static struct line line;

static struct values good(const char *text)
{
    struct why why;
    struct values v = {.bits = 4};
    line_set(&line, text);
    if (option_read(rows, line.argc, line.argv, &v, NULL, NULL, &why) != 0)
        fail_msg("\"%s\": %s", text, why.text);
    return v;
}

static void values_of_each_kind(void **state)
{
    (void)state;
    const struct values v = good("--loud --name x --count 4K --bytes=18446744073709551615 --share 0.5 --colour green");
    assert_true(v.loud);
    assert_string_equal(v.name, "x");
    assert_int_equal(v.count, 4096);
    assert_true(v.bytes == UINT64_MAX);
    assert_true(v.share == 0.5);
    assert_int_equal(v.bits, 4 | 2);
    assert_int_equal(good("--colour red --colour green").bits, 4 | 2);
    assert_true(good("--bytes 3G").bytes == UINT64_C(3) << 30);
    assert_int_equal(good("--cou 7").count, 7);
    assert_string_equal(good("--file ./--loud").file, "./--loud");
    assert_string_equal(good("--file -").file, "-");
    assert_string_equal(good("--name --loud").name, "--loud");
}

static void lists_and_sides(void **state)
{
    (void)state;
    const struct values v = good("--list 1,2K,1M --side 3:4");
    assert_int_equal(v.list.count, 3);
    assert_int_equal(v.list.value[1], 2048);
    assert_int_equal(v.list.value[2], 1 << 20);
    assert_int_equal(option_list_most(&v.list), 1 << 20);
    assert_int_equal(option_list_most(&(struct option_list){0}), 0);
    assert_int_equal(v.left, 3);
    assert_int_equal(v.right, 4);
    assert_int_equal(good("--side 5").left, 5);
    assert_int_equal(good("--side 5").right, 5);
    assert_int_equal(good("--list 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1").list.count, 32);
}

static void an_operand_and_what_was_given(void **state)
{
    (void)state;
    struct why why;
    struct values v = {0};
    const char *operand = NULL;
    uint64_t given;
    line_set(&line, "--count 3 word --loud");
    assert_int_equal(option_read(rows, line.argc, line.argv, &v, &operand, &given, &why), 0);
    assert_string_equal(operand, "word");
    assert_true(v.loud && v.count == 3);
    assert_true(option_given(rows, given, "count") && option_given(rows, given, "loud"));
    assert_false(option_given(rows, given, "name") || option_given(rows, given, "nope"));
    line_set(&line, "word other");
    assert_int_equal(option_read(rows, line.argc, line.argv, &v, &operand, &given, &why), -1);
    assert_string_equal(why.text, "\"other\" is not an option; see --help");
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--nope", "\"--nope\" is no option, or the beginning of several; see --help"},
        {"--loud --nope=1 --loud", "\"--nope=1\" is no option, or"},
        {"--nmae=1", "\"--nmae=1\" is no option (is it --name?), or the beginning of several; see --help"},
        {"--loud --coulor red", "\"--coulor\" is no option (is it --colour?), or"},
        {"-cuont 3", "\"-cuont\" is no option, or"},
        {"-x", "\"-x\" is no option"},
        {"--l", "\"--l\" is no option, or the beginning of several"},
        {"--loud=1", "\"--loud=1\": this option takes no value"},
        {"--count", "\"--count\" lacks its value"},
        {"word", "\"word\" is not an option"},
        {"-- word", "\"word\" is not an option"},
        {"--count 1", "--count must be a whole number from 2 to 4096, and is \"1\""},
        {"--count 5K", "--count must be a whole number from 2 to 4096, and is \"5K\""},
        {"--count 5T", "and is \"5T\""},
        {"--count 5Kb", "and is \"5Kb\""},
        {"--count K", "and is \"K\""},
        {"--count -1", "and is \"-1\""},
        {"--count +1", "and is \"+1\""},
        {"--bytes 18446744073709551616", "--bytes must be a whole number from 0 to 18446744073709551615"},
        {"--bytes 17179869184G", "--bytes must be"},
        {"--file --loud", "--file needs a file: \"--loud\" is an option; ./--loud names a file"},
        {"--file=--loud", "--file needs a file: \"--loud\" is an option"},
        {"--file -- --loud", "--file needs a file: \"--\" is an option"},
        {"--share 1.5", "--share must be a number from 0 to 1, and is \"1.5\""},
        {"--share nan", "--share must be"},
        {"--share 1x", "--share must be"},
        {"--colour blue", "--colour must be one of red, green, and is \"blue\""},
        {"--list 1,,2", "--list must be 1 to 32 numbers from 1 to 1M with commas between them, and is \"1,,2\""},
        {"--list 1,2M", "--list must be"},
        {"--list 1,", "--list must be"},
        {"--list 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "--list must be"},
        {"--side 3:", "--side must be a whole number from 1 to 9, and is \"\""},
        {"--side :3", "--side must be"},
        {"--side 1:2:3", "and is \"2:3\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct why why;
        struct values v = {0};
        line_set(&line, cases[i][0]);
        assert_int_equal(option_read(rows, line.argc, line.argv, &v, NULL, NULL, &why), -1);
        if (strstr(why.text, cases[i][1]) == NULL)
            fail_msg("%s: \"%s\" does not say %s", cases[i][0], why.text, cases[i][1]);
    }
}

/* One wrong letter for every three of a name is a misspelling of it. */
static void the_nearest_name(void **state)
{
    (void)state;
    static const struct option_row more[] = {{.name = "prefill"}, {.name = "prefix"}, {0}};
    const struct option_row *const tables[] = {rows, more, NULL};
    assert_string_equal(option_nearest(tables, "--prefil"), "prefill");
    assert_string_equal(option_nearest(tables, "--prefil=1x1"), "prefill");
    assert_string_equal(option_nearest(tables, "--prefx"), "prefix");
    assert_string_equal(option_nearest(tables, "--lits"), "list");
    assert_null(option_nearest(tables, "--lots")); /* two slips in four letters */
    assert_null(option_nearest(tables, "--filllpre"));
    assert_null(option_nearest(tables, "prefil"));
    assert_null(option_nearest(tables, "--"));
    assert_string_equal(option_hint(tables, "--prefil").text, " (is it --prefill?)");
    assert_string_equal(option_hint(tables, "--nothing").text, "");
}

static void the_manual(void **state)
{
    (void)state;
    static const struct option_row two[] = {
        {.help = "a heading"},
        {"name", "NAME", "is called so", OPTION_TEXT(struct values, name)},
        {"a-name-that-is-long", "NAME",
         "is called so as well, and there is more to be said of it than one line of the manual has room for",
         OPTION_TEXT(struct values, name)},
        {0},
    };
    static const char manual[] =
        "a heading\n"
        "  --name NAME          is called so\n"
        "  --a-name-that-is-long NAME  is called so as well, and there is more to be said of it than one line of the\n"
        "                       manual has room for\n";
    char text[sizeof manual + 8] = "";
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    option_help(two);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_each_kind),
        cmocka_unit_test(lists_and_sides),
        cmocka_unit_test(an_operand_and_what_was_given),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(the_nearest_name),
        cmocka_unit_test(the_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
