/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_fabric: the mpi room by its fabric: the world, windows and messages. Runs on any number of ranks. Cases that
 * need peers on other nodes are skipped where there are none (BATON_FAKE_NODES=2 makes some). How ranks meet and leave
 * is tested by test_leaving.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/textbuf.h"
#include "wire/message.h"
#include "mpi/quirks.h"
#include "mpi/ringing.h"
#include "mpi/windows.h"
#include "with_fabric.h"

#define POLLS 200 /* of what is not there yet */

/* ---- world ------------------------------------------------------------------------------------------------------- */

static void opens_and_closes(void)
{
    struct fabric *f = opened();
    CHECK_EQ(f->ground.self, harness.rank);
    CHECK_EQ(f->ground.num_peers, harness.size);
    uint64_t parts = settings.fake_nodes < (uint64_t)harness.size ? settings.fake_nodes : (uint64_t)harness.size;
    CHECK_EQ(f->world.nodes, parts ? parts : 1);
    CHECK_EQ(f->world.node_of[0], 0);
    for (uint32_t r = 1; r < f->ground.num_peers; r++)
        CHECK(f->world.node_of[r] == f->world.node_of[r - 1] || f->world.node_of[r] == f->world.node_of[r - 1] + 1);
    CHECK_EQ(f->world.mode, BATON_PROGRESS_THREAD);
    CHECK_EQ(f->calls.close(f, 0), 0);
}

/* Windows of Baton that are not freed: the linker leads its calls here (--wrap). */
static int num_windows;

int __real_MPI_Win_create(void *at, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win);
int __wrap_MPI_Win_create(void *at, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win);
int __real_MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *at, MPI_Win *win);
int __wrap_MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *at, MPI_Win *win);
int __real_MPI_Win_free(MPI_Win *win);
int __wrap_MPI_Win_free(MPI_Win *win);

int __wrap_MPI_Win_create(void *at, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    num_windows++;
    return __real_MPI_Win_create(at, bytes, unit, info, comm, win);
}

int __wrap_MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *at, MPI_Win *win)
{
    num_windows++;
    return __real_MPI_Win_allocate_shared(bytes, unit, info, comm, at, win);
}

int __wrap_MPI_Win_free(MPI_Win *win)
{
    num_windows--;
    return __real_MPI_Win_free(win);
}

static void frees_its_windows(void)
{
    num_windows = 0;
    struct fabric *f = started();
    CHECK_EQ(num_windows, f->world.nodes > 1 ? 2 : 1);
    CHECK_EQ(f->calls.close(f, 0), 0);
    CHECK_EQ(num_windows, 0);
}

static bool is_mpich; /* by its version, from which Baton takes its quirks */

int __real_MPI_Get_library_version(char *text, int *length);
int __wrap_MPI_Get_library_version(char *text, int *length);

int __wrap_MPI_Get_library_version(char *text, int *length)
{
    if (!is_mpich)
        return __real_MPI_Get_library_version(text, length);
    *length = snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "MPICH Version: 4.0.2");
    return MPI_SUCCESS;
}

/* MPI_Finalize of MPICH aborts where a window over nodes is open, so that is freed before, unless a thread uses it. */
static void frees_the_window_over_nodes_before_mpich_ends(void)
{
    static const baton_progress_mode_t modes[] = {BATON_PROGRESS_CALLER, BATON_PROGRESS_THREAD};
    for (int i = 0; i < 2; i++) {
        struct fabric *f = NULL;
        num_windows = 0;
        is_mpich = true;
        CHECK_EQ(fabric_open(MPI_COMM_WORLD, &settings, modes[i], &logger, 0, &f), 0);
        CHECK_EQ(start_with(f, META_BYTES, POOL_BYTES, 0), 0);
        is_mpich = false;
        f->calls.finalize(f);
        CHECK_EQ(num_windows, modes[i] == BATON_PROGRESS_THREAD && f->world.nodes > 1 ? 2 : 1);
        CHECK_EQ(f->calls.close(f, 0), 0);
        CHECK_EQ(num_windows, 0);
    }
}

