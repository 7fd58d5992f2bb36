/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics, and the page that shows them: what counts where, what readers in other processes find, and who is dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/lockfile.h"
#include "observe/metrics_page.h"

static char folder[] = "/tmp/baton-metrics-XXXXXX";
static char why[METRICS_WHY_BYTES];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails if a test left a page there */
}

static const char *path_of(const char *rest)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/" METRICS_FOLDER_PREFIX "%u%s%s", folder, (unsigned)geteuid(),
             rest[0] != '\0' ? "/" : "", rest);
    return path;
}

/* This user's folder, for files that no page makes. */
static void make_own(void)
{
    assert_int_equal(mkdir(path_of(""), 0700), 0);
}

static struct metrics_view *read_page(const char *rest)
{
    struct metrics_view *view = calloc(1, sizeof *view);
    int fd = metrics_view_open(path_of(rest), false, why);
    assert_true(fd >= 0);
    assert_true(metrics_view_read(fd, view));
    close(fd);
    return view;
}

/* ---- what counts where ------------------------------------------------------------------------------------------- */

static void test_transfers(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(2);
    struct metrics_body *b = metrics_body(m);
    metrics_transfer(m, (struct metrics_engine){1, "decode0", 1}, BATON_PATH_RMA, METRICS_OUT, 4096, 1000);
    metrics_transfer(m, (struct metrics_engine){1, "decode0", 1}, BATON_PATH_RMA, METRICS_OUT, 100, 3000);
    metrics_transfer(m, (struct metrics_engine){0, "prefill0", 1}, BATON_PATH_SHM, METRICS_IN, 5, 7);
    assert_int_equal(b->num_peers, 2);
    assert_string_equal(b->peer[0].engine, "decode0");
    assert_int_equal(b->peer[0].bytes[BATON_PATH_RMA][METRICS_OUT], 4196);
    assert_int_equal(b->peer[0].transfers[BATON_PATH_RMA][METRICS_OUT], 2);
    assert_int_equal(b->peer[0].transfers[BATON_PATH_RMA][METRICS_IN], 0);
    assert_int_equal(b->peer[0].transfer_ns.sum, 4000);
    assert_int_equal(b->peer[1].bytes[BATON_PATH_SHM][METRICS_IN], 5);
    assert_int_equal(b->path[BATON_PATH_RMA].transfer_ns.count, 2);
    assert_int_equal(b->path[BATON_PATH_RMA].transfer_bytes.sum, 4196);
    assert_int_equal(b->path[BATON_PATH_SHM].transfer_ns.max, 7);
    metrics_destroy(m);
}

static void test_wants_and_failures(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(1);
    struct metrics_body *b = metrics_body(m);
    const uint64_t most_by_cma[BATON_PATHS] = {[BATON_PATH_SHM] = 10, [BATON_PATH_CMA] = 20}, none[BATON_PATHS] = {0};
    const uint64_t unknown[BATON_PATHS] = {[BATON_PATHS - 1] = 1};
    metrics_want(m, most_by_cma, 500);
    metrics_want(m, none, 600);
    metrics_want(m, unknown, 700);
    assert_int_equal(b->path[BATON_PATH_CMA].want_ns.sum, 500);
    assert_int_equal(b->path[BATON_PATH_NONE].want_ns.sum, 1300);
    metrics_failure(m, (struct metrics_engine){0, "prefill0", 1}, BATON_EPEER);
    metrics_failure(m, (struct metrics_engine){0, "prefill0", 1}, -BATON_REASONS); /* of a later version */
    assert_int_equal(b->peer[0].failures[-BATON_EPEER], 1);
    assert_int_equal(b->peer[0].failures[0], 1);
    metrics_transfer(NULL, (struct metrics_engine){0, "prefill0", 1}, BATON_PATH_SHM, METRICS_IN, 1, 1);
    metrics_want(NULL, none, 1);
    metrics_failure(NULL, (struct metrics_engine){0, "prefill0", 1}, BATON_EPEER);
    metrics_destroy(m);
}

