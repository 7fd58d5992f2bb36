/* SPDX-License-Identifier: BSD-3-Clause */
/* openmetrics: the text of a job's metrics is what Prometheus takes, and says what the pages say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "metrics/frame.h"
#include "metrics/openmetrics.h"
#include "unit/with_openmetrics.h"

static char why[256];

static struct pages_rank *rank_new(uint32_t number, const char *engine)
{
    struct pages_rank *r = calloc(1, sizeof *r);
    struct metrics_body *b = &r->view.body;
    r->number = number;
    snprintf(r->job, sizeof r->job, "j-1.2");
    r->view.is_alive = true;
    snprintf(b->engine, sizeof b->engine, "%s", engine);
    snprintf(b->host, sizeof b->host, "n0");
    snprintf(b->version, sizeof b->version, "0.2.0");
    return r;
}

static char *print_as(struct pages_rank *const *ranks, uint32_t num, enum openmetrics_form form)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    openmetrics_print(ranks, num, form, out);
    fclose(out);
    return text;
}

static char *print(struct pages_rank *const *ranks, uint32_t num)
{
    return print_as(ranks, num, OPENMETRICS_ANSWER);
}

/* The lines of samples alone, in place. */
static void drop_comments(char *text)
{
    char *to = text;
    for (char *next, *at = text; *at != '\0'; at = next) {
        next = strchr(at, '\n') + 1;
        if (*at == '#')
            continue;
        memmove(to, at, (size_t)(next - at));
        to += next - at;
    }
    *to = '\0';
}

/* Each form is what it should be, and not the other one; their samples are the same. */
static void check_forms(struct pages_rank *const *ranks, uint32_t num)
{
    char *text = print(ranks, num), *old = print_as(ranks, num, OPENMETRICS_FILE);
    if (!openmetrics_is_good(text, false, why, sizeof why) || !openmetrics_is_good(old, true, why, sizeof why))
        fail_msg("%s", why);
    assert_false(openmetrics_is_good(text, true, why, sizeof why));
    assert_false(num > 0 && openmetrics_is_good(old, false, why, sizeof why));
    drop_comments(text);
    drop_comments(old);
    assert_string_equal(text, old);
    free(text);
    free(old);
}

/* Whether the text has this line. */
static bool has(const char *text, const char *line)
{
    char whole[512];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    return strstr(text, whole) != NULL;
}