static void agrees_on_what_was_wrong_before(void)
{
    struct fabric *f = NULL;
    int local = harness.rank == harness.size - 1 ? error_set(BATON_ESETTING, "BATON_X is bad") : 0;
    CHECK_EQ(fabric_open(MPI_COMM_WORLD, &settings, BATON_PROGRESS_AUTO, &logger, local, &f), BATON_ESETTING);
    CHECK(f == NULL);
    CHECK_HAS(baton_errmsg(), ": BATON_X is bad");
}

static void agrees(void)
{
    struct fabric *f = opened();
    char sentence[64];
    int last = harness.size - 1;
    CHECK_EQ(f->calls.agree(f, "all well", 0), 0);
    int local = harness.rank == last ? error_set(BATON_EGEOMETRY, "block_tokens is 16 here") : 0;
    CHECK_EQ(f->calls.agree(f, "geometry", local), BATON_EGEOMETRY);
    snprintf(sentence, sizeof sentence, "rank %d: block_tokens is 16 here", last);
    CHECK(strcmp(baton_errmsg(), sentence) == 0);
    /* Where an error is agreed on again, its sentence stays as it is. */
    CHECK_EQ(f->calls.agree(f, "again", BATON_EGEOMETRY), BATON_EGEOMETRY);
    CHECK(strcmp(baton_errmsg(), sentence) == 0);
    /* Of several errors the lowest number counts, and of several ranks with it the lowest. */
    CHECK_EQ(f->calls.agree(f, "all fail", error_set(BATON_ESHM, "mine")), BATON_ESHM);
    CHECK(strcmp(baton_errmsg(), "rank 0: mine") == 0);
    CHECK_EQ(f->calls.agree(f, "well again", 0), 0);
    CHECK_EQ(f->calls.close(f, 0), 0);
}

/* Makes every agreed step of open and start fail in turn, on the last rank: all return it, and all can close. */
static void fails_together_at_every_step(void)
{
    struct settings before = settings;
    int error = -1;
    settings.fail_rank = (uint64_t)harness.size - 1;
    for (settings.fail_step = 1; settings.fail_step < 40 && error != 0; settings.fail_step++) {
        struct fabric *f = NULL;
        error = fabric_open(MPI_COMM_WORLD, &settings, BATON_PROGRESS_AUTO, &logger, 0, &f);
        if (error == 0) {
            error = start_with(f, META_BYTES, POOL_BYTES, 0);
            if (error == 0)
                error = f->calls.selftest(f, 0, 0);
        }
        if (error) {
            char rank[32];
            snprintf(rank, sizeof rank, "rank %d: ", harness.size - 1);
            CHECK_EQ(error, BATON_EWINDOW);
            CHECK_HAS(baton_errmsg(), "fail_step");
            CHECK_HAS(baton_errmsg(), rank);
        }
        if (f)
            CHECK_EQ(f->calls.close(f, 0), 0);
    }
    CHECK_EQ(error, 0);
    CHECK(settings.fail_step > 10);
    settings = before;
}

static void refuses_more_memory_than_there_is(void)
{
    struct fabric *f = opened();
    CHECK_EQ(start_with(f, META_BYTES, UINT64_C(64) << 20, UINT64_C(16) << 20), BATON_ESHM);
    CHECK_HAS(baton_errmsg(), "16 MiB");
    CHECK_EQ(f->calls.close(f, 0), 0);
    f = opened();
    CHECK_EQ(start_with(f, META_BYTES, UINT64_C(1) << 62, 0), BATON_EINVAL);
    CHECK_EQ(f->calls.close(f, 0), 0);
    if (harness.size == (int)settings.fake_nodes || harness.size == 1)
        return; /* nodes of one rank use no shared memory */
    f = opened();
    CHECK_EQ(start_with(f, META_BYTES, UINT64_C(1) << 45, 0), BATON_ESHM);
    CHECK_HAS(baton_errmsg(), "/dev/shm");
    CHECK_EQ(f->calls.close(f, 0), 0);
}

static void opens_two_at_once(void)
{
    struct fabric *f = started(), *g = started();
    f->ground.segment[GROUND_META_OFFSET] = 1;
    g->ground.segment[GROUND_META_OFFSET] = 2;
    CHECK_EQ(f->ground.segment[GROUND_META_OFFSET], 1);
    uint32_t word = me();
    CHECK_EQ(f->net.send(f, me(), &word, sizeof word), 0);
    struct port_event e = next_event(f);
    CHECK_EQ(e.kind, PORT_MESSAGE);
    closed(f);
    closed(g);
}

