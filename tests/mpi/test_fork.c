/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_fork: children of a process that has a context, made in each way while its other threads are at work. In a child
 * every call is refused at once, and the parent goes on as if there were none. Runs on any number of ranks.
 *
 * A child in which the calls are made has all shared mappings read-only, so that a store into one ends it, and may make
 * hardly any system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/lockfile.h"
#include "mpi/world.h"
#include "observe/metrics_page.h"
#include "with_engine.h"

#define NUM_BLOCKS 4u
#define CHILD_S 20 /* a child that hangs ends by a signal */
#define ROUNDS 20

static struct engine engine;
static baton_geometry_t geometry;
static baton_tensor_t tensor;
static size_t block_bytes;

static int asked; /* how often MPI was asked whether it is initialised: the first that an open does */

int MPI_Initialized(int *flag)
{
    asked++;
    return PMPI_Initialized(flag);
}

/* ---- each function of baton.h ------------------------------------------------------------------------------------ */

static const uint32_t ids[] = {0, 1};
static baton_id_t id;
static baton_cache_t *other_cache;
static baton_t *other;

static const baton_offer_params_t offer = {.size = sizeof offer,
                                           .key = "a child's",
                                           .num_tables = 1,
                                           .tables = {{.blocks = ids, .num_blocks = 2}},
                                           .num_tokens = 2 * BLOCK_TOKENS};
static const baton_append_params_t chunk = {
    .size = sizeof chunk, .num_tables = 1, .tables = {{.blocks = ids, .num_blocks = 1}}, .num_tokens = BLOCK_TOKENS};
static const baton_open_params_t me = {.size = sizeof me, .engine = "child", .role = BATON_ROLE_BOTH, .tp = 1, .pp = 1};

static int copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    (void)self, (void)pieces, (void)num, (void)to_device, (void)tag;
    return 0;
}

static int copied(void *self, uint64_t *tags, int *errors, int max)
{
    (void)self, (void)tags, (void)errors, (void)max;
    return 0;
}

static int try_offer(void)
{
    return baton_offer(engine.b, &offer, &id);
}

static int try_append(void)
{
    return baton_append(engine.b, 1, &chunk);
}

static int try_ready(void)
{
    return baton_ready(engine.b, 1, 0, 1, 0);
}

static int try_want(void)
{
    const baton_want_params_t want = {.size = sizeof want,
                                      .key = "a child's",
                                      .engine = engine.name,
                                      .num_tables = 1,
                                      .tables = {{.blocks = ids, .num_blocks = 2}},
                                      .num_tokens = 2 * BLOCK_TOKENS};
    return baton_want(engine.b, &want, &id);
}

static int try_cancel(void)
{
    return baton_cancel(engine.b, 1);
}

static int try_poll(void)
{
    baton_event_t event;
    return baton_poll(engine.b, &event, 1);
}

static int try_event_fd(void)
{
    return baton_event_fd(engine.b);
}

static int try_progress(void)
{
    return baton_progress(engine.b);
}

static int try_stats(void)
{
    baton_stats_t stats = BATON_INIT(baton_stats_t);
    return baton_stats(engine.b, &stats);
}

static int try_engines(void)
{
    baton_engine_t first;
    return baton_engines(engine.b, NULL, &first, 1);
}

static int try_engine_ranks(void)
{
    baton_engine_rank_t first;
    return baton_engine_ranks(engine.b, me.engine, &first, 1);
}

static int try_describe(void)
{
    char text[64];
    return baton_describe(engine.b, text, sizeof text);
}

static int try_cache_create(void)
{
    return baton_cache_create(engine.b, &geometry, BATON_MEMORY_HOST, &other_cache);
}

static int try_cache_wrap(void)
{
    const baton_region_t region = region_of(BATON_MEMORY_HOST, &geometry, sizeof geometry);
    return baton_cache_wrap(engine.b, &geometry, &region, 1, &other_cache);
}

static int try_cache_ready(void)
{
    return baton_cache_ready(engine.b);
}

static int try_cache_base(void)
{
    return baton_cache_base(engine.cache) == NULL ? BATON_ESTATE : 0;
}

