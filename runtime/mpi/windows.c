/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows: checks memory, then creates, populates and maps the segments. The ranks agree after each step, so that where
 * one fails all undo what was done, and none waits alone in a call. Never creates dynamic windows, and never uses
 * window info that changes what passive calls may do: implementations differ too much in both.
 */
#include "mpi/windows.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "core/ground.h"
#include "memory/huge.h"
#include "mpi/mpi_error.h"
#include "mpi/quirks.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define ALIGNMENT HUGE_BYTES
#define BYTES_MAX (UINT64_C(1) << 46) /* more is a mistake; sums of so much stay far from overflow */
#define MIB(bytes) ((double)(bytes) / (1 << 20))

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* What is asked of MPI. With room to align by hand: Open MPI aligns the parts of a shared window to 8 bytes only. */
static uint64_t asked_bytes(const struct windows *v)
{
    return round_up(v->segment_bytes, ALIGNMENT) + ALIGNMENT;
}

uint8_t windows_pattern(uint32_t rank, uint32_t at)
{
    uint32_t x = rank * UINT32_C(2654435761) ^ at * UINT32_C(2246822519);
    x ^= x >> 15;
    x *= UINT32_C(3266489917);
    return (uint8_t)(x >> 16);
}

/* ---- is there room ----------------------------------------------------------------------------------------------- */

static int lay_out(struct windows *v, const struct world_segment *wish)
{
    if (wish->meta_bytes > BYTES_MAX || wish->pool_bytes > BYTES_MAX)
        return error_set(BATON_EINVAL, "a segment of %" PRIu64 " + %" PRIu64 " bytes is too large", wish->meta_bytes,
                         wish->pool_bytes);
    uint64_t meta_end = round_up(GROUND_META_OFFSET + wish->meta_bytes, 4096);
    v->pool_offset = wish->pool_bytes ? round_up(meta_end, ALIGNMENT) : meta_end;
    v->pool_bytes = wish->pool_bytes;
    v->segment_bytes = round_up(v->pool_offset + wish->pool_bytes, 4096);
    return 0;
}

static int check_shm(const struct world *w, uint64_t needed)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0)
        return 0; /* MPI keeps shared memory elsewhere, and populating finds out */
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (needed <= room)
        return 0;
    return error_set(BATON_ESHM,
                     "the %d ranks of this host need %.0f MiB of shared memory, /dev/shm has %.0f MiB free of %.0f: "
                     "enlarge it (docker run --shm-size, or mount -o remount,size=) or give the caches fewer blocks",
                     w->host_size, MIB(needed), MIB(room), MIB((uint64_t)fs.f_blocks * fs.f_frsize));
}

static int check_limit(const struct world *w, uint64_t needed, uint64_t limit)
{
    if (limit == 0 || needed <= limit)
        return 0;
    return error_set(
        BATON_ESHM,
        "the %d ranks of this host need %.0f MiB for their caches, the memory limit is %.0f MiB: raise the "
        "limit of the job or container, or give the caches fewer blocks",
        w->host_size, MIB(needed), MIB(limit));
}

/*
 * Too little shared memory must be an error now: later it would be a SIGBUS at the first touch. A node of one rank does
 * not need /dev/shm, since MPI then allocates from the heap.
 */
static int check_room(const struct windows *v, struct world *w, uint64_t limit)
{
    uint64_t *mine = w->steps.sums_in, *all = w->steps.sums_out;
    mine[0] = w->node_size > 1 ? asked_bytes(v) : 0;
    mine[1] = asked_bytes(v);
    MPI_Request request;
    int error = steps_begin(&w->steps, "sum of memory");
    if (error)
        return error;
    int rc = MPI_Iallreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, w->host, &request);
    error = steps_finish(&w->steps, "sum of memory", rc, &request);
    if (error)
        return error;
    int local = check_shm(w, all[0]);
    if (local == 0)
        local = check_limit(w, all[1], limit);
    return steps_agree(&w->steps, "room for the segments", local);
}

/* ---- a window ---------------------------------------------------------------------------------------------------- */