static void test_a_job(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(1);
    const uint64_t bytes[BATON_PATHS] = {[BATON_PATH_SHM] = 4096};
    struct pages_rank *ranks[2] = {rank_new(0, "prefill0"), rank_new(1, "decode0")};
    metrics_transfer(m, (struct metrics_engine){0, "prefill0", 1}, BATON_PATH_SHM, false, 4096, 2000);
    metrics_transfer(m, (struct metrics_engine){0, "prefill0", 1}, BATON_PATH_RMA, true, 65536, 1500000000);
    metrics_want(m, bytes, 3000);
    metrics_failure(m, (struct metrics_engine){0, "prefill0", 1}, BATON_EPEER);
    baton_stats_t stats = {.wants_done = 7, .handshake_ns_sum = 1000000001};
    stats.reasons[-BATON_ETIMEDOUT] = 2;
    stats.bytes[BATON_PATH_SHM] = 4096;
    metrics_set_stats(m, &stats);
    struct metrics_body who = ranks[1]->view.body;
    ranks[1]->view.body = *metrics_body(m);
    memcpy(ranks[1]->view.body.engine, who.engine, sizeof who.engine);
    memcpy(ranks[1]->view.body.host, who.host, sizeof who.host);
    memcpy(ranks[1]->view.body.version, "0.2.0", sizeof "0.2.0");
    ranks[1]->view.body.index = 3;
    ranks[1]->view.body.life = 0xabcdef;
    char *text = print(ranks, 2);
    check_forms(ranks, 2);
    assert_true(
        has(text, "baton_wants_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",status=\"done\"} 7"));
    assert_true(
        has(text, "baton_wants_total{rank=\"0\",engine=\"prefill0\",host=\"n0\",run=\"j-1.2\",status=\"done\"} 0"));
    assert_true(has(
        text, "baton_handshakes_seconds_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\"} 1.000000001"));
    assert_true(has(
        text,
        "baton_failures_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",reason=\"BATON_ETIMEDOUT\"} 2"));
    assert_true(
        has(text, "baton_peer_failures_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",peer=\"prefill0\","
                  "reason=\"BATON_EPEER\"} 1"));
    assert_true(has(
        text, "baton_received_bytes_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",path=\"shm\"} 4096"));
    assert_true(has(text,
                    "baton_moved_bytes_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",peer=\"prefill0\","
                    "path=\"shm\",direction=\"in\"} 4096"));
    assert_true(has(text,
                    "baton_transfers_total{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",peer=\"prefill0\","
                    "path=\"rma\",direction=\"out\"} 1"));
    assert_true(has(
        text, "baton_transfer_size_bytes_bucket{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",path=\"shm\","
              "le=\"4351.0\"} 1"));
    assert_true(has(
        text, "baton_transfer_size_bytes_bucket{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",path=\"shm\","
              "le=\"2175.0\"} 0"));
    assert_true(has(
        text, "baton_want_duration_seconds_sum{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",path=\"shm\"} "
              "0.000003000"));
    assert_true(
        has(text, "baton_peer_transfer_duration_seconds_count{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\","
                  "peer=\"prefill0\"} 2"));
    assert_true(has(text, "baton_rank_info{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\",index=\"3\","
                          "life=\"0000000000abcdef\",version=\"0.2.0\"} 1"));
    assert_true(has(text, "baton_closed{rank=\"0\",engine=\"prefill0\",host=\"n0\",run=\"j-1.2\"} 0"));
    assert_true(has(text, "baton_up{rank=\"0\",engine=\"prefill0\",host=\"n0\",run=\"j-1.2\"} 1"));
    free(text);
    free(ranks[0]);
    free(ranks[1]);
    metrics_destroy(m);
}

/* Names that no honest rank has, two contexts of one rank, and every number at its greatest. */
static void test_odd_ranks(void **state)
{
    (void)state;
    struct pages_rank *ranks[2] = {rank_new(0, "a\\\"}\""), rank_new(0, "prefill0")};
    for (unsigned i = 0; i < 2; i++)
        memset(&ranks[i]->view.body.stats, 0xff, sizeof ranks[i]->view.body - offsetof(struct metrics_body, stats));
    for (unsigned p = 0; p <= METRICS_PEERS; p++) {
        struct metrics_peer *peer = &ranks[1]->view.body.peer[p];
        snprintf(peer->engine, sizeof peer->engine, "\\\"%u", p);
        snprintf(ranks[0]->view.body.peer[p].engine, sizeof peer->engine, "e%u", p);
    }
    /* Sums of buckets wrap round: only small ones are what a rank can have. */
    for (unsigned i = 0; i < 2; i++) {
        struct metrics_body *b = &ranks[i]->view.body;
        b->num_peers = METRICS_PEERS;
        for (unsigned p = 0; p < METRICS_PATHS; p++)
            for (unsigned n = 0; n < HISTOGRAM_BUCKETS; n++)
                b->path[p].want_ns.bucket[n] = b->path[p].transfer_ns.bucket[n] = b->path[p].transfer_bytes.bucket[n] =
                    n;
        for (unsigned p = 0; p <= METRICS_PEERS; p++)
            for (unsigned n = 0; n < HISTOGRAM_BUCKETS; n++)
                b->peer[p].transfer_ns.bucket[n] = 1;
    }
    ranks[1]->context = 1;
    check_forms(ranks, 2);
    free(ranks[0]);
    free(ranks[1]);
}

static void test_nobody(void **state)
{
    (void)state;
    check_forms(NULL, 0);
}