/* Engines come and go: a name has one row, whatever numbers and lives it has had, and a number may be given again. */
static void test_a_name_has_one_row(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(1);
    struct metrics_body *b = metrics_body(m);
    metrics_failure(m, (struct metrics_engine){0, "first", 7}, BATON_EPEER);
    metrics_failure(m, (struct metrics_engine){0, "second", 8}, BATON_EPEER);
    metrics_failure(m, (struct metrics_engine){1, "first", 9}, BATON_EPEER); /* more than there were at first */
    metrics_failure(m, (struct metrics_engine){0, "second", 8}, BATON_EPEER);
    metrics_failure(m, (struct metrics_engine){0, "first", 10}, BATON_EPEER);
    assert_int_equal(b->num_peers, 2);
    assert_string_equal(b->peer[0].engine, "first");
    assert_int_equal(b->peer[0].failures[-BATON_EPEER], 3);
    assert_int_equal(b->peer[1].failures[-BATON_EPEER], 2);
    metrics_destroy(m);
}

static void test_further_engines_share_a_row(void **state)
{
    (void)state;
    enum { ENGINES = METRICS_PEERS + 5 };
    struct metrics *m = metrics_create(ENGINES);
    struct metrics_body *b = metrics_body(m);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < ENGINES; i++) {
            char name[BATON_ENGINE_NAME_MAX];
            snprintf(name, sizeof name, "decode%u", i);
            metrics_transfer(m, (struct metrics_engine){i, name, 1}, BATON_PATH_SHM, METRICS_OUT, i, 1);
        }
    assert_int_equal(b->num_peers, METRICS_PEERS);
    assert_string_equal(b->peer[METRICS_PEERS - 1].engine, "decode15");
    assert_string_equal(b->peer[METRICS_PEERS].engine, METRICS_OTHERS);
    assert_int_equal(b->peer[METRICS_PEERS - 1].bytes[BATON_PATH_SHM][METRICS_OUT], 30);
    assert_int_equal(b->peer[METRICS_PEERS].transfers[BATON_PATH_SHM][METRICS_OUT], 10);
    assert_int_equal(b->peer[METRICS_PEERS].bytes[BATON_PATH_SHM][METRICS_OUT], 2 * (16 + 17 + 18 + 19 + 20));
    metrics_destroy(m);
}

static void test_stats(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(1);
    struct metrics_body *b = metrics_body(m);
    baton_stats_t stats = {.offers = 1, .reads_parked = 2, .wants_expired = 3};
    stats.bytes[BATON_PATH_STAGED] = 4;
    stats.peers[BATON_PATHS - 1] = 5; /* a path that the page does not know */
    stats.reasons[7] = 6;
    metrics_set_stats(m, &stats);
    metrics_set_stats(m, &stats); /* they are absolute */
    assert_int_equal(b->stats[METRICS_offers], 1);
    assert_int_equal(b->stats[METRICS_reads_parked], 2);
    assert_int_equal(b->stats[METRICS_wants_expired], 3);
    assert_int_equal(b->received[BATON_PATH_STAGED], 4);
    assert_int_equal(b->peers[BATON_PATH_NONE], 5);
    assert_int_equal(b->reasons[7], 6);
    metrics_destroy(m);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void test_a_reader_finds_what_was_renewed(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(2);
    struct metrics_page *page;
    struct metrics_body *b = metrics_body(m);
    struct metrics_view *view;
    assert_int_equal(metrics_page_create(folder, "job", 3, false, &page), 0);
    b->rank = 3;
    snprintf(b->engine, sizeof b->engine, "decode0");
    metrics_transfer(m, (struct metrics_engine){1, "prefill0", 1}, BATON_PATH_STAGED, METRICS_IN, 77, 9);
    metrics_page_renew(page, b, metrics_take_changes(m));
    view = read_page("job" METRICS_MARK "3");
    assert_true(view->is_alive);
    assert_int_equal(view->stalled_ns, 0);
    assert_memory_equal(&view->body, b, sizeof *b);
    free(view);
    metrics_transfer(m, (struct metrics_engine){0, "prefill1", 1}, BATON_PATH_SHM, METRICS_IN, 78, 9);
    metrics_page_renew(page, b, metrics_take_changes(m)); /* another path and another row */
    metrics_page_stall(page, 12345);
    view = read_page("job" METRICS_MARK "3");
    assert_memory_equal(&view->body, b, sizeof *b);
    assert_int_equal(view->stalled_ns, 12345);
    free(view);
    metrics_page_destroy(page);
    assert_int_equal(access(path_of("job" METRICS_MARK "3"), F_OK), -1);
    metrics_destroy(m);
}

static void test_a_page_that_was_never_renewed_is_not_read(void **state)
{
    (void)state;
    struct metrics_page *page;
    struct metrics_view *view = calloc(1, sizeof *view);
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    int fd = metrics_view_open(path_of("job" METRICS_MARK "0"), false, why);
    assert_true(fd >= 0);
    assert_false(metrics_view_read(fd, view));
    assert_true(view->is_alive);
    close(fd);
    free(view);
    metrics_page_destroy(page);
}

static void test_contexts_of_one_process_have_a_page_each(void **state)
{
    (void)state;
    struct metrics_page *first, *second;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &first), 0);
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &second), 0);
    assert_int_equal(access(path_of("job" METRICS_MARK "0"), F_OK), 0);
    assert_int_equal(access(path_of("job" METRICS_MARK "0.1"), F_OK), 0);
    metrics_page_destroy(first);
    assert_int_equal(access(path_of("job" METRICS_MARK "0.1"), F_OK), 0);
    metrics_page_destroy(second);
}

