/* SPDX-License-Identifier: BSD-3-Clause */
/* timeline: see timeline.h. */
#include "observe/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lockfile.h"
#include "base/latch.h"
#include "base/thread.h"
#include "observe/timeline_text.h"

#define PAUSE_NS (5 * CLOCK_NS_PER_MS)  /* between two looks at the circular buffer */
#define BUFFER_BYTES ((size_t)64 << 10) /* of one write */
#define END_BYTES 4096u                 /* of the file's limit that are kept for its last line */
#define LOWEST_NICE 19
#define END_NS (10 * CLOCK_NS_PER_S) /* how long the end waits for a file that takes nothing */

struct timeline {
    /* whoever makes turns */
    struct timeline_record *records; /* a circular buffer */
    uint64_t mask;
    _Atomic uint64_t head;    /* records added */
    uint64_t tail_seen;       /* what it knows of `tail` */
    _Atomic uint64_t dropped; /* records that found no room */
    uint32_t rank;
    /* the thread */
    _Atomic uint64_t tail;           /* records taken out */
    uint64_t left_out, dropped_told; /* left_out: the file was at its limit, or could not be written */
    uint64_t written, limit;         /* bytes */
    struct timeline_text text;
    int file;
    bool has_failed;
    size_t used;
    char *buffer;
    char *path;
    struct logger log; /* a copy: the thread may outlive the context */
    pthread_t thread;
    struct bell bell; /* rung at the end */
    struct latch ended;
    _Atomic bool stop;
    _Atomic bool is_left; /* the context did not wait for the thread, which logs nothing any more */
};

/* ---- adding ------------------------------------------------------------------------------------------------------ */

void timeline_add(struct timeline *t, const struct timeline_record *record)
{
    uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed);
    if (head - t->tail_seen > t->mask) {
        t->tail_seen = atomic_load_explicit(&t->tail, memory_order_acquire); /* the places before it have been read */
        if (head - t->tail_seen > t->mask) {
            atomic_fetch_add_explicit(&t->dropped, 1, memory_order_relaxed);
            return;
        }
    }
    t->records[head & t->mask] = *record;
    atomic_store_explicit(&t->head, head + 1, memory_order_release); /* publishes the record */
}

void timeline_add_call(struct timeline *t, enum timeline_kind kind, uint64_t ns, uint64_t id, const char *key)
{
    struct timeline_record r = {.kind = (uint8_t)kind, .ns = ns, .id = id};
    memcpy(r.key, key, strnlen(key, sizeof r.key - 1));
    timeline_add(t, &r);
}

void timeline_add_message(struct timeline *t, enum timeline_kind kind, uint32_t peer, uint32_t number, uint64_t want,
                          const char *name)
{
    uint64_t from = kind == TIMELINE_SENT ? t->rank : peer, to = kind == TIMELINE_SENT ? peer : t->rank;
    timeline_add(t, &(struct timeline_record){.kind = (uint8_t)kind,
                                              .ns = clock_now_ns(),
                                              .id = from << 48 ^ to << 32 ^ number,
                                              .peer = peer,
                                              .name = name,
                                              .want = want});
}

void timeline_add_life(struct timeline *t, uint64_t life)
{
    if (t != NULL)
        timeline_add(t, &(struct timeline_record){.kind = TIMELINE_LIFE, .ns = clock_now_ns(), .id = life});
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* After an error nothing more is written. */
static void flush(struct timeline *t)
{
    size_t done = 0;
    while (done < t->used && !t->has_failed) {
        ssize_t n = write(t->file, t->buffer + done, t->used - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            const int error = errno;
            if (!atomic_load_explicit(&t->is_left, memory_order_acquire))
                log_each(&t->log, LOG_ERROR, "the timeline %s ends here, since it cannot be written: %s", t->path,
                         strerror(error));
            t->has_failed = true;
        }
    }
    t->written += done;
    t->used = 0;
}

/* Room for the lines of a record; NULL: the file is at its limit, or has failed. */
static char *room(struct timeline *t)
{
    if (t->used + TIMELINE_TEXT_MAX > BUFFER_BYTES)
        flush(t);
    bool is_full = t->written + t->used + TIMELINE_TEXT_MAX + END_BYTES > t->limit;
    return is_full || t->has_failed ? NULL : t->buffer + t->used;
}

static uint64_t all_dropped(const struct timeline *t)
{
    return atomic_load_explicit(&t->dropped, memory_order_relaxed) + t->left_out;
}

/* Says where in time records are missing. */
static void tell_dropped(struct timeline *t)
{
    uint64_t dropped = all_dropped(t);
    char *at = dropped != t->dropped_told ? room(t) : NULL;
    if (at == NULL)
        return;
    t->used += timeline_text_dropped(&t->text, clock_now_ns(), dropped, true, at);
    t->dropped_told = dropped;
}

static void drain(struct timeline *t)
{
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire); /* pairs with the store of timeline_add */
    for (; tail < head; tail++) {
        char *at = room(t);
        if (at != NULL)
            t->used += timeline_text_record(&t->text, &t->records[tail & t->mask], at);
        else
            t->left_out++;
        atomic_store_explicit(&t->tail, tail + 1, memory_order_release); /* its place was read */
    }
    tell_dropped(t);
    flush(t);
}