/* The checker itself: each of these is wrong. */
static void test_the_checker(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "# EOF",
        "a 1\n# EOF\n",
        "# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a counter\na_total -1\n# EOF\n",
        "# TYPE a counter\na_total 1\na_total 2\n# EOF\n",
        "# TYPE a counter\n# TYPE a counter\n# EOF\n",
        "# TYPE a counter\n# TYPE b gauge\na_total 1\n# EOF\n",
        "# TYPE a counter\n# UNIT a seconds\n# EOF\n",
        "# TYPE a gauge\n\n# EOF\n",
        "# TYPE a gauge\na{b=\"c} 1\n# EOF\n",
        "# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n# EOF\n",
        "# TYPE a gauge\na{b=\"\\x\"} 1\n# EOF\n",
        "# TYPE a gauge\na x\n# EOF\n",
        "# TYPE a gauge\na 1\n# HELP a b\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_count 1\na_sum 1\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_count 1\na_sum 1\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 2\na_sum 1\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 1\n# EOF\n",
        "# TYPE a gauge\na 1\n# EOF\n# EOF\n",
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (openmetrics_is_good(wrong[i], false, why, sizeof why))
            fail_msg("%u was taken", i);
    assert_true(openmetrics_is_good("# TYPE a histogram\na_bucket{le=\"1.0\"} 1\na_bucket{le=\"+Inf\"} 1\na_count 1\n"
                                    "a_sum 0.5\n# EOF\n",
                                    false, why, sizeof why));
    static const char *const wrong_in_files[] = {
        "# TYPE a counter\na_total 1\n# EOF\n",
        "# TYPE a info\na_info 1\n# EOF\n",
        "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# EOF\n",
        "# TYPE a_total counter\na_total 1\n",
    };
    for (unsigned i = 0; i < sizeof wrong_in_files / sizeof wrong_in_files[0]; i++)
        if (openmetrics_is_good(wrong_in_files[i], true, why, sizeof why))
            fail_msg("%u was taken", i);
    assert_true(openmetrics_is_good("# TYPE a_total counter\na_total 1\n# EOF\n", true, why, sizeof why));
}

/* ---- the way back ------------------------------------------------------------------------------------------------ */

static void keep_line(void *arg, const char *text)
{
    fprintf(arg, "%s\n", text);
}

static char *frame_text(struct pages_rank *const *ranks, uint32_t num, const struct frame *before)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct frame *f = calloc(1, sizeof *f);
    frame_sum(f, ranks, num, UINT64_C(5000000000));
    frame_print(f, before, "job", ranks, num, UINT64_C(90000000000), keep_line, out);
    fclose(out);
    free(f);
    return text;
}

static struct pages_rank *busy_rank(uint32_t number, const char *engine, const char *peer, uint64_t ns)
{
    struct metrics *m = metrics_create(1);
    struct pages_rank *r = rank_new(number, engine), *who = rank_new(number, engine);
    baton_stats_t stats = {.wants_done = 3, .offers_done = 4, .wants_live = 1, .legs_live = 2};
    stats.bytes[BATON_PATH_SHM] = 3000000;
    stats.reasons[-BATON_EPEER] = 1;
    metrics_transfer(m, (struct metrics_engine){0, peer, 1}, BATON_PATH_SHM, false, 3000000, ns);
    metrics_transfer(m, (struct metrics_engine){0, peer, 1}, BATON_PATH_RMA, true, 500, ns);
    metrics_failure(m, (struct metrics_engine){0, peer, 1}, BATON_EPEER);
    metrics_set_stats(m, &stats);
    r->view.body = *metrics_body(m);
    memcpy(r->view.body.engine, who->view.body.engine, sizeof who->view.body.engine);
    memcpy(r->view.body.host, who->view.body.host, sizeof who->view.body.host);
    free(who);
    metrics_destroy(m);
    return r;
}

static bool read_back(const char *text, struct pages *p)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(in);
    bool good = openmetrics_read(in, p);
    fclose(in);
    return good;
}