static int try_driver_set(void)
{
    const baton_driver_t driver = {.size = sizeof driver, .name = "none", .copy = copy, .poll = copied};
    return baton_driver_set(engine.b, &driver);
}

static int try_start(void)
{
    return baton_start(engine.b);
}

static int try_open(void)
{
    return baton_open(MPI_COMM_WORLD, &me, &other);
}

static int try_open_f(void)
{
    return baton_open_f(0, &me, &other); /* it would be asked for */
}

/* What needs no context works as ever: 0. */
static int try_texts(void)
{
    const bool are_there = baton_version()[0] != '\0' && baton_strerror(BATON_EPEER)[0] != '\0' &&
                           strcmp(baton_errname(BATON_EPEER), "BATON_EPEER") == 0 && baton_errmsg() != NULL &&
                           strcmp(baton_event_name(BATON_EVENT_WANT), "want") == 0 &&
                           strcmp(baton_status_name(BATON_STATUS_DONE), "done") == 0;
    return are_there ? 0 : 1;
}

static int try_log_set(void)
{
    baton_log_set(NULL, NULL);
    return 0;
}

static int try_role_from_env(void)
{
    baton_open_params_t p = BATON_INIT(baton_open_params_t);
    const int rc = baton_role_from_env(&p); /* whether it is in the environment depends on who started this */
    return rc == BATON_ESETTING ? 0 : rc;
}

static int try_geometry_layout(void)
{
    baton_geometry_t g = geometry;
    baton_tensor_t t;
    return baton_geometry_layout(&g, &t, 0);
}

static int try_close(void)
{
    return baton_close(engine.b);
}

/* What a child gets of each function that the library exports. */
static const struct function {
    const char *name;
    int result;
    int (*try)(void);
} functions[] = {
    {"baton_version", 0, try_texts},
    {"baton_strerror", 0, try_texts},
    {"baton_errname", 0, try_texts},
    {"baton_errmsg", 0, try_texts},
    {"baton_event_name", 0, try_texts},
    {"baton_status_name", 0, try_texts},
    {"baton_log_set", 0, try_log_set},
    {"baton_role_from_env", 0, try_role_from_env},
    {"baton_geometry_layout", 0, try_geometry_layout},
    {"baton_cache_create", BATON_ESTATE, try_cache_create},
    {"baton_cache_wrap", BATON_ESTATE, try_cache_wrap},
    {"baton_driver_set", BATON_ESTATE, try_driver_set},
    {"baton_start", BATON_ESTATE, try_start},
    {"baton_cache_ready", BATON_ESTATE, try_cache_ready},
    {"baton_cache_base", BATON_ESTATE, try_cache_base},
    {"baton_offer", BATON_ESTATE, try_offer},
    {"baton_append", BATON_ESTATE, try_append},
    {"baton_ready", BATON_ESTATE, try_ready},
    {"baton_want", BATON_ESTATE, try_want},
    {"baton_cancel", BATON_ESTATE, try_cancel},
    {"baton_poll_sized", BATON_ESTATE, try_poll},
    {"baton_event_fd", BATON_ESTATE, try_event_fd},
    {"baton_progress", BATON_ESTATE, try_progress},
    {"baton_stats", BATON_ESTATE, try_stats},
    {"baton_engines_sized", BATON_ESTATE, try_engines},
    {"baton_engine_ranks_sized", BATON_ESTATE, try_engine_ranks},
    {"baton_describe", BATON_ESTATE, try_describe},
    {"baton_open", BATON_ESTATE, try_open},
    {"baton_open_f", BATON_ESTATE, try_open_f},
    {"baton_close", 0, try_close},
    {"baton_exit", 0, NULL}, /* how a child ends */
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof functions[0], NUM_BEFORE_CLOSE = NUM_FUNCTIONS - 2 };

static bool has_function(const char *name, size_t length)
{
    int i = 0;
    while (i < NUM_FUNCTIONS && (strlen(functions[i].name) != length || memcmp(functions[i].name, name, length) != 0))
        i++;
    return i < NUM_FUNCTIONS;
}