/* Two windows over the same bytes, and loads and stores beside MPI, are sound in the unified memory model only. */
static int check_model(MPI_Win win, const char *which)
{
    int *model = NULL, is_there = 0;
    int rc = MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &is_there);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EWINDOW, "MPI_Win_get_attr(MPI_WIN_MODEL)", rc);
    if (is_there && *model == MPI_WIN_UNIFIED)
        return 0;
    return error_set(
        BATON_EWINDOW,
        "%s does not have the unified memory model (MPI_WIN_MODEL), which Baton needs: choose another one-sided "
        "component (Open MPI: OMPI_MCA_osc)",
        which);
}

/*
 * MPI may wait for other ranks here: the caller has a watchdog.
 *
 * Open MPI raises the errors of RMA requests on their window (its request carries the window: osc/ucx, osc/rdma), so
 * only the window's handler is set. Other implementations may raise them on MPI_COMM_SELF, which belongs to the caller.
 */
static int make_ready(MPI_Win win, const char *which)
{
    char call[64];
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    snprintf(call, sizeof call, "MPI_Win_lock_all on %s", which);
    int rc = MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    return rc == MPI_SUCCESS ? check_model(win, which) : mpi_error_set(BATON_EWINDOW, call, rc);
}

/* Freeing is collective: a window that some ranks do not have can never be freed by the others. */
static int agree(struct world *w, const char *step, int local, MPI_Win *win)
{
    bool everywhere = false;
    int error = steps_agree(&w->steps, step, local);
    if (error == 0 || w->steps.is_lost)
        return error;
    int failed = steps_unanimous(&w->steps, "is the window everywhere", *win != MPI_WIN_NULL, &everywhere);
    if (failed || everywhere)
        return failed ? failed : error;
    if (*win != MPI_WIN_NULL)
        log_line(w->log, LOG_WARN, "step '%s' failed on some ranks only: the window stays until the process ends",
                 step);
    *win = MPI_WIN_NULL;
    return error;
}

int windows_create(struct world *w, void *base, uint64_t bytes, const char *which, int (*none)(int rc), MPI_Win *win)
{
    struct watchdog dog;
    char step[64];
    snprintf(step, sizeof step, "create %s", which);
    steps_watch(&w->steps, &dog, step);
    int rc = MPI_Win_create(base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, w->comm, win);
    int local = rc == MPI_SUCCESS ? make_ready(*win, which) : none(rc);
    watchdog_stop(&dog);
    if (rc != MPI_SUCCESS)
        *win = MPI_WIN_NULL;
    return agree(w, step, local, win);
}

/* ---- the shared window ------------------------------------------------------------------------------------------- */

/* Memory of a node of one rank may be the heap's, which gets huge pages where it lies. */
static void no_huge(struct windows *v, const char *why)
{
    v->has_huge = false;
    snprintf(v->why_small, sizeof v->why_small, "%s", why);
}

/* Where my segment begins: in my part of the window as MPI mapped it, or in another mapping of it (memory/huge.h). */
static void place_segment(struct windows *v, const struct world *w)
{
    v->slack = round_up((uintptr_t)v->allocated, ALIGNMENT) - (uintptr_t)v->allocated;
    v->segment = v->allocated + v->slack;
    if (w->settings.huge_pages == 0) {
        no_huge(v, "not asked for, BATON_TUNE=huge_pages=0");
        return;
    }
    const uint64_t slack = huge_offset(v->allocated);
    uint8_t *again = slack < HUGE_BYTES ? huge_map(v->allocated + slack, v->segment_bytes) : NULL;
    v->has_huge = again != NULL;
    if (again == NULL) {
        no_huge(v,
                slack < HUGE_BYTES ? strerror(errno) : "this rank is alone on its node, and its memory is MPI's own");
        return;
    }
    v->slack = slack;
    v->segment = again;
}

/* The info object of the shared window. 0 or BATON_EMPI. */
static int describe_shared(MPI_Info *info)
{
    int rc = MPI_Info_create(info);
    if (rc == MPI_SUCCESS)
        rc = MPI_Info_set(*info, "alloc_shared_noncontig", "true"); /* each rank's pages are near its NUMA node */
    return rc == MPI_SUCCESS ? 0 : mpi_error_set(BATON_EMPI, "describing the shared window", rc);
}

