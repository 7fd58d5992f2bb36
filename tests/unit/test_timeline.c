/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline: its file is JSON whatever is recorded, says what it lacks, and can be loaded when the process was killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "observe/timeline.h"
#include "observe/timeline_text.h"

static char folder[] = "/tmp/baton-timeline-XXXXXX";
static char path[64];
static struct logger logger = {.level = LOG_NONE};

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct timeline_wish wish_for(const char *name, uint32_t rank, uint32_t records)
{
    static char pattern[48];
    snprintf(pattern, sizeof pattern, "%s/%s%%r", folder, name);
    snprintf(path, sizeof path, "%s/%s%" PRIu32, folder, name, rank);
    return (struct timeline_wish){.path = pattern,
                                  .rank = rank,
                                  .workers = 2,
                                  .engine = "prefill0",
                                  .host = "n07",
                                  .bytes = 1 << 20,
                                  .records = records,
                                  .log = &logger};
}

static struct timeline *create(const char *name, uint32_t rank, uint32_t records)
{
    struct timeline *t = NULL;
    const struct timeline_wish wish = wish_for(name, rank, records);
    assert_int_equal(timeline_create(&wish, &t), 0);
    return t;
}

/* The events of the file, whose closing bracket may be missing. */
static json_t *load(bool is_whole)
{
    static char text[2 << 20];
    json_error_t error;
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    size_t n = fread(text, 1, sizeof text - 2, in);
    fclose(in);
    unlink(path);
    if (!is_whole) {
        assert_int_equal(text[n - 2], ',');
        text[n - 2] = ']';
        n--;
    }
    json_t *events = json_loadb(text, n, 0, &error);
    if (events == NULL)
        fail_msg("%s at %d", error.text, error.position);
    assert_true(json_is_array(events));
    return events;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

/* The i-th event of that name; NULL: there are not so many. */
static const json_t *find(const json_t *events, const char *name, unsigned i)
{
    size_t at;
    const json_t *event;
    json_array_foreach(events, at, event) if (strcmp(text_of(event, "name"), name) == 0 && i-- == 0) return event;
    return NULL;
}

static unsigned count(const json_t *events, const char *name)
{
    unsigned n = 0;
    while (find(events, name, n) != NULL)
        n++;
    return n;
}

static uint64_t dropped_of(const json_t *events)
{
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(text_of(last, "name"), "records left out");
    return (uint64_t)json_integer_value(json_object_get(json_object_get(last, "args"), "dropped"));
}

/* One record of each kind, with the largest numbers. */
static struct timeline_record specimen(enum timeline_kind kind)
{
    struct timeline_record r = {.kind = (uint8_t)kind, .ns = INT64_MAX, .id = INT64_MAX, .peer = UINT32_MAX};
    if (kind == TIMELINE_WANT || kind == TIMELINE_OFFER) {
        memset(r.key, 1, sizeof r.key - 1);
        return r;
    }
    r.name = kind == TIMELINE_REPORTED ? "want" : "WHATEVER A MESSAGE IS CALLED";
    r.want = r.bytes = r.runs = r.until_ns = INT64_MAX; /* jansson knows no larger integers */
    r.what = kind == TIMELINE_COPY ? 64 : 3;
    r.error = kind == TIMELINE_REPORTED ? BATON_ECHECKSUM : 0;
    return r;
}

static void test_each_record_is_json(void **state)
{
    (void)state;
    struct timeline *t = create("each", 4294967294u, 64);
    for (enum timeline_kind kind = TIMELINE_WANT; kind <= TIMELINE_LIFE; kind++) {
        char text[2 * TIMELINE_TEXT_MAX];
        struct timeline_text to = {.rank = UINT32_MAX, .batches = UINT64_MAX - 1};
        struct timeline_record r = specimen(kind);
        size_t n = timeline_text_record(&to, &r, text);
        assert_true(n > 0 && n <= TIMELINE_TEXT_MAX);
        timeline_add(t, &r);
    }
    timeline_destroy(t);
    json_t *events = load(true);
    assert_int_equal(count(events, "want"), 2);
    assert_int_equal(count(events, "batch"), 2);
    assert_int_equal(count(events, "matched"), 1);
    assert_int_equal(count(events, "thread_name"), 3);
    assert_int_equal(dropped_of(events), 0);
    assert_string_equal(text_of(json_object_get(find(events, "want", 1), "args"), "error"), "BATON_ECHECKSUM");
    json_decref(events);
}

static void test_keys_are_escaped_and_cut(void **state)
{
    (void)state;
    struct timeline *t = create("keys", 0, 64);
    char longest[256];
    memset(longest, 'k', sizeof longest - 1);
    longest[255] = '\0';
    timeline_add_call(t, TIMELINE_WANT, 1, 1, "a\"b\\c\n\x01\xff}");
    timeline_add_call(t, TIMELINE_OFFER, 2, 2, longest);
    timeline_destroy(t);
    json_t *events = load(true);
    assert_string_equal(text_of(json_object_get(find(events, "want", 0), "args"), "key"), "a\"b\\c\n\x01\xc3\xbf}");
    assert_int_equal(strlen(text_of(json_object_get(find(events, "offer", 0), "args"), "key")), TIMELINE_KEY - 1);
    json_decref(events);
}

/* In nanoseconds, for times. */
static uint64_t thousand_of(const json_t *event, const char *name)
{
    return (uint64_t)(json_number_value(json_object_get(event, name)) * 1000 + 0.5);
}

/* How the thread is named on which this happened. Empty: it has no name. */
static const char *thread_of(const json_t *events, const json_t *event)
{
    for (unsigned i = 0; i < count(events, "thread_name"); i++) {
        const json_t *name = find(events, "thread_name", i);
        if (thousand_of(name, "tid") == thousand_of(event, "tid") &&
            thousand_of(name, "pid") == thousand_of(event, "pid"))
            return text_of(json_object_get(name, "args"), "name");
    }
    return "";
}

/* What happens on the thread of the turns stands one after the other, as the format asks, also within a nanosecond. */
static void test_slices_of_a_thread_do_not_overlap(void **state)
{
    (void)state;
    struct timeline *t = create("slices", 0, 64);
    uint64_t now = clock_now_ns();
    for (unsigned i = 0; i < 4; i++)
        timeline_add_message(t, i % 2 == 0 ? TIMELINE_SENT : TIMELINE_HEARD, 3, i, 7, "WANT");
    timeline_add(t, &(struct timeline_record){
                        .kind = TIMELINE_COPY, .ns = now, .until_ns = now + 1, .id = 5, .name = "copy", .bytes = 9});
    timeline_add(t, &(struct timeline_record){
                        .kind = TIMELINE_COPY, .ns = now, .until_ns = now + 10, .what = 2, .name = "copy"});
    timeline_destroy(t);
    json_t *events = load(true);
    uint64_t edge = 0;
    for (unsigned i = 0; i < 4; i++) {
        const json_t *e = find(events, "WANT", i);
        assert_true(thousand_of(e, "ts") >= edge);
        edge = thousand_of(e, "ts") + thousand_of(e, "dur");
    }
    assert_true(thousand_of(find(events, "copy", 0), "ts") >= edge);
    assert_true(thousand_of(find(events, "copy", 0), "dur") > 0);
    assert_int_equal(thousand_of(find(events, "copy", 1), "tid"), thousand_of(find(events, "copy", 0), "tid") + 2000);
    assert_true(thousand_of(find(events, "copy", 1), "ts") < edge);
    assert_string_equal(thread_of(events, find(events, "WANT", 0)), "turns");
    assert_string_equal(thread_of(events, find(events, "copy", 0)), "turns");
    assert_string_equal(thread_of(events, find(events, "copy", 1)), "copy worker 2");
    json_decref(events);
}

/* Both ends of an arrow have one id, which no message of another pair, direction or number has. */
static void test_arrows_have_two_ends(void **state)
{
    (void)state;
    struct timeline *one = create("one", 3, 64);
    timeline_add_message(one, TIMELINE_SENT, 4, 9, 1, "WANT");
    timeline_add_message(one, TIMELINE_SENT, 4, 10, 1, "WANT");
    timeline_destroy(one);
    json_t *here = load(true);
    struct timeline *other = create("other", 4, 64);
    timeline_add_message(other, TIMELINE_HEARD, 3, 9, 1, "WANT");
    timeline_add_message(other, TIMELINE_SENT, 3, 9, 1, "GRANT");
    timeline_destroy(other);
    json_t *there = load(true);
    const char *id = text_of(find(here, "WANT", 0), "bind_id");
    assert_string_equal(id, text_of(find(there, "WANT", 0), "bind_id"));
    assert_true(json_is_true(json_object_get(find(here, "WANT", 0), "flow_out")));
    assert_true(json_is_true(json_object_get(find(there, "WANT", 0), "flow_in")));
    assert_string_not_equal(id, text_of(find(here, "WANT", 1), "bind_id"));
    assert_string_not_equal(id, text_of(find(there, "GRANT", 0), "bind_id"));
    json_decref(here);
    json_decref(there);
}

static void test_a_full_ring_is_told(void **state)
{
    (void)state;
    struct timeline *t = create("ring", 0, 4);
    for (unsigned i = 0; i < 5000; i++)
        timeline_add_call(t, TIMELINE_WANT, i, i, "k");
    timeline_destroy(t);
    json_t *events = load(true);
    assert_true(dropped_of(events) > 0);
    assert_int_equal(count(events, "want") + dropped_of(events), 5000);
    json_decref(events);
}

static void test_a_file_at_its_limit_is_told(void **state)
{
    (void)state;
    struct timeline *t = NULL;
    struct timeline_wish wish = wish_for("limit", 0, 8192);
    wish.bytes = 65536;
    assert_int_equal(timeline_create(&wish, &t), 0);
    for (unsigned i = 0; i < 5000; i++)
        timeline_add_call(t, TIMELINE_WANT, i, i, "k");
    timeline_destroy(t);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    assert_true(ftell(in) <= 65536);
    fclose(in);
    json_t *events = load(true);
    assert_true(dropped_of(events) > 0);
    assert_int_equal(count(events, "want") + dropped_of(events), 5000);
    json_decref(events);
}

static void test_a_killed_process_leaves_what_can_be_loaded(void **state)
{
    (void)state;
    wish_for("killed", 0, 0); /* names the file */
    pid_t child = fork();
    if (child == 0) {
        struct timeline *t = create("killed", 0, 1024);
        for (unsigned i = 0; i < 100; i++)
            timeline_add_call(t, TIMELINE_WANT, i, i, "k");
        usleep(300000);
        raise(SIGKILL);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    json_t *events = load(false);
    assert_int_equal(count(events, "want"), 100);
    json_decref(events);
}

/* The thread that writes takes next to no time of a processor where there is nothing to write. */
static void test_an_idle_writer_sleeps(void **state)
{
    (void)state;
    struct timeline *t = create("idle", 0, 1024);
    const clock_t before = clock();
    usleep(300000);
    assert_in_range(clock() - before, 0, CLOCKS_PER_SEC / 10);
    timeline_destroy(t);
    json_decref(load(true));
}

static void test_a_file_that_cannot_be_made_is_an_error(void **state)
{
    (void)state;
    struct timeline *t = NULL, *second = NULL;
    struct timeline_wish wish = wish_for("no-such-folder/", 0, 64);
    assert_int_equal(timeline_create(&wish, &t), BATON_ESYSTEM);
    assert_non_null(strstr(baton_errmsg(), "No such file"));
    wish = wish_for("pipe", 0, 64);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(timeline_create(&wish, &t), BATON_ESYSTEM); /* and nobody waits for a reader */
    unlink(path);
    t = create("twice", 0, 64);
    wish = wish_for("twice", 0, 64);
    assert_int_equal(timeline_create(&wish, &second), BATON_ESYSTEM);
    assert_non_null(strstr(baton_errmsg(), "another context"));
    timeline_destroy(t);
    json_decref(load(true));
}

static void write_file(const char *name, const char *text)
{
    FILE *out = fopen(name, "we");
    assert_true(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

static bool has_text(const char *name, const char *text)
{
    char found[16] = "";
    FILE *in = fopen(name, "re");
    if (in == NULL)
        return false;
    char *line = fgets(found, sizeof found, in);
    fclose(in);
    return line != NULL && strcmp(found, text) == 0;
}

/* No timeline is made at that name, and what stands there is as it was. */
static void is_refused(const char *victim, const char *reason)
{
    struct timeline *t = NULL;
    const struct timeline_wish wish = wish_for("taken", 0, 64);
    assert_int_equal(timeline_create(&wish, &t), BATON_ESYSTEM);
    if (strstr(baton_errmsg(), reason) == NULL)
        fail_msg("%s", baton_errmsg());
    assert_true(has_text(victim, "mine"));
}

/* In a folder where others may make files, they choose neither what is written to nor who reads it. */
static void test_names_that_others_took(void **state)
{
    (void)state;
    char victim[64];
    struct stat made;
    snprintf(victim, sizeof victim, "%s/victim", folder);
    write_file(victim, "mine");
    wish_for("taken", 0, 64);
    assert_int_equal(symlink(victim, path), 0);
    is_refused(victim, "is a link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(victim, path), 0); /* of a file of ours: the name is taken from it */
    timeline_destroy(create("taken", 0, 64));
    assert_true(has_text(victim, "mine"));
    assert_int_equal(stat(path, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0600);
    json_decref(load(true));
    write_file(path, "an earlier run's");
    assert_int_equal(chmod(path, 0644), 0);
    timeline_destroy(create("taken", 0, 64));
    assert_int_equal(stat(path, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0600);
    json_decref(load(true));
    if (geteuid() == 0) {
        write_file(path, "mine");
        assert_int_equal(chown(path, 65534, 65534), 0);
        is_refused(path, "another user's");
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(unlink(victim), 0);
}

static unsigned errors;

static void count_errors(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *text)
{
    (void)user, (void)source;
    errors += level == BATON_LOG_ERROR && strstr(text, "cannot be written") != NULL;
}

/* The file's system refuses to write on: that is logged once, and the rank goes on. */
static void test_a_write_that_fails_is_logged(void **state)
{
    (void)state;
    wish_for("full", 0, 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        logger.level = LOG_ERROR;
        logger.sink = count_errors;
        struct timeline *t = create("full", 0, 4096);
        for (unsigned i = 0; i < 3000; i++)
            timeline_add_call(t, TIMELINE_WANT, i, i, "k");
        timeline_destroy(t);
        _exit(errors == 1 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_record_is_json),
        cmocka_unit_test(test_keys_are_escaped_and_cut),
        cmocka_unit_test(test_slices_of_a_thread_do_not_overlap),
        cmocka_unit_test(test_arrows_have_two_ends),
        cmocka_unit_test(test_a_full_ring_is_told),
        cmocka_unit_test(test_a_file_at_its_limit_is_told),
        cmocka_unit_test(test_a_killed_process_leaves_what_can_be_loaded),
        cmocka_unit_test(test_an_idle_writer_sleeps),
        cmocka_unit_test(test_a_file_that_cannot_be_made_is_an_error),
        cmocka_unit_test(test_names_that_others_took),
        cmocka_unit_test(test_a_write_that_fails_is_logged),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