/* What is read back is what was printed, and a frame of it says the same. */
static void test_the_way_back(void **state)
{
    (void)state;
    struct pages p = {.root = "/nowhere"};
    struct pages_rank *ranks[2] = {busy_rank(0, "prefill0", "decode0", 1087),
                                   busy_rank(1, "decode0", "prefill0", 2175)};
    ranks[1]->view.stalled_ns = 1;
    ranks[0]->view.body.is_closed = 1;
    char *text = print_as(ranks, 2, OPENMETRICS_FILE), *frame = frame_text(ranks, 2, NULL);
    assert_true(read_back(text, &p));
    assert_true(read_back(text, &p)); /* again, into the same entries */
    assert_int_equal(p.num, 2);
    assert_string_equal(p.ranks[0]->job, "j-1.2");
    assert_null(strstr(frame, "its process has ended"));
    char *again = print(p.ranks, p.num), *same = frame_text(p.ranks, p.num, NULL);
    assert_string_equal(same, frame);
    assert_non_null(strstr(again, "baton_stalled{rank=\"1\",engine=\"decode0\",host=\"n0\",run=\"j-1.2\"} 1\n"));
    /* A whole text, and each cut of it is said to be one. */
    for (size_t cut = 1; cut < strlen(text); cut += 97) {
        char *half = strndup(text, cut);
        assert_false(read_back(half, &p));
        assert_string_not_equal(p.why, "");
        free(half);
    }
    assert_true(read_back("# EOF\n", &p));
    assert_int_equal(p.num, 0);
    free(text);
    free(frame);
    free(again);
    free(same);
    free(ranks[0]);
    free(ranks[1]);
    pages_fini(&p);
}

/* What took longer than the last bound is shown with that bound, not with the greatest number that there is. */
static void test_times_beyond_the_last_bound(void **state)
{
    (void)state;
    struct pages p = {.root = "/nowhere"};
    struct pages_rank *rank = busy_rank(0, "prefill0", "decode0", UINT64_C(200) * 1000000000);
    char *text = print_as(&rank, 1, OPENMETRICS_FILE);
    assert_true(read_back(text, &p));
    const uint64_t most = histogram_quantile(&p.ranks[0]->view.body.peer[0].transfer_ns, 1);
    assert_true(most > UINT64_C(73) * 1000000000 && most < UINT64_C(74) * 1000000000);
    free(text);
    free(rank);
    pages_fini(&p);
}

/* The job was started again with the same file: of its first run nothing is left. */
static void test_a_file_that_is_used_again(void **state)
{
    (void)state;
    struct pages p = {.root = "/nowhere"};
    struct pages_rank *ranks[2] = {busy_rank(0, "prefill0", "decode0", 1087),
                                   busy_rank(1, "decode0", "prefill0", 2175)};
    char *text = print_as(ranks, 2, OPENMETRICS_FILE);
    assert_true(read_back(text, &p));
    free(text);
    snprintf(ranks[0]->job, sizeof ranks[0]->job, "k");
    text = print_as(ranks, 1, OPENMETRICS_FILE);
    assert_true(read_back(text, &p));
    assert_int_equal(p.num, 1);
    assert_string_equal(p.ranks[0]->job, "k");
    free(text);
    free(ranks[0]);
    free(ranks[1]);
    pages_fini(&p);
}