static int no_shared(int rc)
{
    return mpi_error_set(BATON_EWINDOW, "MPI_Win_allocate_shared (Open MPI: is the component osc/sm excluded?)", rc);
}

static int create_shared(struct windows *v, struct world *w, MPI_Info info)
{
    struct watchdog dog;
    steps_watch(&w->steps, &dog, "create the shared window");
    int rc = MPI_Win_allocate_shared((MPI_Aint)asked_bytes(v), 1, info, w->node, &v->allocated, &v->shared);
    int local = rc == MPI_SUCCESS ? make_ready(v->shared, "the shared window") : no_shared(rc);
    watchdog_stop(&dog);
    if (rc != MPI_SUCCESS) {
        v->shared = MPI_WIN_NULL;
    } else {
        place_segment(v, w);
        v->pool = (struct path_region){(uint64_t)(uintptr_t)v->segment + v->pool_offset, v->pool_bytes, false};
        v->mine = (struct path_regions){.num = 1, .region = &v->pool};
    }
    return agree(w, "create the shared window", local, &v->shared);
}

static void touch(uint8_t *base, uint64_t bytes, uint64_t page)
{
    for (uint64_t at = 0; at < bytes; at += page)
        *(volatile uint8_t *)(base + at) = 0;
}

/*
 * Gives every page of my segment its memory now, on my NUMA node, so that no rank meets a page fault, or a SIGBUS,
 * later. The segment begins and ends at a page's boundary.
 */