/* ---- signals while the page's memory is reserved ----------------------------------------------------------------- */

static struct {
    int signals, asked;
} reserving;

/* In place of the C library's: on tmpfs of older kernels a signal ends the call, and nothing is reserved then. */
int posix_fallocate(int fd, off_t from, off_t bytes)
{
    if (reserving.asked++ < reserving.signals)
        return EINTR;
    return ftruncate(fd, from + bytes) == 0 ? 0 : errno;
}

static void test_signals_while_it_is_made(void **state)
{
    (void)state;
    struct metrics_page *page;
    reserving.signals = 5;
    reserving.asked = 0;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    assert_int_equal(reserving.asked, 6);
    metrics_page_destroy(page);
    reserving.signals = INT_MAX; /* nobody waits for ever */
    assert_int_not_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    reserving.signals = 0;
}

static void test_names(void **state)
{
    (void)state;
    char long_name[METRICS_NAME_BYTES + 1];
    memset(long_name, 'a', sizeof long_name);
    long_name[METRICS_NAME_BYTES] = '\0';
    assert_false(metrics_name_is_good(long_name));
    long_name[METRICS_NAME_BYTES - 1] = '\0';
    assert_true(metrics_name_is_good(long_name));
    assert_false(metrics_name_is_good(""));
    assert_false(metrics_name_is_good("../etc"));
    assert_false(metrics_name_is_good("a b"));
}

/* Its page says that it is dead, although a process that it forked lives on. */
static void test_the_page_of_a_dead_process(void **state)
{
    (void)state;
    struct metrics_view *view;
    int raw, ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct metrics *m = metrics_create(1);
        struct metrics_page *page;
        if (metrics_page_create(folder, "killed", 0, false, &page) != 0)
            _exit(1);
        metrics_body(m)->rank = 42;
        metrics_page_renew(page, metrics_body(m), UINT32_MAX);
        if (fork() == 0) {
            close(ends[1]); /* so the end of this program lets it go, too */
            (void)!read(ends[0], &byte, 1);
            _exit(0);
        }
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &raw, 0), pid);
    view = read_page("killed" METRICS_MARK "0");
    metrics_pages_sweep(folder);
    const int left = access(path_of("killed" METRICS_MARK "0"), F_OK);
    assert_int_equal(write(ends[1], "", 1), 1);
    close(ends[0]);
    close(ends[1]);
    assert_true(WIFSIGNALED(raw));
    assert_int_equal(view->body.rank, 42); /* what it has come to can still be read */
    const bool is_alive = view->is_alive;
    free(view);
    if (TEST_EMULATED)
        skip(); /* an emulator knows no MADV_DONTFORK */
    assert_false(is_alive);
    assert_int_equal(left, -1);
}