static void test_texts_of_strangers(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "baton_up{rank=\"0\",engine=\"e\",host=\"h\",run=\"j\"} -1\n# EOF\n",
        "baton_up{rank=\"0\",engine=\"e\",host=\"h\",run=\"j\"} nan\n# EOF\n",
        "baton_up{rank=\"0\"} 1\n# EOF\n",
        "baton_up{rank=\"0\",engine=\"e\",host=\"h\",run=\"\\\"\"} 1\n# EOF\n",
        "baton_up{rank=\"0\",engine=\"e\",host=\"h\",run=\"a b\"} 1\n# EOF\n",
        "baton_up{rank=\"0\",engine=\"e\",host=\"h\"} 1\n# EOF\n",
        "baton_up{rank=\"0\",engine=\"e\\\n# EOF\n",
        "baton_}{ 1\n# EOF\n",
        "up 1\n# EOF\n",
    };
    for (unsigned i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct pages p = {.root = "/nowhere"};
        assert_true(read_back(odd[i], &p));
        assert_int_equal(p.num, 0);
        assert_string_equal(p.why, "it tells of no rank");
        pages_fini(&p);
    }
    struct pages p = {.root = "/nowhere"};
    assert_true(read_back("baton_transfers_total{rank=\"7\",engine=\"e\",host=\"h\",run=\"j\",peer=\"x\",path=\"new\","
                          "direction=\"in\"} 1e300\nbaton_later_total{rank=\"7\",engine=\"e\",host=\"h\",run=\"j\"} 1\n"
                          "# EOF\n",
                          &p));
    assert_int_equal(p.num, 1);
    assert_int_equal(p.ranks[0]->number, 7);
    assert_true(p.ranks[0]->view.body.peer[0].transfers[0][METRICS_IN] == UINT64_MAX);
    pages_fini(&p);
    p = (struct pages){.root = "/nowhere"}; /* what a terminal would obey is not kept */
    assert_true(
        read_back("baton_transfers_total{rank=\"7\",engine=\"e\033\",host=\"\xc2\x9b\",run=\"j\",peer=\"\033x\","
                  "path=\"shm\",direction=\"in\"} 1\n# EOF\n",
                  &p));
    assert_string_equal(p.ranks[0]->view.body.engine, "e?");
    assert_string_equal(p.ranks[0]->view.body.host, "??");
    assert_string_equal(p.ranks[0]->view.body.peer[0].engine, "?x");
    pages_fini(&p);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static void test_a_frame(void **state)
{
    (void)state;
    struct pages_rank *ranks[3] = {busy_rank(0, "prefill0", "decode0", 1000), busy_rank(1, "decode0", "prefill0", 9000),
                                   busy_rank(2, "decode0", "prefill0", 9000)};
    ranks[1]->view.stalled_ns = UINT64_C(60000000000);
    ranks[2]->view.is_alive = false;
    char *text = frame_text(ranks, 3, NULL);
    assert_non_null(strstr(text, "job: 2 of 3 ranks are up, 1 host; since they started\n"));
    assert_non_null(
        strstr(text, "\ndecode0      1/2     6.00 MB   1.00 kB       6       8      2    1      2      0\n"));
    assert_non_null(
        strstr(text, "\nall          2/3     9.00 MB   1.50 kB       9      12      3    2      4      0\n"));
    const char *slow =
        strstr(text, "\ndecode0    prefill0           4   6.00 MB    9.0 us    9.0 us    9.0 us      2\n");
    const char *fast =
        strstr(text, "\nprefill0   decode0            2   3.00 MB    1.0 us    1.0 us    1.0 us      1\n");
    assert_non_null(slow);
    assert_non_null(fast);
    assert_true(slow < fast);
    assert_non_null(strstr(text, "\nrank 1 (decode0 on n0): it has been inside MPI for 30.0 s\n"));
    assert_non_null(strstr(text, "\nrank 2 (decode0 on n0): its process has ended, and it had not closed\n"));
    free(text);
    struct frame *before = calloc(1, sizeof *before);
    frame_sum(before, ranks, 3, UINT64_C(3000000000)); /* two seconds before */
    ranks[0]->view.body.received[BATON_PATH_SHM] += 4000000;
    ranks[0]->view.body.stats[METRICS_wants_done] += 10;
    ranks[0]->view.body.peer[0].transfers[BATON_PATH_SHM][METRICS_IN] += 10;
    histogram_add(&ranks[0]->view.body.peer[0].transfer_ns, 3000);
    text = frame_text(ranks, 3, before);
    assert_non_null(strstr(text, "each second, of the last 2.0 s"));
    assert_non_null(
        strstr(text, "\nprefill0     1/1     2.00 MB       0 B       5       0      0    1      2      0\n"));
    assert_non_null(strstr(text, "\nprefill0   decode0            5       0 B    3.0 us    3.0 us    3.0 us      0\n"));
    assert_non_null(strstr(text, "\ndecode0    prefill0           0       0 B         -         -         -      0\n"));
    free(text);
    free(before);
    for (unsigned i = 0; i < 3; i++)
        free(ranks[i]);
}

