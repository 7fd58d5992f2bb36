/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_fabric: the mpi room from outside. Runs on any number of ranks; what needs peers on other nodes is skipped
 * where there are none (BATON_FAKE_NODES=2 makes some).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/wire.h"
#include "harness.h"
#include "mpi/fabric.h"
#include "mpi/quirks.h"

#define META_BYTES 65536u
#define POOL_BYTES (UINT64_C(3) << 20)
#define EVENTS 16
#define PATIENCE_NS (UINT64_C(20000) * CLOCK_NS_PER_MS)

static struct settings settings;
static struct logger logger;

/* ---- what the cases share ---------------------------------------------------------------------------------------- */

static uint32_t me(void)
{
    return (uint32_t)harness.rank;
}

static struct fabric *opened(void)
{
    struct fabric *f = NULL;
    if (!CHECK_EQ(fabric_open(MPI_COMM_WORLD, &settings, BATON_PROGRESS_AUTO, &logger, &f, 0), 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1); /* nothing later makes sense */
    }
    return f;
}

static struct fabric *started(void)
{
    struct fabric *f = opened();
    int error = fabric_start(f, META_BYTES, POOL_BYTES, 0, NULL, NULL);
    if (error == 0)
        error = fabric_selftest(f);
    if (!CHECK_EQ(error, 0)) {
        fprintf(stderr, "# rank %d: %s\n", harness.rank, baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return f;
}

static uint8_t *pool_of(const struct fabric *f)
{
    return fabric_segment(f) + fabric_pool_offset(f);
}

/* A rank on another node, or my own where there is none: each rank has one reader at most, if nodes are equal. */
static uint32_t far_peer(const struct fabric *f)
{
    for (uint32_t i = 0; i < fabric_size(f); i++) {
        uint32_t r = (me() + fabric_size(f) / 2 + i) % fabric_size(f);
        if (fabric_node(f, r) != fabric_node(f, me()))
            return r;
    }
    return me();
}

static uint8_t byte_at(uint32_t rank, uint64_t offset)
{
    return (uint8_t)((offset * UINT64_C(0x9e3779b97f4a7c15) + rank * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 56);
}

static void fill_pool(const struct fabric *f)
{
    for (uint64_t i = 0; i < POOL_BYTES; i++)
        pool_of(f)[i] = byte_at(me(), i);
}

/* Waits for all ranks while it answers the others. Events that come are counted, not looked at. */
static int meet(struct fabric *f)
{
    struct port_event events[EVENTS];
    MPI_Request all;
    int done = 0, strays = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (!done) {
        int n = fabric_progress(f, events, EVENTS);
        if (!CHECK(n >= 0))
            break;
        strays += n;
        MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    }
    return strays;
}

/* The next event; a zeroed one where none comes in time. */
static struct port_event next_event(struct fabric *f)
{
    struct port_event e = {0};
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    while (fabric_progress(f, &e, 1) == 0 && clock_now_ns() < deadline)
        ;
    return e;
}

static void closed(struct fabric *f)
{
    CHECK_EQ(meet(f), 0);
    CHECK_EQ(fabric_close(f, 0), 0);
}

/* ---- world ------------------------------------------------------------------------------------------------------- */

static void opens_and_closes(void)
{
    struct fabric *f = opened();
    CHECK_EQ(fabric_rank(f), harness.rank);
    CHECK_EQ(fabric_size(f), harness.size);
    uint64_t parts = settings.fake_nodes < (uint64_t)harness.size ? settings.fake_nodes : (uint64_t)harness.size;
    CHECK_EQ(fabric_nodes(f), parts ? parts : 1);
    CHECK_EQ(fabric_node(f, 0), 0);
    for (uint32_t r = 1; r < fabric_size(f); r++)
        CHECK(fabric_node(f, r) == fabric_node(f, r - 1) || fabric_node(f, r) == fabric_node(f, r - 1) + 1);
    CHECK_EQ(fabric_mode(f), BATON_PROGRESS_THREAD);
    CHECK_EQ(fabric_close(f, 0), 0);
}

static void agrees_on_what_was_wrong_before(void)
{
    struct fabric *f = NULL;
    int local = harness.rank == harness.size - 1 ? error_set(BATON_ESETTING, "BATON_X is bad") : 0;
    CHECK_EQ(fabric_open(MPI_COMM_WORLD, &settings, BATON_PROGRESS_AUTO, &logger, &f, local), BATON_ESETTING);
    CHECK(f == NULL);
    CHECK_HAS(baton_errmsg(), ": BATON_X is bad");
}

static void agrees(void)
{
    struct fabric *f = opened();
    char sentence[64];
    int last = harness.size - 1;
    CHECK_EQ(fabric_agree(f, "all well", 0), 0);
    int local = harness.rank == last ? error_set(BATON_EGEOMETRY, "block_tokens is 16 here") : 0;
    CHECK_EQ(fabric_agree(f, "geometry", local), BATON_EGEOMETRY);
    snprintf(sentence, sizeof sentence, "rank %d: block_tokens is 16 here", last);
    CHECK(strcmp(baton_errmsg(), sentence) == 0);
    /* Agreed on again by whoever passes it on: the sentence stays as it is. */
    CHECK_EQ(fabric_agree(f, "again", BATON_EGEOMETRY), BATON_EGEOMETRY);
    CHECK(strcmp(baton_errmsg(), sentence) == 0);
    /* Of several errors the lowest number, of several ranks the lowest. */
    CHECK_EQ(fabric_agree(f, "all fail", error_set(BATON_ESHM, "mine")), BATON_ESHM);
    CHECK(strcmp(baton_errmsg(), "rank 0: mine") == 0);
    CHECK_EQ(fabric_agree(f, "well again", 0), 0);
    CHECK_EQ(fabric_close(f, 0), 0);
}

/* Makes every agreed step of open and start fail in turn, on the last rank: all return it, and all can close. */
static void fails_together_at_every_step(void)
{
    struct settings before = settings;
    int error = -1;
    settings.fail_rank = (uint64_t)harness.size - 1;
    for (settings.fail_step = 1; settings.fail_step < 40 && error != 0; settings.fail_step++) {
        struct fabric *f = NULL;
        error = fabric_open(MPI_COMM_WORLD, &settings, BATON_PROGRESS_AUTO, &logger, &f, 0);
        if (error == 0) {
            error = fabric_start(f, META_BYTES, POOL_BYTES, 0, NULL, NULL);
            if (error == 0)
                error = fabric_selftest(f);
        }
        if (error) {
            char rank[32];
            snprintf(rank, sizeof rank, "rank %d: ", harness.size - 1);
            CHECK_EQ(error, BATON_EWINDOW);
            CHECK_HAS(baton_errmsg(), "BATON_FAIL_STEP");
            CHECK_HAS(baton_errmsg(), rank);
        }
        if (f)
            CHECK_EQ(fabric_close(f, 0), 0);
    }
    CHECK_EQ(error, 0);
    CHECK(settings.fail_step > 10);
    settings = before;
}

static void refuses_more_memory_than_there_is(void)
{
    struct fabric *f = opened();
    CHECK_EQ(fabric_start(f, META_BYTES, UINT64_C(64) << 20, UINT64_C(16) << 20, NULL, NULL), BATON_ESHM);
    CHECK_HAS(baton_errmsg(), "16 MiB");
    CHECK_EQ(fabric_close(f, 0), 0);
    f = opened();
    CHECK_EQ(fabric_start(f, META_BYTES, UINT64_C(1) << 62, 0, NULL, NULL), BATON_EINVAL);
    CHECK_EQ(fabric_close(f, 0), 0);
    if (harness.size == (int)settings.fake_nodes || harness.size == 1)
        return; /* nodes of one rank use no shared memory */
    f = opened();
    CHECK_EQ(fabric_start(f, META_BYTES, UINT64_C(1) << 45, 0, NULL, NULL), BATON_ESHM);
    CHECK_HAS(baton_errmsg(), "/dev/shm");
    CHECK_EQ(fabric_close(f, 0), 0);
}

static void opens_two_at_once(void)
{
    struct fabric *f = started(), *g = started();
    fabric_segment(f)[FABRIC_META_OFFSET] = 1;
    fabric_segment(g)[FABRIC_META_OFFSET] = 2;
    CHECK_EQ(fabric_segment(f)[FABRIC_META_OFFSET], 1);
    uint32_t word = me();
    CHECK_EQ(fabric_send(f, me(), &word, sizeof word), 0);
    struct port_event e = next_event(f);
    CHECK_EQ(e.kind, PORT_MESSAGE);
    closed(f);
    closed(g);
}

/* Pure, so that any library can be asked for. */
static void chooses_quirks(void)
{
    struct quirks q;
    quirks_choose(&q, "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "ucx window 3", 0);
    CHECK(q.gets_per_request > 1 && q.gets_per_request <= QUIRKS_RUNS_MAX);
    CHECK_EQ(q.flush_within, 1000000);
    CHECK(q.put_is_remote && !q.is_forced);
    CHECK(strcmp(q.library, "Open MPI v4.1.4") == 0);
    quirks_choose(&q, "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "rdma window 3", 0);
    CHECK(q.gets_per_request == 1 && q.flush_within == 0 && !q.put_is_remote);
    quirks_choose(&q, "Open MPI v5.0.7, package: x", "ucx window 3", 0);
    CHECK_EQ(q.gets_per_request, 1);
    quirks_choose(&q, "MPICH Version:      4.0.2\nMPICH Release date: x", "", 0);
    CHECK_EQ(q.gets_per_request, 1);
    CHECK(strcmp(q.library, "MPICH Version:      4.0.2") == 0);
    quirks_choose(&q, "Another MPI", "ucx window 3", 0);
    CHECK_EQ(q.gets_per_request, 1);
    quirks_choose(&q, "Another MPI", "ucx window 3", 7);
    CHECK(q.gets_per_request == 7 && q.is_forced);
    quirks_choose(&q, "Another MPI", "ucx window 3", 1000);
    CHECK_EQ(q.gets_per_request, QUIRKS_RUNS_MAX);
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
    uint64_t bound = 0, mine = POOL_BYTES + me() * 4096u, bytes = 0;
    CHECK_EQ(fabric_start(f, META_BYTES, mine, 0, bind_counts, &bound), 0);
    CHECK_EQ(bound, fabric_segment_bytes(f, me()));
    CHECK_EQ(fabric_pool_offset(f) % (2u << 20), 0);
    CHECK(fabric_pool_offset(f) >= FABRIC_META_OFFSET + META_BYTES);
    CHECK(fabric_mapped(f, me(), &bytes) == fabric_segment(f));
    CHECK_EQ(bytes, fabric_pool_offset(f) + mine);
    fabric_segment(f)[FABRIC_META_OFFSET] = (uint8_t)(100 + me());
    pool_of(f)[mine - 1] = (uint8_t)(200 + me());
    fabric_sync(f);
    meet(f);
    for (uint32_t r = 0; r < fabric_size(f); r++) {
        const uint8_t *segment = fabric_mapped(f, r, &bytes);
        CHECK_EQ(segment != NULL, fabric_node(f, r) == fabric_node(f, me()));
        CHECK_EQ(fabric_segment_bytes(f, r), fabric_pool_offset(f) + POOL_BYTES + r * 4096u);
        if (!segment)
            continue;
        CHECK_EQ(bytes, fabric_segment_bytes(f, r));
        CHECK_EQ(segment[FABRIC_META_OFFSET], (uint8_t)(100 + r));
        CHECK_EQ(segment[bytes - 1], (uint8_t)(200 + r));
    }
    closed(f);
}

static void starts_without_a_pool(void)
{
    struct fabric *f = opened();
    CHECK_EQ(fabric_start(f, META_BYTES, me() % 2 ? POOL_BYTES : 0, 0, NULL, NULL), 0);
    CHECK_EQ(fabric_segment_bytes(f, me()), fabric_pool_offset(f) + (me() % 2 ? POOL_BYTES : 0));
    closed(f);
}

static void exchanges_rows(void)
{
    struct fabric *f = started();
    uint32_t row[2] = {me(), ~me()}, *rows = calloc((size_t)harness.size, sizeof row);
    CHECK_EQ(fabric_exchange(f, row, sizeof row, rows), 0);
    for (uint32_t r = 0; r < fabric_size(f); r++)
        CHECK(rows[2 * r] == r && rows[2 * r + 1] == ~r);
    free(rows);
    closed(f);
}

static void describes_itself(void)
{
    struct fabric *f = started();
    char text[2048], little[16];
    int length = fabric_describe(f, text, sizeof text);
    CHECK_EQ(length, strlen(text));
    CHECK_EQ(fabric_describe(f, little, sizeof little), length);
    CHECK(strncmp(little, text, sizeof little - 1) == 0 && little[15] == '\0');
    CHECK_EQ(fabric_describe(f, NULL, 0), length);
    CHECK_HAS(text, "window on the node: sm");
    if (harness.rank == 0)
        printf("# %.*s\n", (int)strcspn(strstr(text, "mpi:"), "\n"), strstr(text, "mpi:"));
    closed(f);
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
    int rc = fabric_send(f, to, &letter, letter_bytes(number));
    CHECK(rc == 0 || rc == BATON_EAGAIN);
    return rc == 0;
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

/* Everybody to everybody, own rank too, far beyond the credits: all arrive, each sender's in order. */
static void delivers_in_order(void)
{
    struct fabric *f = started();
    uint32_t n = fabric_size(f), sent_all = 0, refused = 0, got = 0;
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
        int came = fabric_progress(f, events, EVENTS);
        CHECK(came >= 0);
        for (int i = 0; i < came; i++, got++)
            check_letter(&events[i], expected);
    }
    CHECK_EQ(got, n * FLOOD);
    CHECK(refused > 0); /* else credits were not tried */
    free(sent);
    free(expected);
    closed(f);
}

/* Who does not consume holds up its own messages alone: here rank 0 consumes nothing for a while. */
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
    MPI_Barrier(MPI_COMM_WORLD); /* nobody is in there any more to take what follows */
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    bool sent = me() != harness.size - 1u;
    struct port_event none;
    while (!sent && clock_now_ns() < deadline) { /* an envelope alone confirms: rank 0 has nothing to say */
        sent = send_letter(f, 0, 0);
        if (!sent)
            CHECK_EQ(fabric_progress(f, &none, 1), 0);
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
    CHECK_EQ(fabric_send(f, 0, bytes, sizeof bytes), BATON_EINVAL);
    CHECK_EQ(fabric_send(f, 0, bytes, 0), BATON_EINVAL);
    CHECK_EQ(fabric_send(f, fabric_size(f), bytes, 1), BATON_EINVAL);
    closed(f);
}

/* Messages that nobody took before closing do not turn up in the next context. */
static void leaves_nothing_behind(void)
{
    struct fabric *f = started();
    for (uint32_t r = 0; r < fabric_size(f); r++)
        for (uint32_t i = 0; i < 32; i++) /* from several ranks, more than have a receive posted */
            send_letter(f, r, i);
    CHECK_EQ(fabric_close(f, 0), 0);
    f = started();
    closed(f); /* checks that no event came */
}

static void rings_the_bell_of_the_node(void)
{
    struct fabric *f = started();
    uint32_t next = (me() + 1) % fabric_size(f), word = 0;
    uint32_t before = (me() + fabric_size(f) - 1) % fabric_size(f);
    uint32_t seen = bell_look(fabric_bell(f));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(fabric_send(f, next, &word, sizeof word), 0);
    CHECK_EQ(next_event(f).kind, PORT_MESSAGE);
    if (fabric_node(f, before) == fabric_node(f, me()))
        CHECK(bell_look(fabric_bell(f)) != seen);
    closed(f);
}

/* ---- rma --------------------------------------------------------------------------------------------------------- */

static void reads_a_piece(void)
{
    struct fabric *f = started();
    uint8_t *meta = fabric_segment(f) + FABRIC_META_OFFSET;
    uint64_t word = UINT64_C(0x0123456789abcdef) + me();
    for (uint32_t i = 0; i < 1000; i++)
        meta[i] = byte_at(me(), i);
    memcpy(meta + 2048, &word, sizeof word);
    fabric_sync(f);
    meet(f);
    uint32_t near = (me() + 1) % fabric_size(f), peers[2] = {near, far_peer(f)};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(fabric_read(f, peers[i], FABRIC_META_OFFSET + 3, 997, 70 + (uint64_t)i), 0);
        struct port_event e = next_event(f);
        CHECK_EQ(e.kind, PORT_CARD);
        CHECK_EQ(e.error, 0);
        CHECK_EQ(e.tag, 70 + i);
        CHECK_EQ(e.bytes, 997);
        for (uint32_t b = 0; b < 997 && e.data; b++)
            CHECK_EQ(e.data[b], byte_at(peers[i], b + 3));
        CHECK_EQ(fabric_read_word(f, peers[i], FABRIC_META_OFFSET + 2048, 80 + (uint64_t)i), 0);
        e = next_event(f);
        CHECK_EQ(e.kind, PORT_BOARD);
        CHECK_EQ(e.error, 0);
        CHECK_EQ(e.tag, 80 + i);
        CHECK_EQ(e.generation, UINT64_C(0x0123456789abcdef) + peers[i]);
    }
    closed(f);
}

static void refuses_to_read_outside(void)
{
    struct fabric *f = started();
    uint32_t peer = far_peer(f);
    uint64_t end = fabric_segment_bytes(f, peer);
    CHECK_EQ(fabric_read(f, peer, end, 1, 1), BATON_EMESSAGE);
    CHECK_EQ(fabric_read(f, peer, end - 8, 9, 1), BATON_EMESSAGE);
    CHECK_EQ(fabric_read(f, peer, UINT64_MAX - 3, 8, 1), BATON_EMESSAGE);
    CHECK_EQ(fabric_read_word(f, peer, end - 4, 1), BATON_EMESSAGE);
    CHECK_EQ(fabric_read_word(f, peer, UINT64_MAX, 1), BATON_EMESSAGE);
    CHECK_EQ(fabric_read(f, peer, 0, 0, 1), BATON_EINVAL);
    CHECK_EQ(fabric_read(f, fabric_size(f), 0, 8, 1), BATON_EINVAL);
    CHECK_EQ(fabric_busy(f), 0);
    closed(f);
}

/* As many reads at once as are allowed: those beyond are refused, and all that were accepted are answered. */
static void bounds_reads_of_one_peer(void)
{
    struct fabric *f = started();
    uint32_t peer = far_peer(f);
    uint64_t accepted = 0, seen = 0;
    int rc = 0;
    if (fabric_nodes(f) < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    while (accepted < 100 && (rc = fabric_read(f, peer, 0, 64, accepted)) == 0)
        accepted++;
    CHECK_EQ(rc, BATON_EAGAIN);
    CHECK(accepted >= 1 && accepted <= settings.rma_peer_requests);
    for (uint64_t i = 0; i < accepted; i++) {
        struct port_event e = next_event(f);
        CHECK_EQ(e.kind, PORT_CARD);
        CHECK(e.tag < accepted);
        seen |= UINT64_C(1) << e.tag;
    }
    CHECK_EQ(seen, (UINT64_C(1) << accepted) - 1);
    closed(f);
}

static void parks_what_is_under_way(void)
{
    struct fabric *f = started();
    uint32_t peer = far_peer(f);
    if (fabric_nodes(f) < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    CHECK_EQ(fabric_park(f, peer, 5), PORT_PARK_QUIET);
    CHECK_EQ(fabric_read(f, peer, 0, 4096, 5), 0);
    CHECK_EQ(fabric_read(f, peer, 0, 4096, 6), 0);
    CHECK_EQ(fabric_read(f, peer, 0, 4096, 5), 0);
    CHECK_EQ(fabric_park(f, peer, 5), PORT_PARK_LATER);
    CHECK_EQ(fabric_park(f, peer, 5), PORT_PARK_LATER);
    struct port_event first = next_event(f), second = next_event(f);
    struct port_event quiet = first.kind == PORT_QUIET ? first : second;
    struct port_event card = first.kind == PORT_QUIET ? second : first;
    CHECK_EQ(quiet.kind, PORT_QUIET);
    CHECK_EQ(quiet.tag, 5);
    CHECK_EQ(card.kind, PORT_CARD);
    CHECK_EQ(card.tag, 6);
    CHECK_EQ(fabric_park(f, peer, 5), PORT_PARK_QUIET);
    CHECK_EQ(fabric_busy(f), 0);
    closed(f); /* checks that nothing else comes */
}

/* A peer that answers nobody for a while: its requests go aside, and come when it is back. */
static void parks_a_silent_peer(void)
{
    struct settings before = settings;
    settings.park_ms = 20;
    struct fabric *f = started();
    settings = before;
    uint32_t silent = fabric_size(f) - 1;
    int moved_aside = 0;
    if (fabric_nodes(f) < 2) {
        closed(f);
        SKIP("one node");
        return;
    }
    meet(f);
    bool reads = fabric_node(f, me()) != fabric_node(f, silent);
    if (reads)
        CHECK_EQ(fabric_read(f, silent, 0, 64, 9), 0);
    struct port_event e = {0};
    uint64_t end = clock_now_ns() + 300 * CLOCK_NS_PER_MS;
    if (me() == silent) /* outside of MPI */
        while (clock_now_ns() < end)
            ;
    else
        while (clock_now_ns() < end && e.kind == 0) {
            fabric_progress(f, &e, 1);
            moved_aside |= fabric_counts(f).parked >= 1 && fabric_busy(f) == 0;
        }
    if (reads && e.kind == 0)
        CHECK(moved_aside);
    if (reads && e.kind == 0)
        e = next_event(f);
    CHECK_EQ(e.kind, reads ? PORT_CARD : 0);
    end = clock_now_ns() + PATIENCE_NS;
    while (fabric_counts(f).parked > 0 && clock_now_ns() < end) /* the probe */
        CHECK_EQ(fabric_progress(f, &e, 1), 0);
    CHECK_EQ(fabric_counts(f).parked, 0);
    closed(f);
}

/* ---- moving a leg ------------------------------------------------------------------------------------------------ */

#define LAYERS 3u
#define BLOCKS 20u
#define BLOCK_TOKENS 16u

struct cache {
    baton_geometry_t geometry;
    baton_tensor_t tensors[LAYERS];
};

static void lay_out(struct cache *c, unsigned layout)
{
    c->geometry = (baton_geometry_t){.model = "m",
                                     .dtype = "bf16",
                                     .elem_bytes = 2,
                                     .planes = 2,
                                     .block_tokens = BLOCK_TOKENS,
                                     .head_size = 32,
                                     .num_blocks = BLOCKS,
                                     .heads_total = 4,
                                     .head_count = 4,
                                     .layers_total = LAYERS,
                                     .layer_count = LAYERS};
    CHECK_EQ(baton_geometry_layout(&c->geometry, c->tensors, layout), 0);
    CHECK(c->geometry.bytes <= POOL_BYTES / 2);
}

static uint64_t entry(const struct cache *c, uint32_t layer, uint32_t block, uint32_t plane, uint32_t head,
                      uint32_t token)
{
    const baton_tensor_t *t = &c->tensors[layer];
    return t->offset + (uint64_t)(block * t->stride.block + plane * t->stride.plane + head * t->stride.head +
                                  token * t->stride.token);
}

/* Puts into `pool` what the move must: the peer's entries where they were wanted. Walks entry by entry. */
static void expect(const struct cache *src, const struct cache *dst, uint32_t peer, const uint32_t *from,
                   const uint32_t *to, uint32_t tokens, uint8_t *pool)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t t = 0; t < tokens; t++)
            for (uint32_t p = 0; p < 2; p++)
                for (uint32_t h = 0; h < 4; h++)
                    for (uint32_t b = 0; b < 64; b++) {
                        uint32_t i = t / BLOCK_TOKENS, k = t % BLOCK_TOKENS;
                        pool[entry(dst, l, to[i], p, h, k) + b] = byte_at(peer, entry(src, l, from[i], p, h, k) + b);
                    }
}

/* Moves everything, chunk by chunk, while it answers others. */
static void move_all(struct fabric *f, struct port_leg *leg, uint64_t total)
{
    uint64_t taken = 0, moved = 0, deadline = clock_now_ns() + PATIENCE_NS;
    struct port_event events[EVENTS];
    while (moved < total && clock_now_ns() < deadline) {
        if (!plan_at_end(leg->transfer, leg->cursor)) {
            int64_t n = fabric_move(f, leg, 10000);
            CHECK((n > 0 && n <= 10000) || n == BATON_EAGAIN);
            taken += n > 0 ? (uint64_t)n : 0;
        }
        int came = fabric_progress(f, events, EVENTS);
        for (int i = 0; i < came; i++) {
            CHECK_EQ(events[i].kind, PORT_MOVED);
            CHECK_EQ(events[i].error, 0);
            CHECK_EQ(events[i].tag, leg->tag);
            CHECK(events[i].runs > 0);
            moved += events[i].moved;
        }
    }
    CHECK_EQ(taken, total);
    CHECK_EQ(moved, total);
    while (fabric_busy(f) > 0 && clock_now_ns() < deadline) /* on a busy machine a late peer was probed */
        CHECK_EQ(fabric_progress(f, events, EVENTS), 0);
    CHECK_EQ(fabric_busy(f), 0);
}

/* Until what was put is in place at the peer. Each rank answers others meanwhile. */
static void settle(struct fabric *f, uint32_t peer, uint64_t tag)
{
    uint64_t deadline = clock_now_ns() + PATIENCE_NS;
    int error = BATON_EAGAIN;
    struct port_event e = {0};
    while ((error == BATON_EAGAIN || e.kind == 0) && clock_now_ns() < deadline) {
        if (error == BATON_EAGAIN)
            error = fabric_settle(f, peer, tag);
        fabric_progress(f, &e, 1);
    }
    CHECK_EQ(error, 0);
    CHECK_EQ(e.kind, PORT_SETTLED);
    CHECK_EQ(e.error, 0);
    CHECK_EQ(e.tag, tag);
}

/* Every rank reads from its far peer, or writes to it: which is its far peer too, so what is expected is the same. */
static void move_between(struct fabric *f, bool write, unsigned src_layout, unsigned dst_layout)
{
    static const uint32_t from[] = {3, 4, 5, 17, 0, 9}, to[] = {11, 12, 13, 2, 3, 19};
    const uint32_t tokens = 5 * BLOCK_TOKENS + 7;
    struct plan_box all = {0, LAYERS, 0, 4};
    struct cache src, dst;
    struct plan *plan = NULL;
    struct plan_why why;
    struct plan_transfer *transfer = calloc(1, sizeof *transfer);
    struct plan_cursor cursor = {0};
    uint8_t *expected = malloc(POOL_BYTES);
    lay_out(&src, src_layout);
    lay_out(&dst, dst_layout);
    fill_pool(f);
    fabric_sync(f);
    meet(f);
    /* Every pool is read and written here: what is read lies in its first half, what is written in the other. */
    memcpy(expected, pool_of(f), POOL_BYTES);
    for (uint32_t l = 0; l < LAYERS; l++)
        dst.tensors[l].offset += POOL_BYTES / 2;
    dst.geometry.bytes = POOL_BYTES;
    expect(&src, &dst, far_peer(f), from, to, tokens, expected);
    CHECK_EQ(plan_compile(&src.geometry, &dst.geometry, &all, 1, &plan, &why), 0);
    plan_transfer_init(transfer, plan, tokens, from, to);
    struct port_leg leg = {far_peer(f), write, 42, transfer, &cursor, fabric_pool_offset(f), POOL_BYTES};
    move_all(f, &leg, transfer->bytes);
    if (write) {
        settle(f, leg.peer, 42);
        meet(f); /* a message after it: what the peer wrote here is in place */
        fabric_sync(f);
    } else {
        CHECK_EQ(fabric_read_word(f, leg.peer, FABRIC_META_OFFSET, 43), 0);
        CHECK_EQ(next_event(f).kind, PORT_BOARD);
    }
    CHECK(memcmp(pool_of(f), expected, POOL_BYTES) == 0);
    free(expected);
    free(transfer);
    plan_destroy(plan);
    meet(f);
}

static void move_all_ways(bool write)
{
    struct fabric *f = started();
    if (fabric_nodes(f) < 2)
        SKIP("one node");
    else {
        move_between(f, write, BATON_LAYOUT_NHD, BATON_LAYOUT_NHD);
        move_between(f, write, BATON_LAYOUT_HND, BATON_LAYOUT_NHD | BATON_LAYOUT_KV_BLOCK);
        move_between(f, write, BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR,
                     BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR);
    }
    closed(f);
}

static void reads_every_byte(void)
{
    move_all_ways(false);
}

static void writes_every_byte(void)
{
    move_all_ways(true);
}

/* As where a put's request says nothing of the other side: settled by flushes. */
static void writes_where_requests_are_local(void)
{
    struct settings before = settings;
    settings.rma_put = 2;
    move_all_ways(true);
    settings = before;
}

static void moves_with_one_run_a_request(void)
{
    struct settings before = settings;
    settings.rma_gets = 1;
    move_all_ways(false);
    move_all_ways(true);
    settings = before;
}

static void refuses_to_move_outside(void)
{
    struct fabric *f = started();
    static const uint32_t blocks[] = {19};
    struct plan_box all = {0, LAYERS, 0, 4};
    struct cache c;
    struct plan *plan = NULL;
    struct plan_why why;
    struct plan_cursor cursor = {0};
    struct plan_transfer *transfer = calloc(1, sizeof *transfer);
    lay_out(&c, BATON_LAYOUT_NHD | BATON_LAYOUT_BLOCK_MAJOR);
    CHECK_EQ(plan_compile(&c.geometry, &c.geometry, &all, 1, &plan, &why), 0);
    plan_transfer_init(transfer, plan, BLOCK_TOKENS, blocks, blocks);
    uint64_t end = fabric_segment_bytes(f, far_peer(f));
    struct port_leg leg = {far_peer(f), false, 1, transfer, &cursor, end - 100, c.geometry.bytes};
    int outside = fabric_nodes(f) < 2 ? BATON_EINVAL : BATON_EMESSAGE;
    CHECK_EQ(fabric_move(f, &leg, 1 << 20), outside);
    leg.pool_offset = UINT64_MAX - 5;
    CHECK_EQ(fabric_move(f, &leg, 1 << 20), outside);
    leg.pool_offset = fabric_pool_offset(f);
    leg.pool_bytes = c.geometry.bytes - 1; /* the last block's last run ends at the geometry's end */
    cursor.unit_done = transfer->bytes - 8;
    CHECK_EQ(fabric_move(f, &leg, 1 << 20), outside);
    cursor = (struct plan_cursor){0};
    CHECK(cursor.piece == 0 && cursor.block == 0 && cursor.unit_done == 0);
    CHECK_EQ(fabric_busy(f), 0);
    free(transfer);
    plan_destroy(plan);
    closed(f);
}

/* ---- a rank that does not come ----------------------------------------------------------------------------------- */

/* The last case: what it opened stays open in MPI. */
static void names_the_silent_rank(void)
{
    struct settings before = settings;
    if (harness.size == 1) {
        SKIP("one rank");
        return;
    }
    settings.start_ms = 1000;
    logger.level = LOG_NONE;
    struct fabric *f = opened();
    settings = before;
    if (harness.rank != harness.size - 1) {
        char name[32];
        CHECK_EQ(fabric_agree(f, "roll call", 0), BATON_ETIMEDOUT);
        CHECK_HAS(baton_errmsg(), "roll call");
        snprintf(name, sizeof name, "silent ranks: %d", harness.size - 1);
        if (harness.rank == 0)
            CHECK_HAS(baton_errmsg(), name);
        CHECK_EQ(fabric_agree(f, "after", 0), BATON_ETIMEDOUT);
    }
    CHECK_EQ(fabric_close(f, 1), BATON_EPEER);
}

int main(int argc, char **argv)
{
    harness_begin(&argc, &argv);
    if (settings_read(&settings, getenv) != 0) {
        fprintf(stderr, "%s\n", baton_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    logger = (struct logger){.level = (enum log_level)settings.log_level, .rank = harness.rank};
    RUN(opens_and_closes);
    RUN(agrees);
    RUN(agrees_on_what_was_wrong_before);
    RUN(fails_together_at_every_step);
    RUN(refuses_more_memory_than_there_is);
    RUN(opens_two_at_once);
    RUN(chooses_quirks);
    RUN(maps_the_segments_of_the_node);
    RUN(starts_without_a_pool);
    RUN(exchanges_rows);
    RUN(describes_itself);
    RUN(delivers_in_order);
    RUN(bounds_what_is_unconfirmed);
    RUN(refuses_bad_messages);
    RUN(leaves_nothing_behind);
    RUN(rings_the_bell_of_the_node);
    RUN(reads_a_piece);
    RUN(refuses_to_read_outside);
    RUN(bounds_reads_of_one_peer);
    RUN(parks_what_is_under_way);
    RUN(parks_a_silent_peer);
    RUN(reads_every_byte);
    RUN(writes_every_byte);
    RUN(writes_where_requests_are_local);
    RUN(moves_with_one_run_a_request);
    RUN(refuses_to_move_outside);
    RUN(names_the_silent_rank);
    return harness_end();
}