/* BATON_HEADER declares each at the beginning of a line. */
static void the_table_has_each_function(void)
{
    char line[256];
    int found = 0;
    FILE *header = fopen(BATON_HEADER, "r");
    if (!CHECK(header != NULL))
        return;
    while (fgets(line, sizeof line, header) != NULL) {
        const char *name = strstr(line, "baton_"), *end = strchr(line, '(');
        if (strncmp(line, "BATON_API ", 10) != 0 || !CHECK(end != NULL))
            continue;
        for (const char *next = name; next != NULL && next < end; next = strstr(next + 1, "baton_"))
            name = next; /* the last one before the arguments: the type of the result may be of Baton too */
        found++;
        if (!CHECK(has_function(name, (size_t)(end - name))))
            fprintf(stderr, "# functions[] lacks %.*s\n", (int)(end - name), name);
    }
    fclose(header);
    CHECK_EQ(found, NUM_FUNCTIONS);
}

/* ---- children ---------------------------------------------------------------------------------------------------- */

static struct {
    void *at;
    size_t bytes;
} shared[512];
static int num_shared;
static const char *volatile *tried; /* what a child tries last: the one shared page that it may write to */

/* In the parent, since who was made by clone must not allocate. */
static void find_shared(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    num_shared = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        char access[8];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, access) != 3 || access[1] != 'w' || access[3] != 's' ||
            from == (unsigned long)(uintptr_t)tried)
            continue;
        if (!CHECK(num_shared < (int)(sizeof shared / sizeof shared[0])))
            break;
        shared[num_shared].at = (void *)from; // NOLINT(performance-no-int-to-ptr)
        shared[num_shared++].bytes = to - from;
    }
    if (CHECK(maps != NULL))
        fclose(maps);
    CHECK(num_shared > 0);
}

#define NUMBER offsetof(struct seccomp_data, nr)
#define FIRST_ARGUMENT offsetof(struct seccomp_data, args[0]) /* its lower half: the machine is little-endian */
#define MAY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From now on this process may print what was found wrong, close descriptors and end: it cannot wait for anything. */
static void forbid_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        MAY(close),
        MAY(exit_group),
        MAY(fcntl),
        MAY(rt_sigreturn),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STDERR_FILENO, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog all = {sizeof rules / sizeof rules[0], rules};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0), 0);
}

/* In a child: what is the parent's is out of reach. */
static void confine(void)
{
    alarm(CHILD_S);
    harness.failures = asked = 0;
    for (int i = 0; i < num_shared; i++)
        CHECK(mprotect(shared[i].at, shared[i].bytes, PROT_READ) == 0 || errno == ENOMEM); /* a child has not all */
    forbid_calls();
}

static void try_functions(int num)
{
    for (int i = 0; i < num; i++) {
        *tried = functions[i].name;
        if (!CHECK_EQ(functions[i].try(), functions[i].result))
            fprintf(stderr, "# in a child: %s\n", functions[i].name);
        if (functions[i].result == BATON_ESTATE)
            CHECK_HAS(baton_errmsg(), "the process that this one was forked from");
    }
    CHECK_EQ(asked, 0);
}

enum way { BY_FORK, BY_CLONE };