/* ---- which pages are which --------------------------------------------------------------------------------------- */

static void make_page(const char *folder, const char *job, uint32_t rank, struct metrics_page **page)
{
    struct metrics_body *b = calloc(1, sizeof *b);
    b->rank = rank;
    b->renewed_ns = 1;
    assert_int_equal(metrics_page_create(folder, job, rank, true, page), 0);
    metrics_page_renew(*page, b, UINT32_MAX);
    free(b);
}

static void test_pages(void **state)
{
    (void)state;
    char folder[] = "/tmp/baton-pages-XXXXXX";
    struct metrics_page *page[4];
    assert_non_null(mkdtemp(folder));
    make_page(folder, "job", 11, &page[0]);
    make_page(folder, "job", 2, &page[1]);
    make_page(folder, "job", 2, &page[2]); /* a second context */
    make_page(folder, "a.3", 5, &page[3]); /* a job whose name looks like a rank */
    struct pages all = {.root = folder}, job = {.root = folder, .job = "job"}, odd = {.root = folder, .job = "a.3"},
                 short_of_it = {.root = folder, .job = "a"};
    assert_true(pages_look(&all));
    assert_int_equal(all.num, 4);
    assert_string_equal(all.ranks[0]->job, "a.3");
    assert_int_equal(all.ranks[0]->number, 5);
    assert_true(pages_look(&short_of_it));
    assert_int_equal(short_of_it.num, 0);
    assert_true(pages_look(&job));
    assert_int_equal(job.num, 3);
    assert_int_equal(job.ranks[0]->number, 2);
    assert_int_equal(job.ranks[0]->context, 0);
    assert_int_equal(job.ranks[1]->context, 1);
    assert_int_equal(job.ranks[2]->number, 11);
    assert_string_equal(job.ranks[2]->job, "job");
    assert_true(pages_look(&odd));
    assert_int_equal(odd.num, 1);
    assert_int_equal(odd.ranks[0]->number, 5);
    metrics_page_destroy(page[0]);
    pages_remove(folder, "job"); /* others are alive */
    assert_true(pages_look(&job));
    assert_int_equal(job.num, 3);
    assert_true(job.ranks[2]->is_there);
    assert_false(job.ranks[2]->view.is_alive);
    metrics_page_destroy(page[1]);
    metrics_page_destroy(page[2]);
    pages_remove(folder, "job");
    assert_true(pages_look(&job));
    assert_int_equal(job.num, 3); /* what it has come to is kept */
    assert_false(job.ranks[2]->is_there);
    assert_int_equal(job.ranks[2]->view.body.rank, 11);
    assert_true(pages_look(&odd));
    assert_true(odd.ranks[0]->is_there);
    metrics_page_destroy(page[3]);
    pages_remove(folder, "a.3");
    assert_int_equal(rmdir(folder), 0);
    pages_fini(&all);
    pages_fini(&job);
    pages_fini(&odd);
}

/* A file that another process named as it liked, and a page of another user's. */
static void test_pages_that_are_not_ours(void **state)
{
    (void)state;
    char folder[] = "/tmp/baton-pages-XXXXXX", own[64], path[128];
    struct metrics_page *page;
    assert_non_null(mkdtemp(folder));
    struct pages all = {.root = folder};
    snprintf(own, sizeof own, "%s/" METRICS_FOLDER_PREFIX "%u", folder, (unsigned)geteuid());
    assert_int_equal(mkdir(own, 0700), 0);
    snprintf(path, sizeof path, "%s/\033[31m" METRICS_MARK "0", own);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    assert_true(pages_look(&all));
    assert_int_equal(all.num, 0);
    assert_string_equal(all.why, "");
    unlink(path);
    if (geteuid() == 0) {
        make_page(folder, "job", 0, &page);
        snprintf(path, sizeof path, "%s/job" METRICS_MARK "0", own);
        metrics_page_destroy(page);
        assert_int_equal(chown(path, 65534, 65534) + chown(own, 65534, 65534), 0);
        assert_true(pages_look(&all));
        assert_int_equal(all.num, 0);
        assert_string_equal(all.why, "the pages of metrics on this host are other users'");
        pages_remove(folder, "job");
        make_page(folder, "job", 0, &page); /* another user has a job of the same name */
        all.of_anybody = true;
        assert_true(pages_look(&all));
        assert_int_equal(all.num, 2);
        assert_int_equal(all.ranks[0]->user, 0);
        assert_int_equal(all.ranks[1]->user, 65534);
        metrics_page_destroy(page);
        pages_remove(folder, "job");
        assert_int_equal(unlink(path), 0);
    }
    rmdir(own);
    assert_int_equal(rmdir(folder), 0);
    pages_fini(&all);
}