static int populate(struct windows *v, const struct world_segment *wish, const struct logger *log)
{
    int rc;
    if (madvise(v->segment, v->segment_bytes, MADV_HUGEPAGE) != 0)
        log_line(log, LOG_DEBUG, "no huge pages for the segment: %s", strerror(errno));
    if (wish->bind_pages != NULL)
        wish->bind_pages(v->segment, v->segment_bytes, wish->bind_arg);
    if (v->has_huge && !huge_fill(v->segment, v->segment_bytes))
        no_huge(v, strerror(errno)); /* of the kernel's small pages, some at least */
    do
        rc = madvise(v->segment, v->segment_bytes, MADV_POPULATE_WRITE);
    while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    if (rc != 0 && errno == EINVAL) { /* an older kernel: check_room was the only guard */
        touch(v->segment, v->segment_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
        rc = 0;
    }
    if (rc != 0)
        return error_set(BATON_ESHM,
                         "the system has no memory for a segment of %.0f MiB (%s): free some, raise the job's limit or "
                         "give the cache fewer blocks",
                         MIB(v->segment_bytes), strerror(errno));
    return 0;
}

/* The process that owns a segment. Process ids mean something only within one namespace. */
struct process {
    uint64_t id, name_space; /* 0: not known */
};

static struct process process_self(void)
{
    struct stat s;
    if (stat("/proc/self/ns/pid", &s) != 0)
        return (struct process){0};
    return (struct process){(uint64_t)getpid(), (uint64_t)s.st_ino};
}

static struct windows_library library_self(void)
{
    struct windows_library own = {.magic = WINDOWS_LIBRARY_MAGIC};
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    snprintf(own.name, sizeof own.name, "%.*s", (int)strcspn(text, "\n,"), text);
    return own;
}

static void write_first_page(const struct windows *v, uint32_t rank)
{
    _Static_assert(WINDOWS_LIBRARY_OFFSET + sizeof(struct windows_library) <= WINDOWS_PATTERN_OFFSET, "there is room");
    bell_init((struct bell *)v->segment);
    *(struct process *)(v->segment + WINDOWS_PROCESS_OFFSET) = process_self();
    *(struct windows_library *)(v->segment + WINDOWS_LIBRARY_OFFSET) = library_self();
    for (uint32_t at = 0; at < WINDOWS_PATTERN_BYTES; at++)
        v->segment[WINDOWS_PATTERN_OFFSET + at] = windows_pattern(rank, at);
    windows_sync(v);
}

/* ---- finding the others' segments -------------------------------------------------------------------------------- */

static bool pattern_is_there(const uint8_t *segment, uint32_t rank)
{
    for (uint32_t at = 0; at < WINDOWS_PATTERN_BYTES; at++)
        if (segment[WINDOWS_PATTERN_OFFSET + at] != windows_pattern(rank, at))
            return false;
    return true;
}

/* A segment of this node, mapped by MPI at `at`: mine as it is, another where huge pages fit if they do for mine. */
static uint8_t *map_again(struct windows *v, bool is_mine, struct windows_segment *s, uint8_t *at)
{
    if (is_mine)
        return v->segment;
    uint8_t *again = v->has_huge && huge_offset(at) == 0 ? huge_map(at, s->bytes) : NULL;
    s->is_again = again != NULL;
    return again != NULL ? again : at;
}

/* `slack`: the bytes from the beginning of the owner's part of the window to its aligned segment. */
static int map_one(struct windows *v, int node_rank, uint32_t rank, uint64_t slack)
{
    MPI_Aint bytes = 0;
    int unit = 0;
    uint8_t *base = NULL;
    int rc = MPI_Win_shared_query(v->shared, node_rank, &bytes, &unit, &base);
    if (rc != MPI_SUCCESS)
        return mpi_error_set(BATON_EWINDOW, "MPI_Win_shared_query", rc);
    if (slack > (uint64_t)bytes || v->segments[rank].bytes > (uint64_t)bytes - slack)
        return error_set(BATON_EWINDOW, "rank %" PRIu32 "'s segment does not fit into its part of the shared window",
                         rank);
    if (!pattern_is_there(base + slack, rank))
        return error_set(BATON_EWINDOW, "rank %" PRIu32 "'s segment is not where the shared window says", rank);
    v->segments[rank].mapped = map_again(v, base + slack == v->allocated + v->slack, &v->segments[rank], base + slack);
    return 0;
}

static int map_node(struct windows *v, struct world *w, const uint64_t (*told)[2])
{
    int *ranks = calloc((size_t)w->node_size, sizeof *ranks);
    int error = ranks != NULL ? world_of_node(w, w->node_size, ranks)
                              : error_set(BATON_ENOMEM, "no memory for the node's %d ranks", w->node_size);
    for (int i = 0; i < w->node_size && error == 0; i++)
        error = map_one(v, i, (uint32_t)ranks[i], told[ranks[i]][1]);
    free(ranks);
    return error;
}

/* Each rank learns the lengths of all segments, and maps those of its node. */
static int find_segments(struct windows *v, struct world *w)
{
    uint64_t mine[2] = {v->segment_bytes, v->slack};
    uint64_t(*told)[2] = calloc((size_t)w->size, sizeof *told);
    v->segments = calloc((size_t)w->size, sizeof *v->segments);
    int local = told != NULL && v->segments != NULL
                    ? 0
                    : error_set(BATON_ENOMEM, "no memory for the table of %d segments", w->size);
    int error = steps_agree(&w->steps, "table of segments", local);
    if (error == 0)
        error = steps_allgather(&w->steps, "lengths of the segments", mine, sizeof mine, told);
    if (error && w->steps.is_lost)
        return error; /* MPI may still write into `told` */
    if (error == 0) {
        windows_sync(v); /* what the owners stored, before my loads of it */
        for (int r = 0; r < w->size; r++)
            v->segments[r].bytes = told[r][0];
        error = steps_agree(&w->steps, "map the node's segments", map_node(v, w, (const uint64_t(*)[2])told));
    }
    free(told);
    return error;
}

/* ---- the overlay ------------------------------------------------------------------------------------------------- */

static int no_overlay(int rc)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(library, &length);
    return error_set(BATON_EWINDOW,
                     "MPI_Win_create over all nodes failed (MPI error %d): no usable one-sided component: %s", rc,
                     quirks_remedy(library));
}

static int create_overlay(struct windows *v, struct world *w)
{
    if (w->nodes < 2)
        return 0;
    return windows_create(w, v->segment, v->segment_bytes, "the window over all nodes", no_overlay, &v->overlay);
}