static pid_t make_child(enum way way)
{
    find_shared();
    fflush(NULL);
    return way == BY_FORK ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* A child that tries all there is; the last thing it does is to close and to leave. */
static void child_is_refused(enum way way)
{
    const pid_t child = make_child(way);
    if (child == 0) {
        confine();
        try_functions(NUM_BEFORE_CLOSE + 1);
        if (way == BY_FORK)
            baton_exit(harness.failures > 0);
        _exit(harness.failures > 0);
    }
    if (!CHECK_EQ(status_of(child), 0))
        fprintf(stderr, "# the child's last call was %s\n", *tried);
}

/* ---- a world ----------------------------------------------------------------------------------------------------- */

static char traces[] = "/tmp/baton-fork-XXXXXX";

static void open_world(baton_progress_mode_t progress, uint32_t flags)
{
    char path[64];
    strcpy(traces + strlen(traces) - 6, "XXXXXX");
    CHECK(mkdtemp(traces) != NULL);
    snprintf(path, sizeof path, "%s/%%r", traces);
    setenv("BATON_TRACE", path, 1);
    engine_open(&engine, progress, flags);
    geometry = small_geometry(BLOCK_TOKENS, NUM_BLOCKS);
    geometry.planes = 1;
    engine_need(baton_geometry_layout(&geometry, &tensor, 0));
    block_bytes = geometry.bytes / NUM_BLOCKS;
}

static void trace_path(char *path, size_t size)
{
    snprintf(path, size, "%s/%d", traces, harness.rank);
}

static void down(void)
{
    char path[64];
    MPI_Barrier(MPI_COMM_WORLD);
    engine_need(baton_close(engine.b));
    trace_path(path, sizeof path);
    unlink(path);
    rmdir(traces);
}

/* The round's blocks of each rank go to the rank before it. */
static void transfer(int round)
{
    char key[32], from[BATON_ENGINE_NAME_MAX];
    unsigned char *base = baton_cache_base(engine.cache);
    const int next = (harness.rank + 1) % harness.size;
    const int mine = (harness.rank * 31 + round) % 251, theirs = (next * 31 + round) % 251;
    memset(base, mine, 2 * block_bytes);
    memset(base + 2 * block_bytes, 255, 2 * block_bytes);
    snprintf(key, sizeof key, "round %d", round);
    snprintf(from, sizeof from, "e%d", next);
    engine_offer(&engine, key);
    engine_want_from(&engine, from, key, 20000);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(engine_next(&engine).status, BATON_STATUS_DONE);
    size_t wrong = 0;
    for (size_t i = 0; i < 2 * block_bytes; i++)
        wrong += base[2 * block_bytes + i] != theirs;
    CHECK_EQ(wrong, 0);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void a_child_is_refused(void)
{
    child_is_refused(BY_FORK);
    child_is_refused(BY_CLONE);
}

/* What a child of a child is, and what one does that goes on without looking at results. */
static void the_parent_goes_on_meanwhile(void)
{
    const pid_t child = make_child(BY_FORK);
    if (child == 0) {
        const pid_t grandchild = fork();
        if (grandchild != 0)
            _exit(status_of(grandchild) != 0);
        confine();
        for (int i = 0; i < 4000 && harness.failures == 0; i++)
            try_functions(NUM_BEFORE_CLOSE);
        _exit(harness.failures > 0);
    }
    for (int i = 1; i <= ROUNDS; i++)
        transfer(i);
    CHECK_EQ(status_of(child), 0);
}

static pthread_barrier_t barrier;

static void *hold_locks(void *arg)
{
    struct baton *b = engine.b;
    (void)arg;
    while (!owned_take(&b->loop.turns.lock, clock_now_ns() + CLOCK_NS_PER_S))
        continue;
    pthread_mutex_lock(&b->snapshot.lock);
    pthread_barrier_wait(&barrier); /* locked */
    pthread_barrier_wait(&barrier); /* the children are there */
    pthread_mutex_unlock(&b->snapshot.lock);
    owned_give(&b->loop.turns.lock);
    return NULL;
}

/* Another thread holds them at that moment. In the child there is nobody to unlock them. */
static void locks_that_others_hold(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, hold_locks, NULL), 0);
    pthread_barrier_wait(&barrier);
    child_is_refused(BY_FORK);
    child_is_refused(BY_CLONE);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&barrier);
    transfer(ROUNDS + 1);
}

static void count_page(void *arg, const char *path)
{
    (void)path;
    ++*(int *)arg;
}

/* Of this world's ranks, which all run on this host. */
static int count_pages(void)
{
    char job[METRICS_NAME_BYTES];
    int num = 0;
    snprintf(job, sizeof job, "%016llx", (unsigned long long)engine.b->directory->rows[0].number);
    metrics_pages_find(METRICS_ROOT, job, false, count_page, &num);
    return num;
}

/* Whether whoever writes the timeline still holds it. */
static bool trace_is_held(void)
{
    char path[64];
    trace_path(path, sizeof path);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool is_held = lockfile_is(file);
    CHECK(file >= 0);
    close(file);
    return is_held;
}