/* A rank that has made its page and not written it yet is none to show. */
static void test_a_page_without_a_renewal(void **state)
{
    (void)state;
    char folder[] = "/tmp/baton-pages-XXXXXX";
    struct metrics_page *page;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    struct pages all = {.root = folder};
    assert_true(pages_look(&all));
    assert_int_equal(all.num, 0);
    assert_string_equal(all.why, "");
    metrics_page_destroy(page);
    assert_int_equal(rmdir(folder), 0);
    pages_fini(&all);
}

static void add_rank(struct pages *p, const char *job, uint32_t number, bool is_there, bool is_alive)
{
    struct pages_rank *r = pages_entry(p, job, number, 0, 0);
    assert_non_null(r);
    r->is_there = is_there;
    r->view.is_alive = is_alive;
    pages_sort(p);
}

static void choose(const struct pages *p, const char *shown, const char *job, uint32_t num)
{
    bool several = true;
    const struct pages_job j = pages_choose(p, shown, &several);
    assert_false(several);
    assert_string_equal(j.name, job);
    assert_int_equal(j.num, num);
}

/* Of a view that goes on while jobs come and go: what is shown, and what is kept. */
static void test_jobs(void **state)
{
    (void)state;
    struct pages p = {.root = "/nowhere"};
    bool several = false;
    choose(&p, "", "", 0);
    add_rank(&p, "b", 0, true, false);
    add_rank(&p, "c", 0, false, false);
    add_rank(&p, "c", 1, false, false);
    choose(&p, "", "b", 1);  /* no job is alive: the first */
    choose(&p, "c", "c", 2); /* or that one that was shown */
    add_rank(&p, "d", 0, true, true);
    choose(&p, "c", "d", 1);
    add_rank(&p, "a", 0, true, true);
    choose(&p, "d", "d", 1); /* another one has begun since */
    pages_choose(&p, "", &several);
    assert_true(several);
    several = false;
    pages_choose(&p, "c", &several);
    assert_true(several);
    pages_drop_gone(&p, "c");
    assert_int_equal(p.num, 5);
    pages_drop_gone(&p, "d");
    assert_int_equal(p.num, 3);
    pages_fini(&p);
}

static void test_claims(void **state)
{
    (void)state;
    char folder[] = "/tmp/baton-pages-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_false(pages_are_claimed(folder, "job"));
    int fd = pages_claim(folder, "job");
    assert_true(fd >= 0);
    assert_true(pages_are_claimed(folder, "job"));
    assert_int_equal(pages_claim(folder, "job"), -1);
    close(fd); /* as if its process had been killed */
    assert_false(pages_are_claimed(folder, "job"));
    fd = pages_claim(folder, "job");
    assert_true(fd >= 0);
    pages_unclaim(folder, "job", fd);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_way_back),
        cmocka_unit_test(test_texts_of_strangers),
        cmocka_unit_test(test_times_beyond_the_last_bound),
        cmocka_unit_test(test_a_file_that_is_used_again),
        cmocka_unit_test(test_a_frame),
        cmocka_unit_test(test_a_job),
        cmocka_unit_test(test_odd_ranks),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_the_checker),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pages_that_are_not_ours),
        cmocka_unit_test(test_a_page_without_a_renewal),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