/* Pages that stay go a minute after their last renewal, those of the living and other files never. */
static void test_sweeping(void **state)
{
    (void)state;
    struct timespec now;
    struct metrics *m = metrics_create(1);
    struct metrics_page *fresh, *old, *living;
    clock_gettime(CLOCK_REALTIME, &now);
    assert_int_equal(metrics_page_create(folder, "fresh", 0, true, &fresh), 0);
    assert_int_equal(metrics_page_create(folder, "old", 0, true, &old), 0);
    assert_int_equal(metrics_page_create(folder, "living", 0, false, &living), 0);
    metrics_body(m)->renewed_ns = (uint64_t)now.tv_sec * 1000000000u;
    metrics_page_renew(fresh, metrics_body(m), 0);
    metrics_body(m)->renewed_ns -= UINT64_C(61000000000);
    metrics_page_renew(old, metrics_body(m), 0);
    metrics_page_destroy(fresh);
    metrics_page_destroy(old);
    assert_int_equal(access(path_of("old" METRICS_MARK "0"), F_OK), 0);
    int fd = open(path_of("foreign"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, "hello", 5), 5);
    close(fd);
    fd = open(path_of("begun" METRICS_MARK "0"), O_CREAT | O_WRONLY, 0600); /* by a process that was killed then */
    assert_true(fd >= 0);
    close(fd);
    fd = open(path_of("sized" METRICS_MARK "0"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, 4096), 0);
    close(fd);
    const int held = lockfile_make(path_of("held" METRICS_MARK "0"));
    assert_true(held >= 0);
    metrics_pages_sweep(folder);
    assert_int_equal(access(path_of("begun" METRICS_MARK "0"), F_OK), -1);
    assert_int_equal(access(path_of("sized" METRICS_MARK "0"), F_OK), -1);
    assert_int_equal(unlink(path_of("held" METRICS_MARK "0")), 0);
    close(held);
    assert_int_equal(access(path_of("old" METRICS_MARK "0"), F_OK), -1);
    assert_int_equal(access(path_of("fresh" METRICS_MARK "0"), F_OK), 0);
    assert_int_equal(access(path_of("living" METRICS_MARK "0"), F_OK), 0);
    assert_int_equal(access(path_of("foreign"), F_OK), 0);
    unlink(path_of("fresh" METRICS_MARK "0"));
    unlink(path_of("foreign"));
    metrics_page_destroy(living);
    metrics_destroy(m);
}

/* A rank that is started again under the name of one that was killed takes its place. */
static void test_a_dead_page_is_replaced(void **state)
{
    (void)state;
    struct metrics_page *page;
    assert_int_equal(metrics_page_create(folder, "job", 0, true, &page), 0);
    metrics_page_destroy(page);
    assert_int_equal(access(path_of("job" METRICS_MARK "0"), F_OK), 0);
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    assert_int_equal(access(path_of("job" METRICS_MARK "0.1"), F_OK), -1);
    metrics_page_destroy(page);
}

/* ---- what comes from outside ------------------------------------------------------------------------------------- */

static void damage(const char *path, off_t at, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, at), count);
    close(fd);
}

static void test_another_layout_is_named(void **state)
{
    (void)state;
    struct metrics_page *page;
    const uint64_t other = METRICS_LAYOUT + 1;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    damage(path_of("job" METRICS_MARK "0"), 8, &other, sizeof other);
    assert_int_equal(metrics_view_open(path_of("job" METRICS_MARK "0"), false, why), -1);
    assert_non_null(strstr(why, "has layout 2, and this program reads layout 1"));
    const uint64_t same = METRICS_LAYOUT, more = sizeof(struct metrics_body) + 8;
    damage(path_of("job" METRICS_MARK "0"), 8, &same, sizeof same);
    damage(path_of("job" METRICS_MARK "0"), 16, &more, sizeof more);
    assert_int_equal(metrics_view_open(path_of("job" METRICS_MARK "0"), false, why), METRICS_NO_PAGE);
    metrics_page_destroy(page);
}

/* Nothing is wrong with it: its rank has not come to its head yet. */
static void test_a_page_that_is_being_made(void **state)
{
    (void)state;
    make_own();
    const int fd = lockfile_make(path_of("job" METRICS_MARK "0"));
    assert_true(fd >= 0);
    why[0] = '\0';
    assert_int_equal(metrics_view_open(path_of("job" METRICS_MARK "0"), false, why), METRICS_NO_PAGE);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(metrics_view_open(path_of("job" METRICS_MARK "0"), false, why), METRICS_NO_PAGE);
    assert_string_equal(why, "");
    close(fd);
    assert_int_equal(metrics_view_open(path_of("job" METRICS_MARK "0"), false, why), METRICS_NO_PAGE);
    assert_string_not_equal(why, "");
    unlink(path_of("job" METRICS_MARK "0"));
    metrics_folders_tidy(folder);
}