/* The table is asked about any library, not only the one in use. */
static void chooses_quirks(void)
{
    struct quirks q;
    quirks_choose(&q, "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "ucx window 3", 0);
    CHECK(q.per_request > 1 && q.per_request <= QUIRKS_RUNS_MAX);
    CHECK_EQ(q.flush_within, 1000000);
    CHECK(q.put_is_remote && !q.is_forced);
    CHECK(strcmp(q.library, "Open MPI v4.1.4") == 0);
    quirks_choose(&q, "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "rdma window 3", 0);
    CHECK(q.per_request == 1 && q.flush_within == 0 && !q.put_is_remote);
    quirks_choose(&q, "Open MPI v5.0.7, package: x", "ucx window 3", 0);
    CHECK_EQ(q.per_request, 1);
    quirks_choose(&q, "MPICH Version:      4.0.2\nMPICH Release date: x\nMPICH Device:    ch4:ucx\n", "", 0);
    CHECK_EQ(q.per_request, 1);
    CHECK(strcmp(q.library, "MPICH Version:      4.0.2, ch4:ucx") == 0);
    quirks_choose(&q, "Another MPI", "ucx window 3", 0);
    CHECK_EQ(q.per_request, 1);
    quirks_choose(&q, "Another MPI", "ucx window 3", 7);
    CHECK(q.per_request == 7 && q.is_forced);
    quirks_choose(&q, "Another MPI", "ucx window 3", 1000);
    CHECK_EQ(q.per_request, QUIRKS_RUNS_MAX);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static void bind_counts(void *base, uint64_t bytes, void *arg)
{
    uint64_t *seen = arg;
    *seen += bytes;
    CHECK_EQ((uintptr_t)base % (2u << 20), 0);
}

static void maps_the_segments_of_the_node(void)
{
    struct fabric *f = opened();
    uint64_t bound = 0, mine = POOL_BYTES + me() * 4096u;
    const struct world_segment wish = {META_BYTES, mine, 0, bind_counts, &bound};
    CHECK_EQ(f->calls.start(f, &wish), 0);
    CHECK_EQ(f->ground.pool_offset % (2u << 20), 0);
    CHECK(f->ground.pool_offset >= GROUND_META_OFFSET + META_BYTES);
    CHECK(f->ground.peers[me()].mapped == f->ground.segment);
    CHECK_EQ(f->ground.peers[me()].bytes, f->ground.pool_offset + mine);
    CHECK_EQ(bound, f->ground.peers[me()].bytes);
    f->ground.segment[GROUND_META_OFFSET] = (uint8_t)(100 + me());
    pool_of(f)[mine - 1] = (uint8_t)(200 + me());
    f->net.sync(f);
    meet(f);
    for (uint32_t r = 0; r < f->ground.num_peers; r++) {
        const uint8_t *segment = f->ground.peers[r].mapped;
        CHECK_EQ(segment != NULL, f->world.node_of[r] == f->world.node_of[me()]);
        uint64_t expected = f->ground.pool_offset + POOL_BYTES + r * 4096u;
        if (!segment) {
            CHECK_EQ(f->net.path.read(f, r, expected, 1, r), BATON_EMESSAGE);
            CHECK_EQ(f->net.path.read(f, r, expected - 1, 1, r), 0);
            struct port_event e = next_event(f);
            CHECK(e.kind == PORT_READ && e.data && e.data[0] == (uint8_t)(200 + r));
            continue;
        }
        CHECK_EQ(f->ground.peers[r].bytes, expected);
        CHECK_EQ(segment[GROUND_META_OFFSET], (uint8_t)(100 + r));
        CHECK_EQ(segment[expected - 1], (uint8_t)(200 + r));
    }
    closed(f);
}

static void starts_without_a_pool(void)
{
    struct fabric *f = opened();
    CHECK_EQ(start_with(f, META_BYTES, me() % 2 ? POOL_BYTES : 0, 0), 0);
    CHECK(f->ground.peers[me()].mapped == f->ground.segment);
    CHECK_EQ(f->ground.peers[me()].bytes, f->ground.pool_offset + (me() % 2 ? POOL_BYTES : 0));
    closed(f);
}

/* Ids mean nothing in another namespace. The even ranks tell the others that they are in one. */
static void knows_the_processes_of_its_node(void)
{
    struct fabric *f = started();
    const uint64_t elsewhere = me() % 2 == 0;
    int own = getpid(), *ids = calloc((size_t)harness.size, sizeof *ids);
    MPI_Allgather(&own, 1, MPI_INT, ids, 1, MPI_INT, MPI_COMM_WORLD);
    for (uint32_t r = 0; r < f->ground.num_peers; r++)
        CHECK_EQ(f->ground.peers[r].process, f->world.node_of[r] == f->world.node_of[me()] ? ids[r] : 0);
    MPI_Barrier(MPI_COMM_WORLD);
    owner_of(f)[1] ^= elsewhere;
    f->net.sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t r = 0; r < f->ground.num_peers; r++) {
        bool is_known = f->world.node_of[r] == f->world.node_of[me()] && r % 2 == me() % 2;
        CHECK_EQ(windows_process(&f->windows, r), is_known ? ids[r] : 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    owner_of(f)[1] ^= elsewhere;
    free(ids);
    closed(f);
}

static void exchanges_rows(void)
{
    struct fabric *f = started();
    uint32_t row[2] = {me(), ~me()}, *rows = calloc((size_t)harness.size, sizeof row);
    CHECK_EQ(f->calls.exchange(f, row, sizeof row, rows), 0);
    for (uint32_t r = 0; r < f->ground.num_peers; r++)
        CHECK(rows[2 * r] == r && rows[2 * r + 1] == ~r);
    free(rows);
    closed(f);
}

static void describes_itself(void)
{
    struct fabric *f = started();
    char text[2048], little[16];
    struct textbuf out = {text, sizeof text, 0}, small = {little, sizeof little, 0}, none = {NULL, 0, 0};
    describe(f, &out);
    describe(f, &small);
    describe(f, &none);
    int length = out.length;
    CHECK_EQ(length, strlen(text));
    CHECK_EQ(small.length, length);
    CHECK(strncmp(little, text, sizeof little - 1) == 0 && little[15] == '\0');
    CHECK_EQ(none.length, length);
    CHECK_HAS(text,
              strstr(text, "mpi: Open MPI") ? "window on the node: sm," : "window on the node: not named by this MPI,");
    if (harness.rank == 0)
        printf("# %.*s\n", (int)strcspn(strstr(text, "mpi:"), "\n"), strstr(text, "mpi:"));
    closed(f);
}

/* Only where they are not asked for does the description say so. */
static void asks_for_huge_pages(void)
{
    static const char sentence[] =
        "memory pages: those that the system chooses: not asked for, BATON_TUNE=huge_pages=0\n";
    const struct settings before = settings;
    for (int asks = 0; asks <= 1; asks++) {
        char text[2048];
        struct textbuf out = {text, sizeof text, 0};
        settings.huge_pages = (uint64_t)asks;
        struct fabric *f = started();
        settings = before;
        describe(f, &out);
        CHECK_HAS(text, "memory pages: ");
        CHECK_EQ(strstr(text, sentence) != NULL, !asks);
        closed(f);
    }
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

#define FLOOD 200u /* messages to each rank, many times the credits */

struct letter {
    uint32_t from, number;
    uint8_t rest[WIRE_MESSAGE_MAX - 8];
};

static uint32_t letter_bytes(uint32_t number)
{
    return number % 7 == 0 ? WIRE_MESSAGE_MAX : 9 + number % 300;
}

static bool send_letter(struct fabric *f, uint32_t to, uint32_t number)
{
    struct letter letter = {.from = me(), .number = number};
    memset(letter.rest, (int)(number + me()), sizeof letter.rest);
    int rc = f->net.send(f, to, &letter, letter_bytes(number));
    CHECK(rc == 0 || rc == BATON_EAGAIN);
    return rc == 0;
}

static void look_again(void *arg)
{
    const struct fabric *f = arg;
    bell_ring(ground_bell(&f->ground));
}

/* A message to a rank of another node rings there. Where all ranks have one node, nobody needs that. */
static void rings_across_nodes(void)
{
    struct fabric *f = started();
    const uint32_t n = f->ground.num_peers;
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    struct port_event events[EVENTS];
    uint32_t far = 0, got = 0, sent = 0;
    char text[4096];
    CHECK(!f->net.is_rung(f));
    CHECK_EQ(f->calls.doorbell(f, look_again, f, NULL), 0);
    for (uint32_t r = 0; r < n; r++)
        far += f->world.node_of[r] != f->world.node_of[me()];
    CHECK_EQ(f->net.is_rung(f), f->world.nodes > 1 && f->world.mode == BATON_PROGRESS_THREAD);
    describe(f, &(struct textbuf){text, sizeof text, 0});
    CHECK_EQ(strstr(text, "doorbell: ranks of other nodes wake this one by UDP") != NULL, f->net.is_rung(f));
    while ((got < n || (f->net.is_rung(f) && f->net.rings(f) < 2 * far)) && clock_now_ns() < deadline) {
        while (sent < n && send_letter(f, sent, 0))
            sent++;
        f->net.ring(f);
        got += (uint32_t)f->net.path.progress(f, events, EVENTS);
    }
    CHECK_EQ(got, n);
    CHECK(!f->net.is_rung(f) || f->net.rings(f) >= 2 * far); /* it rang as many as rang it */
    closed(f);
}

/* One rank that does not answer is enough: whoever would be rung looks by itself again. */
static void is_rung_while_all_answer(void)
{
    static const struct {
        bool listens;
        int64_t silent;
        int deaf;
        bool is_rung;
    } cases[] = {{true, -1, 0, true},   {true, 0, 0, false},  {true, 3, 0, false},
                 {false, -1, 0, false}, {false, 3, 0, false}, {true, -1, EINVAL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ringing r = {.listens = cases[i].listens};
        r.doorbell.is_open = true;
        r.doorbell.silent = cases[i].silent;
        r.doorbell.deaf = cases[i].deaf;
        CHECK_EQ(ringing_is_rung(&r), cases[i].is_rung);
    }
}

static void check_letter(const struct port_event *e, uint32_t *expected)
{
    struct letter letter;
    if (!CHECK_EQ(e->kind, PORT_MESSAGE) || !CHECK(e->bytes >= 9 && e->bytes <= sizeof letter))
        return;
    memcpy(&letter, e->data, e->bytes);
    CHECK_EQ(letter.from, e->peer);
    CHECK_EQ(letter.number, expected[e->peer]++);
    CHECK_EQ(e->bytes, letter_bytes(letter.number));
    CHECK_EQ(letter.rest[e->bytes - 9], (uint8_t)(letter.number + letter.from));
}

/* Every rank sends to every rank, itself too, far beyond the credits: all messages arrive, each sender's in order. */
static void delivers_in_order(void)
{
    struct fabric *f = started();
    uint32_t n = f->ground.num_peers, sent_all = 0, refused = 0, got = 0;
    uint32_t *sent = calloc(n, sizeof *sent), *expected = calloc(n, sizeof *expected);
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    struct port_event events[EVENTS];
    while ((sent_all < n || got < n * FLOOD) && clock_now_ns() < deadline) {
        sent_all = 0;
        for (uint32_t r = 0; r < n; r++) {
            while (sent[r] < FLOOD && send_letter(f, r, sent[r]))
                sent[r]++;
            refused += sent[r] < FLOOD;
            sent_all += sent[r] == FLOOD;
        }
        int came = f->net.path.progress(f, events, EVENTS);
        CHECK(came >= 0);
        for (int i = 0; i < came; i++, got++)
            check_letter(&events[i], expected);
    }
    CHECK_EQ(got, n * FLOOD);
    CHECK(refused > 0); /* else the credits did not run out */
    free(sent);
    free(expected);
    closed(f);
}

/* A rank that does not consume holds up only the messages to itself. Rank 0 consumes nothing for a while. */
static void bounds_what_is_unconfirmed(void)
{
    struct fabric *f = started();
    uint32_t accepted = 0, expected[1] = {0};
    if (me() == harness.size - 1u)
        while (accepted < 100 && send_letter(f, 0, accepted))
            accepted++;
    CHECK(accepted <= 32);
    CHECK_EQ(accepted > 0, me() == harness.size - 1u);
    MPI_Bcast(&accepted, 1, MPI_UINT32_T, harness.size - 1, MPI_COMM_WORLD);
    if (me() == 0) {
        for (uint32_t i = 0; i < accepted; i++) {
            struct port_event e = next_event(f);
            CHECK_EQ(e.peer, harness.size - 1);
            e.peer = 0;
            struct letter letter;
            memcpy(&letter, e.data, 8);
            CHECK_EQ(letter.number, expected[0]++);
        }
    }
    meet(f);
    MPI_Barrier(MPI_COMM_WORLD); /* no rank takes messages here any more */
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    bool sent = me() != harness.size - 1u;
    struct port_event none;
    while (!sent && clock_now_ns() < deadline) { /* an envelope alone confirms, since rank 0 has nothing to say */
        sent = send_letter(f, 0, 0);
        if (!sent)
            CHECK_EQ(f->net.path.progress(f, &none, 1), 0);
    }
    CHECK(sent);
    if (me() == 0)
        CHECK_EQ(next_event(f).kind, PORT_MESSAGE);
    closed(f);
}

static void refuses_bad_messages(void)
{
    struct fabric *f = started();
    uint8_t bytes[WIRE_MESSAGE_MAX + 1] = {0};
    CHECK_EQ(f->net.send(f, 0, bytes, sizeof bytes), BATON_EINVAL);
    CHECK_EQ(f->net.send(f, 0, bytes, 0), BATON_EINVAL);
    CHECK_EQ(f->net.send(f, f->ground.num_peers, bytes, 1), BATON_EINVAL);
    closed(f);
}

/* Messages that nobody took before closing do not turn up in the next context. */
static void leaves_nothing_behind(void)
{
    struct fabric *f = started();
    for (uint32_t r = 0; r < f->ground.num_peers; r++)
        for (uint32_t i = 0; i < 32; i++) /* from several ranks, more than have a receive posted */
            send_letter(f, r, i);
    CHECK_EQ(f->calls.close(f, 0), 0);
    f = started();
    closed(f); /* checks that no event came */
}

static void rings_the_bell_of_the_node(void)
{
    struct fabric *f = started();
    uint32_t next = (me() + 1) % f->ground.num_peers, word = 0;
    uint32_t before = (me() + f->ground.num_peers - 1) % f->ground.num_peers;
    uint32_t seen = bell_read(ground_bell(&f->ground));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(f->net.send(f, next, &word, sizeof word), 0);
    CHECK_EQ(next_event(f).kind, PORT_MESSAGE);
    if (f->world.node_of[before] == f->world.node_of[me()]) {
        uint64_t deadline = clock_now_ns() + PATIENCE_NS; /* the message may come before its bell */
        while (bell_read(ground_bell(&f->ground)) == seen && clock_now_ns() < deadline)
            sched_yield();
        CHECK(bell_read(ground_bell(&f->ground)) != seen);
    }
    closed(f);
}

int main(int argc, char **argv)
{
    fabric_tests_begin(&argc, &argv);
    RUN(opens_and_closes);
    RUN(frees_its_windows);
    RUN(frees_the_window_over_nodes_before_mpich_ends);
    RUN(agrees);
    RUN(agrees_on_what_was_wrong_before);
    RUN(fails_together_at_every_step);
    RUN(refuses_more_memory_than_there_is);
    RUN(opens_two_at_once);
    RUN(chooses_quirks);
    RUN(maps_the_segments_of_the_node);
    RUN(starts_without_a_pool);
    RUN(knows_the_processes_of_its_node);
    RUN(exchanges_rows);
    RUN(describes_itself);
    RUN(asks_for_huge_pages);
    RUN(rings_across_nodes);
    RUN(is_rung_while_all_answer);
    RUN(delivers_in_order);
    RUN(bounds_what_is_unconfirmed);
    RUN(refuses_bad_messages);
    RUN(leaves_nothing_behind);
    RUN(rings_the_bell_of_the_node);
    return harness_end();
}