static void name_window(MPI_Win win, char *name)
{
    int length = 0;
    name[0] = '\0';
    if (win != MPI_WIN_NULL && MPI_Win_get_name(win, name, &length) != MPI_SUCCESS)
        name[0] = '\0';
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

int windows_open(struct windows *v, struct world *w, const struct world_segment *wish)
{
    v->shared = v->overlay = MPI_WIN_NULL;
    MPI_Info info = MPI_INFO_NULL;
    int laid_out = lay_out(v, wish);
    if (laid_out == 0)
        laid_out = describe_shared(&info);
    int error = steps_agree(&w->steps, "layout of the segment", laid_out);
    if (error == 0)
        error = check_room(v, w, wish->memory_limit);
    if (error == 0)
        error = create_shared(v, w, info);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    if (error == 0) {
        int local = populate(v, wish, w->log);
        if (local == 0)
            write_first_page(v, (uint32_t)w->rank);
        error = steps_agree(&w->steps, "populate the segment", local);
    }
    if (error == 0)
        error = find_segments(v, w);
    if (error == 0)
        error = create_overlay(v, w);
    if (error) {
        if (!w->steps.is_lost)
            windows_close(v, w);
        return error;
    }
    name_window(v->shared, v->shared_name);
    name_window(v->overlay, v->overlay_name);
    return 0;
}

void windows_release(MPI_Win *win, const char *which, const struct logger *log)
{
    if (*win == MPI_WIN_NULL)
        return;
    int rc = MPI_Win_unlock_all(*win);
    if (rc != MPI_SUCCESS)
        log_line(log, LOG_WARN, "MPI_Win_unlock_all on %s failed: MPI error %d", which, rc);
    rc = MPI_Win_free(win);
    if (rc != MPI_SUCCESS)
        log_line(log, LOG_WARN, "MPI_Win_free of %s failed: MPI error %d", which, rc);
    *win = MPI_WIN_NULL;
}

void windows_close_overlay(struct windows *v, struct world *w)
{
    struct watchdog dog;
    exposure_close(&v->exposure, w);
    steps_watch(&w->steps, &dog, "free the window over all nodes");
    windows_release(&v->overlay, "the window over all nodes", w->log);
    watchdog_stop(&dog);
}

/* What was mapped beside MPI's own mapping. */
static void unmap(struct windows *v, const struct world *w)
{
    for (int r = 0; v->segments != NULL && r < w->size; r++)
        if (v->segments[r].is_again)
            huge_unmap(v->segments[r].mapped, v->segments[r].bytes);
    if (v->segment != NULL && v->segment != v->allocated + v->slack)
        huge_unmap(v->segment, v->segment_bytes);
}

void windows_close(struct windows *v, struct world *w)
{
    struct watchdog dog;
    windows_close_overlay(v, w); /* before the memory beneath it goes */
    steps_watch(&w->steps, &dog, "free the shared window");
    unmap(v, w);
    windows_release(&v->shared, "the shared window", w->log);
    watchdog_stop(&dog);
    free(v->segments);
    v->segments = NULL;
    v->segment = v->allocated = NULL;
}

/* ---- the reactor's ----------------------------------------------------------------------------------------------- */

void windows_sync(const struct windows *v)
{
    if (v->shared != MPI_WIN_NULL)
        MPI_Win_sync(v->shared);
    if (v->overlay != MPI_WIN_NULL)
        MPI_Win_sync(v->overlay);
    for (int i = 0; i < v->exposure.num; i++)
        MPI_Win_sync(v->exposure.windows[i]);
    /*
     * Some components only poll in MPI_Win_sync. The fence orders my loads and stores before it against those after it.
     */
    atomic_thread_fence(memory_order_seq_cst);
}

int windows_process(const struct windows *v, uint32_t rank)
{
    const struct process mine = *(const struct process *)(v->segment + WINDOWS_PROCESS_OFFSET);
    if (v->segments[rank].mapped == NULL)
        return 0;
    const struct process p = *(const struct process *)(v->segments[rank].mapped + WINDOWS_PROCESS_OFFSET);
    return p.name_space == mine.name_space && p.id > 0 && p.id <= INT_MAX ? (int)p.id : 0;
}

struct bell *windows_bell(const struct windows *v, uint32_t rank)
{
    return (struct bell *)v->segments[rank].mapped;
}