static bool is_open(int descriptor)
{
    return fcntl(descriptor, F_GETFD) >= 0;
}

/* A child that lives on after it has closed holds no descriptor; the parent's files stay, and stay the parent's. */
static void a_child_that_closes(void)
{
    const int watched = baton_event_fd(engine.b), pages = count_pages();
    const pid_t child = make_child(BY_FORK);
    if (child == 0) {
        confine();
        CHECK_EQ(baton_close(engine.b), 0);
        CHECK(!is_open(watched));
        CHECK(!is_open(engine.b->events.fd));
        CHECK_EQ(baton_close(engine.b), 0); /* as the destructor of a copy may */
        CHECK_EQ(baton_event_fd(engine.b), BATON_ESTATE);
        _exit(harness.failures > 0);
    }
    CHECK_EQ(status_of(child), 0);
    CHECK(is_open(watched));
    CHECK(trace_is_held());
    CHECK_EQ(count_pages(), pages);
    transfer(ROUNDS + 2);
}

static void finalized(void *arg)
{
    ++*(int *)arg;
}

/* What MPI_Finalize would call. A child may call it, as mpi4py does at the interpreter's exit. */
static void a_child_that_finalizes_mpi(void)
{
    int times = 0;
    struct world world = {.size = 1};
    CHECK_EQ(world_on_finalize(&world, finalized, &times), 0);
    const pid_t child = make_child(BY_FORK);
    if (child == 0) {
        alarm(CHILD_S);
        harness.failures = 0;
        CHECK_EQ(MPI_Comm_delete_attr(MPI_COMM_SELF, world.finalize_key), MPI_SUCCESS);
        CHECK_EQ(times, 0);
        _exit(harness.failures > 0);
    }
    CHECK_EQ(status_of(child), 0);
    CHECK_EQ(MPI_Comm_delete_attr(MPI_COMM_SELF, world.finalize_key), MPI_SUCCESS);
    CHECK_EQ(times, 1);
    MPI_Comm_free_keyval(&world.finalize_key);
}

/* The parent has closed all contexts. MPI is still its own. */
static void a_child_opens_none_afterwards(void)
{
    const pid_t child = make_child(BY_FORK);
    if (child == 0) {
        confine();
        CHECK_EQ(try_open(), BATON_ESTATE);
        CHECK_EQ(try_open_f(), BATON_ESTATE);
        _exit(harness.failures > 0);
    }
    CHECK_EQ(status_of(child), 0);
}

static void in_a_world(baton_progress_mode_t progress)
{
    open_world(progress, 0);
    engine_need(baton_cache_create(engine.b, &geometry, BATON_MEMORY_HOST, &engine.cache));
    RUN(a_child_is_refused);
    engine_need(baton_start(engine.b));
    RUN(a_child_is_refused);
    RUN(the_parent_goes_on_meanwhile);
    RUN(locks_that_others_hold);
    RUN(a_child_that_closes);
    down();
}

/* Whose parent waits for caches, so that calls go on with its start. */
static void in_a_world_without_caches(void)
{
    open_world(BATON_PROGRESS_CALLER, BATON_OPEN_CACHE_LATER);
    engine_need(baton_start(engine.b));
    RUN(a_child_is_refused);
    const baton_region_t region = region_of(BATON_MEMORY_HOST, calloc(1, geometry.bytes), geometry.bytes);
    const uint64_t until = clock_now_ns() + PATIENCE_NS;
    int rc;
    engine_need(baton_cache_wrap(engine.b, &geometry, &region, 1, &engine.cache));
    while ((rc = baton_cache_ready(engine.b)) == BATON_EAGAIN && clock_now_ns() < until)
        usleep(1000);
    engine_need(rc);
    down();
    free(region.base);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    tried = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(tried != MAP_FAILED);
    RUN(the_table_has_each_function);
    in_a_world(BATON_PROGRESS_THREAD);
    in_a_world(BATON_PROGRESS_CALLER);
    in_a_world_without_caches();
    RUN(a_child_that_finalizes_mpi);
    RUN(a_child_opens_none_afterwards);
    return harness_end();
}
