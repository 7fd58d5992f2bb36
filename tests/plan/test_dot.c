/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dot: texts from outside arrive as they are, whatever the language means by them; and what becomes of a graph, with
 * programs in the place of Graphviz's dot that fail in each way, and with dot itself where that is installed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "batonrun/child.h"
#include "batonrun/program.h"
#include "launch/plan/dot.h"
#include "with_dot.h"

static char folder[] = "/tmp/test_dot.XXXXXX";
static const char *path_before;

static const char *path_of(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static char *content(const char *name)
{
    char *text = NULL;
    size_t room = 0;
    FILE *f = fopen(path_of(name), "r");
    assert_non_null(f);
    if (getdelim(&text, &room, '\0', f) < 0)
        text[0] = '\0';
    fclose(f);
    return text;
}

static void check_content(const char *name, const char *wanted)
{
    char *text = content(name);
    assert_string_equal(text, wanted);
    free(text);
}

/* A graph whose label is `text`. */
static int write_label(const char *text, const struct dot_files *files, struct why *why)
{
    struct dot d;
    assert_int_equal(dot_begin(&d, why), 0);
    fputs("digraph g {\nlabel=\"", d.out);
    dot_escaped(d.out, text);
    fputs("\";\n}\n", d.out);
    return dot_end(&d, files, 0, why);
}

static const char nasty[] = "<b>\"a\\b\" \\\\n \\\" &lt;&#65; {x|y} \\N</b>\\";

static void test_texts(void **state)
{
    static const char *const texts[][2] = {{nasty, nasty},
                                           {"two\nlines\r\t", "two_lines__"},
                                           {"caf\xc3\xa9", "caf__"},
                                           {"\"];x[label=\"", "\"];x[label=\""},
                                           {"<table><tr><td>x</td></tr></table>", "<table><tr><td>x</td></tr></table>"},
                                           {"", ""}};
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("graph.dot"));
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct why why;
        struct dot_read g;
        assert_int_equal(write_label(texts[i][0], &(struct dot_files){.dot = path}, &why), 0);
        char *text = content("graph.dot");
        dot_read(&g, text);
        assert_string_equal(g.label, texts[i][1]);
        assert_int_equal(g.num_nodes, 0);
        dot_read_fini(&g);
        free(text);
    }
}

/* ---- programs in the place of dot -------------------------------------------------------------------------------- */

/* Draws with a shell's script; NULL: there is none. What stood in the picture's file is "old". */
static int draw_by(const char *script, struct why *why)
{
    char path[64];
    put_file("picture.svg", "old");
    unlink(path_of("dot"));
    if (script != NULL) {
        put_file("dot", script);
        assert_int_equal(chmod(path_of("dot"), 0700), 0);
    }
    snprintf(path, sizeof path, "%s", path_of("picture.svg"));
    setenv("PATH", folder, 1);
    int rc = write_label("x", &(struct dot_files){.svg = path, .patience_s = 1}, why);
    setenv("PATH", path_before, 1);
    return rc;
}

static void test_draws(void **state)
{
    struct why why;
    (void)state;
    assert_int_equal(draw_by("#!/bin/sh\n[ \"$*\" = -Tsvg ] && /bin/cat && echo '</svg>'", &why), 0);
    check_content("picture.svg", "digraph g {\nlabel=\"x\";\n}\n</svg>\n");
    assert_int_equal(draw_by("#!/bin/sh\n/bin/cat >/dev/null; echo warned >&2; echo '</svg>'", &why), 0);
    check_content("picture.svg", "</svg>\n");
}

static void check_fails(const char *script, const char *words)
{
    struct why why = {""};
    assert_int_equal(draw_by(script, &why), -1);
    if (strstr(why.text, words) == NULL)
        fail_msg("not \"%s\", but \"%s\"", words, why.text);
    check_content("picture.svg", "old");
}

static void test_failures(void **state)
{
    (void)state;
    check_fails(NULL, "apt install graphviz");
    check_fails("#!/bin/sh\necho no >&2; echo '</svg>'; exit 3", "dot ended with status 3");
    check_fails("#!/bin/sh\nkill -SEGV $$", "dot ended with status 139");
    check_fails("#!/gone\n", "apt install graphviz"); /* the kernel says so of its interpreter too */
    check_fails("#!/bin/sh\necho '<svg>'", "no whole picture");
    check_fails("#!/bin/sh\n", "no whole picture");
    const uint64_t start = clock_now_ns();
    check_fails("#!/bin/sh\n/bin/sleep 50 & /bin/sleep 50", "not drawn the picture after 1 s");
    assert_in_range((clock_now_ns() - start) / 1000000, 900, 20000);
}

/* Where neither file can be written, the sentence names its option. */
static void test_bad_files(void **state)
{
    struct why why;
    (void)state;
    assert_int_equal(write_label("x", &(struct dot_files){.dot = "/gone/x"}, &why), -1);
    assert_string_equal(why.text, "--dot \"/gone/x\": No such file or directory");
    put_file("dot", "#!/bin/sh\necho '</svg>'");
    assert_int_equal(chmod(path_of("dot"), 0700), 0);
    setenv("PATH", folder, 1);
    assert_int_equal(write_label("x", &(struct dot_files){.svg = "/gone/x"}, &why), -1);
    setenv("PATH", path_before, 1);
    assert_string_equal(why.text, "--svg \"/gone/x\": No such file or directory");
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(write_label("x", &(struct dot_files){.dot = "/dev/full"}, &why), -1);
        assert_string_equal(why.text, "--dot \"/dev/full\": No space left on device");
    }
}

static void test_real_dot(void **state)
{
    struct why why;
    char path[64];
    (void)state;
    if (program_obstacle("dot") != 0) {
        printf("skipped: Graphviz's dot is not installed\n");
        skip();
    }
    snprintf(path, sizeof path, "%s", path_of("real.svg"));
    assert_int_equal(write_label(nasty, &(struct dot_files){.svg = path}, &why), 0);
    char *text = content("real.svg");
    assert_non_null(
        strstr(text, ">&lt;b&gt;&quot;a\\b&quot; \\\\n \\&quot; &amp;lt;&amp;#65; {x|y} \\N&lt;/b&gt;\\</text>"));
    free(text);
}

static int set_up(void **state)
{
    (void)state;
    path_before = strdup(getenv("PATH"));
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"graph.dot", "picture.svg", "dot", "real.svg"};
    (void)state;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),     cmocka_unit_test(test_draws),    cmocka_unit_test(test_failures),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_real_dot),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