static void end_file(struct timeline *t)
{
    uint64_t dropped = all_dropped(t);
    t->used = timeline_text_dropped(&t->text, clock_now_ns(), dropped, false, t->buffer);
    flush(t);
    if (dropped > 0 && !atomic_load_explicit(&t->is_left, memory_order_acquire))
        log_each(&t->log, LOG_WARN, "the timeline %s lacks %" PRIu64 " records: it was full, or they came too fast",
                 t->path, dropped);
}

static void *timeline_main(void *arg)
{
    struct timeline *t = arg;
    setpriority(PRIO_PROCESS, 0, LOWEST_NICE); /* of this thread alone; where CPUs are busy, it gets 1.5 % of one */
    for (;;) {
        uint32_t seen = bell_read(&t->bell);
        bool stop = atomic_load_explicit(&t->stop, memory_order_acquire);
        drain(t);
        if (stop)
            break;
        bell_sleep(&t->bell, seen, PAUSE_NS);
    }
    end_file(t);
    latch_open(&t->ended);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* The path of this rank's file. NULL: no memory. */
static char *path_of(const char *pattern, uint32_t rank)
{
    const char *mark = strstr(pattern, "%r");
    char *path = NULL;
    int rc = mark == NULL ? asprintf(&path, "%s.%" PRIu32, pattern, rank)
                          : asprintf(&path, "%.*s%" PRIu32 "%s", (int)(mark - pattern), pattern, rank, mark + 2);
    return rc < 0 ? NULL : path;
}

/* It is held, which keeps contexts of one world rank apart: their files have one name. */
static int open_file(struct timeline *t)
{
    t->file = lockfile_make_anyway(t->path);
    if (t->file >= 0)
        return 0;
    return error_set(BATON_ESYSTEM, "the timeline %s cannot be made: %s", t->path,
                     errno == EEXIST ? lockfile_why(t->path) : strerror(errno));
}

static void read_boot(char *boot, size_t size)
{
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "re");
    boot[0] = '\0'; /* not known: then it is a machine of its own */
    if (in == NULL)
        return;
    if (fgets(boot, (int)size, in) != NULL)
        boot[strcspn(boot, "\n")] = '\0';
    fclose(in);
}

static void begin_file(struct timeline *t, const struct timeline_wish *wish)
{
    char boot[64];
    struct timespec ts;
    read_boot(boot, sizeof boot);
    uint64_t ns = clock_now_ns();
    clock_gettime(CLOCK_REALTIME, &ts);
    uint64_t realtime_ns = (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
    t->used = timeline_text_begin(wish, boot, ns, realtime_ns, t->buffer);
    flush(t);
}

static void timeline_free(struct timeline *t)
{
    if (t->file >= 0)
        lockfile_drop(t->file);
    free(t->records);
    free(t->buffer);
    free(t->path);
    free(t);
}

int timeline_create(const struct timeline_wish *wish, struct timeline **out)
{
    struct timeline *t = calloc(1, sizeof *t);
    if (t == NULL)
        return error_set(BATON_ENOMEM, "no memory for a timeline");
    t->file = -1;
    t->mask = wish->records - 1;
    t->rank = t->text.rank = wish->rank;
    t->limit = wish->bytes;
    t->log = *wish->log;
    t->log.limits = NULL;
    t->path = path_of(wish->path, wish->rank);
    t->buffer = malloc(BUFFER_BYTES);
    t->records = aligned_alloc(sizeof *t->records, wish->records * sizeof *t->records);
    bell_init(&t->bell);
    latch_init(&t->ended);
    bool has_memory = t->path != NULL && t->buffer != NULL && t->records != NULL;
    int rc = has_memory ? open_file(t) : error_set(BATON_ENOMEM, "no memory for a timeline");
    if (rc == 0) {
        memset(t->records, 0, wish->records * sizeof *t->records); /* its pages are there before the first turn */
        begin_file(t, wish);
        if (thread_start(&t->thread, "baton-timeline", wish->cpus, timeline_main, t) != 0)
            rc = error_set(BATON_ESYSTEM, "the timeline's thread could not be made");
    }
    if (rc != 0) {
        timeline_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void timeline_forget(struct timeline *t)
{
    if (t == NULL || t->file < 0)
        return;
    close(t->file); /* the lock stays: it is the parent's too */
    t->file = -1;
}

void timeline_destroy(struct timeline *t)
{
    if (t == NULL)
        return;
    atomic_store_explicit(&t->stop, true, memory_order_release);
    bell_ring(&t->bell);
    if (latch_wait(&t->ended, clock_now_ns() + END_NS)) {
        pthread_join(t->thread, NULL);
        timeline_free(t);
    } else { /* the thread still uses all of it, but for the log, which is the engine's again */
        atomic_store_explicit(&t->is_left, true, memory_order_release);
        log_each(&t->log, LOG_ERROR, "the timeline %s is left unfinished: its file takes nothing", t->path);
    }
}