static void test_what_is_no_page(void **state)
{
    (void)state;
    make_own();
    int fd = open(path_of("short" METRICS_MARK "0"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    close(fd);
    assert_int_equal(metrics_view_open(path_of("short" METRICS_MARK "0"), false, why), -1);
    assert_non_null(strstr(why, "is no page of Baton's metrics"));
    unlink(path_of("short" METRICS_MARK "0"));
    assert_int_equal(mkfifo(path_of("pipe" METRICS_MARK "0"), 0600), 0);
    assert_int_equal(metrics_view_open(path_of("pipe" METRICS_MARK "0"), false, why),
                     -1); /* and does not wait for a writer */
    unlink(path_of("pipe" METRICS_MARK "0"));
    assert_int_equal(symlink("/etc/passwd", path_of("link" METRICS_MARK "0")), 0);
    assert_int_equal(metrics_view_open(path_of("link" METRICS_MARK "0"), false, why), -1);
    unlink(path_of("link" METRICS_MARK "0"));
    assert_int_equal(metrics_view_open(path_of("none.0"), false, why), -1);
    metrics_folders_tidy(folder);
}

/* What another user put there is neither read nor removed; the super-user may look at it. */
static void test_pages_of_other_users(void **state)
{
    (void)state;
    struct metrics_page *page;
    struct stat status;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    assert_int_equal(stat(path_of("job" METRICS_MARK "0"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    metrics_page_destroy(page);
    if (geteuid() != 0)
        skip();
    assert_int_equal(metrics_page_create(folder, "job", 0, true, &page), 0);
    metrics_page_destroy(page);
    assert_int_equal(chown(path_of("job" METRICS_MARK "0"), 65534, 65534), 0);
    assert_int_equal(metrics_view_open(path_of("job" METRICS_MARK "0"), false, why), METRICS_FOREIGN);
    int fd = metrics_view_open(path_of("job" METRICS_MARK "0"), true, why);
    assert_true(fd >= 0);
    close(fd);
    metrics_pages_sweep(folder);
    assert_int_equal(unlink(path_of("job" METRICS_MARK "0")), 0);
    metrics_folders_tidy(folder);
}

/* A body that another process spoilt: texts end, rows are within bounds. A file that is cut off is an error. */
static void test_a_spoilt_body(void **state)
{
    (void)state;
    struct metrics *m = metrics_create(1);
    struct metrics_body *b = metrics_body(m);
    struct metrics_page *page;
    struct metrics_view *view;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    memset(b->engine, 'x', sizeof b->engine);
    memset(b->peer[2].engine, '\n', sizeof b->peer[2].engine);
    snprintf(b->host, sizeof b->host, "p\xc2\x9b\x7f\x1bq");
    b->num_peers = UINT64_MAX;
    metrics_page_renew(page, b, UINT32_MAX);
    view = read_page("job" METRICS_MARK "0");
    assert_int_equal(strlen(view->body.engine), sizeof b->engine - 1);
    assert_int_equal(strspn(view->body.peer[2].engine, "?"), sizeof b->engine - 1);
    assert_string_equal(view->body.host, "p????q"); /* and so it is UTF-8 */
    assert_int_equal(view->body.num_peers, METRICS_PEERS);
    int fd = metrics_view_open(path_of("job" METRICS_MARK "0"), false, why);
    assert_int_equal(truncate(path_of("job" METRICS_MARK "0"), 4096), 0);
    assert_false(metrics_view_read(fd, view));
    close(fd);
    free(view);
    metrics_page_destroy(page);
    metrics_destroy(m);
}

/* ---- a reader beside a writer ------------------------------------------------------------------------------------ */

static atomic_bool stop;

/* Every number of a row is the same in each body that is shown. */
static void *renew_all_the_time(void *arg)
{
    struct metrics_page *page = arg;
    struct metrics_body *b = calloc(1, sizeof *b);
    for (uint64_t n = 1; !atomic_load(&stop); n++) {
        b->rank = b->path[0].want_ns.count = b->path[4].transfer_bytes.bucket[HISTOGRAM_BUCKETS - 1] = n;
        b->peer[METRICS_PEERS].transfer_ns.bucket[HISTOGRAM_BUCKETS - 1] = n;
        metrics_page_renew(page, b, UINT32_MAX);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    free(b);
    return NULL;
}

static void test_no_reader_sees_half_a_renewal(void **state)
{
    (void)state;
    enum { READS = 500 };
    struct metrics_page *page;
    struct metrics_view *view = calloc(1, sizeof *view);
    pthread_t writer;
    uint64_t last = 0, news = 0, read = 0;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    int fd = metrics_view_open(path_of("job" METRICS_MARK "0"), false, why);
    assert_int_equal(pthread_create(&writer, NULL, renew_all_the_time, page), 0);
    for (unsigned i = 0; i < READS || news < 2; i++) { /* as long as it takes, where the writer gets no CPU */
        if (!metrics_view_read(fd, view))
            continue;
        const struct metrics_body *b = &view->body;
        read++;
        assert_int_equal(b->rank, b->path[0].want_ns.count);
        assert_int_equal(b->rank, b->path[4].transfer_bytes.bucket[HISTOGRAM_BUCKETS - 1]);
        assert_int_equal(b->rank, b->peer[METRICS_PEERS].transfer_ns.bucket[HISTOGRAM_BUCKETS - 1]);
        assert_true(b->rank >= last);
        news += b->rank > last;
        last = b->rank;
    }
    atomic_store(&stop, true);
    pthread_join(writer, NULL);
    assert_true(read > 0);
    close(fd);
    free(view);
    metrics_page_destroy(page);
}

static void count_page(void *arg, const char *path)
{
    assert_non_null(strstr(path, "/job" METRICS_MARK));
    ++*(unsigned *)arg;
}

static void test_pages_of_a_job_are_found(void **state)
{
    (void)state;
    struct metrics_page *pages[3];
    unsigned n = 0;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &pages[0]), 0);
    assert_int_equal(metrics_page_create(folder, "job", 11, false, &pages[1]), 0);
    assert_int_equal(metrics_page_create(folder, "job2", 0, false, &pages[2]), 0);
    assert_int_equal(metrics_pages_find(folder, "job", false, count_page, &n), 0);
    assert_int_equal(n, 2);
    metrics_pages_find("/nowhere", "job", false, count_page, &n);
    assert_int_equal(n, 2);
    for (unsigned i = 0; i < 3; i++)
        metrics_page_destroy(pages[i]);
}

/* ---- among other users ------------------------------------------------------------------------------------------- */

static char taken_path[256];

/* What has the name of this user's folder before he comes. */
static void take_name(const char *how)
{
    snprintf(taken_path, sizeof taken_path, "%s", path_of(""));
    if (strcmp(how, "link") == 0)
        assert_int_equal(symlink("/tmp", taken_path), 0);
    else if (strcmp(how, "file") == 0)
        assert_int_equal(close(open(taken_path, O_CREAT | O_WRONLY, 0600)), 0);
    else
        assert_int_equal(mkdir(taken_path, 0700), 0);
    if (strcmp(how, "open") == 0)
        assert_int_equal(chmod(taken_path, 0777), 0);
    if (strcmp(how, "folder") == 0)
        assert_int_equal(chown(taken_path, 65534, 65534), 0);
}

/* A rank shows its page whatever stands where its folder should be, and leaves that as it was. */
static void test_a_name_that_is_taken(void **state)
{
    (void)state;
    static const char *const ways[] = {"link", "file", "open", "folder"};
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0] - (geteuid() != 0); i++) {
        struct metrics_page *page[2];
        unsigned n = 0;
        take_name(ways[i]);
        assert_int_equal(metrics_page_create(folder, "job", 0, false, &page[0]), 0);
        assert_int_equal(metrics_page_create(folder, "job", 1, false, &page[1]), 0);
        metrics_pages_sweep(folder);
        metrics_pages_find(folder, "job", false, count_page, &n);
        assert_int_equal(n, 2);
        metrics_page_destroy(page[0]);
        metrics_page_destroy(page[1]);
        assert_int_equal(remove(taken_path), 0);
        assert_int_equal(rmdir(folder), 0); /* nothing else was left */
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

/* Another user's pages of the same names, as many as are looked at on a host, in a process of his. */
static int be_another_user(int ready, int end)
{
    struct metrics_page *page;
    char byte;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    for (unsigned i = 0; i < METRICS_SAME_RANK; i++)
        if (metrics_page_create(folder, "job", 0, true, &page) != 0)
            return 2;
    for (unsigned i = 0; i < METRICS_MOST; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/" METRICS_FOLDER_PREFIX "a%u@0", folder, i);
        if (close(open(path, O_CREAT | O_WRONLY, 0600)) != 0)
            return 3;
    }
    return write(ready, "", 1) == 1 && read(end, &byte, 1) == 0 ? 0 : 4;
}

static void see_own_page_alone(void)
{
    struct metrics_page *page;
    unsigned n = 0;
    assert_int_equal(metrics_page_create(folder, "job", 0, false, &page), 0);
    assert_int_equal(access(path_of("job" METRICS_MARK "0"), F_OK), 0); /* it is its rank's first one */
    assert_int_equal(metrics_pages_find(folder, "job", false, count_page, &n), 1);
    assert_int_equal(n, 1);
    n = 0;
    metrics_pages_find(folder, "job", true, count_page, &n);
    assert_int_equal(n, 1 + METRICS_SAME_RANK);
    metrics_page_destroy(page);
}

static void test_another_user(void **state)
{
    (void)state;
    int ready[2], end[2], raw;
    char byte, command[128];
    if (geteuid() != 0 || chown(folder, 65534, 65534) != 0 || chown(folder, 0, 0) != 0) {
        print_message("skipped: only a super-user that knows user 65534 can be that user\n");
        skip();
    }
    assert_int_equal(pipe(ready) + pipe(end) + chmod(folder, 01777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(end[1]);
        _exit(be_another_user(ready[1], end[0]));
    }
    close(ready[1]);
    const bool is_ready = read(ready[0], &byte, 1) == 1;
    if (is_ready)
        see_own_page_alone();
    close(ready[0]);
    close(end[0]);
    close(end[1]);
    assert_int_equal(waitpid(pid, &raw, 0), pid);
    assert_int_equal(raw, 0);
    metrics_pages_sweep(folder); /* which leaves his */
    snprintf(command, sizeof command, "rm %s/" METRICS_FOLDER_PREFIX "65534/job@0* && rm -r %s/*", folder, folder);
    assert_int_equal(system(command), 0);
}

static void *make_and_remove(void *arg)
{
    struct metrics_page *page;
    for (unsigned i = 0; i < 300; i++)
        if (metrics_page_create(folder, "job", *(uint32_t *)arg, false, &page) == 0)
            metrics_page_destroy(page);
        else
            return arg;
    return NULL;
}

/* The folder goes with the last page in it, at any time for those who make the next one. */
static void test_makers_of_one_folder(void **state)
{
    (void)state;
    pthread_t thread[4];
    uint32_t rank[4];
    void *failed;
    for (uint32_t i = 0; i < 4; i++) {
        rank[i] = i;
        assert_int_equal(pthread_create(&thread[i], NULL, make_and_remove, &rank[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(access(path_of(""), F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_wants_and_failures),
        cmocka_unit_test(test_a_name_has_one_row),
        cmocka_unit_test(test_further_engines_share_a_row),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_a_reader_finds_what_was_renewed),
        cmocka_unit_test(test_a_page_that_was_never_renewed_is_not_read),
        cmocka_unit_test(test_contexts_of_one_process_have_a_page_each),
        cmocka_unit_test(test_signals_while_it_is_made),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_the_page_of_a_dead_process),
        cmocka_unit_test(test_sweeping),
        cmocka_unit_test(test_a_dead_page_is_replaced),
        cmocka_unit_test(test_another_layout_is_named),
        cmocka_unit_test(test_a_page_that_is_being_made),
        cmocka_unit_test(test_what_is_no_page),
        cmocka_unit_test(test_pages_of_other_users),
        cmocka_unit_test(test_a_spoilt_body),
        cmocka_unit_test(test_no_reader_sees_half_a_renewal),
        cmocka_unit_test(test_pages_of_a_job_are_found),
        cmocka_unit_test(test_a_name_that_is_taken),
        cmocka_unit_test(test_another_user),
        cmocka_unit_test(test_makers_of_one_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
