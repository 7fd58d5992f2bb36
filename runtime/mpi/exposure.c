/* SPDX-License-Identifier: BSD-3-Clause */
/* exposure: see exposure.h. */
#include "mpi/exposure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/textbuf.h"
#include "mpi/mpi_error.h"
#include "mpi/windows.h"

static struct exposure_span span_of(const struct path_regions *mine)
{
    struct exposure_span span = {0, 0, 0};
    for (uint32_t i = 0; i < mine->num; i++) {
        const struct path_region *r = &mine->region[i];
        if (r->is_device)
            continue;
        span.begin = span.end > 0 ? span.begin : r->at;
        span.end = r->at + r->bytes;
    }
    for (uint32_t i = 0; i < mine->num; i++)
        span.has_device |=
            mine->region[i].is_device && mine->region[i].at > span.begin && mine->region[i].at < span.end;
    return span;
}

static int no_window(int rc)
{
    return mpi_error_set(BATON_EWINDOW, "MPI_Win_create over an engine's memory", rc);
}

static int create(struct exposure *e, struct world *w, uint64_t at, uint64_t bytes)
{
    MPI_Win *win = &e->windows[e->num];
    int error = windows_create(w, (void *)(uintptr_t)at, bytes, "a window over engines' memory", no_window, win);
    e->num += *win != MPI_WIN_NULL; /* all ranks have it, even if one cannot use it */
    return error;
}

static void free_all(struct exposure *e, struct world *w)
{
    struct watchdog dog;
    steps_watch(&w->steps, &dog, "free the windows over engines' memory");
    while (e->num > 0)
        windows_release(&e->windows[--e->num], "a window over an engine's memory", w->log);
    watchdog_stop(&dog);
    e->way = EXPOSURE_NONE;
}

/* ---- over the span ----------------------------------------------------------------------------------------------- */

/* Reads the first and the last byte of the span of the next rank of another node that has one. */
static int try_span(struct exposure *e, const struct world *w)
{
    const struct exposure_span *spans = e->spans;
    for (int i = 1; i < w->size; i++) {
        int peer = (w->rank + i) % w->size;
        if (w->node_of[peer] == w->node_of[w->rank] || spans[peer].end == 0)
            continue;
        int rc = MPI_SUCCESS;
        for (int k = 0; k < 2 && rc == MPI_SUCCESS; k++) {
            MPI_Aint at = k == 0 ? 0 : (MPI_Aint)(spans[peer].end - spans[peer].begin - 1);
            rc = MPI_Get(&e->ends[k], 1, MPI_BYTE, peer, at, 1, MPI_BYTE, e->windows[0]);
        }
        if (rc == MPI_SUCCESS)
            rc = MPI_Win_flush(peer, e->windows[0]);
        return rc == MPI_SUCCESS
                   ? 0
                   : mpi_error_set(BATON_EWINDOW, "a read through the window over an engine's memory", rc);
    }
    return 0;
}

static int agree_on_span(struct exposure *e, struct world *w)
{
    static const char step[] = "read through the window over engines' memory";
    struct watchdog dog;
    steps_watch(&w->steps, &dog, step);
    int local = try_span(e, w);
    watchdog_stop(&dog);
    return steps_agree(&w->steps, step, local);
}

static int open_span(struct exposure *e, struct world *w)
{
    const struct exposure_span *mine = &e->spans[w->rank];
    int error = create(e, w, mine->begin, mine->end - mine->begin);
    if (error == 0)
        error = agree_on_span(e, w);
    if (error == 0)
        e->way = EXPOSURE_SPAN;
    else if (!w->steps.is_lost)
        free_all(e, w);
    return error;
}

/* ---- one a region ------------------------------------------------------------------------------------------------ */

/* How many regions have windows: those up to the last one that is no device's. */
static int count_exposed(const struct path_regions *mine)
{
    uint32_t num = mine->num;
    while (num > 0 && mine->region[num - 1].is_device)
        num--;
    return (int)num;
}

static int open_each(struct exposure *e, struct world *w, const struct path_regions *mine)
{
    const int own[2] = {-count_exposed(mine), 0};
    int least[2];
    int error = steps_least(&w->steps, "number of regions", own, least);
    if (error)
        return error;
    if (-least[0] > EXPOSURE_WINDOWS)
        return error_set(BATON_EWINDOW, "a rank has %d regions, more than %d: let them touch each other", -least[0],
                         EXPOSURE_WINDOWS);
    for (int i = 0; i < -least[0] && error == 0; i++) {
        bool has = i < (int)mine->num && !mine->region[i].is_device;
        error = create(e, w, has ? mine->region[i].at : 0, has ? mine->region[i].bytes : 0);
    }
    if (error == 0)
        e->way = EXPOSURE_EACH;
    else if (!w->steps.is_lost)
        free_all(e, w);
    return error;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void add_reason(struct exposure *e, const char *why)
{
    struct textbuf out = {e->why, sizeof e->why, (int)strlen(e->why)};
    textbuf_print(&out, "%s%s", out.length > 0 ? "; " : "", why);
}

/* Which rank has a device's memory between its regions, the first. -1: none. */
static int find_device(const struct exposure *e, const struct world *w)
{
    int r = 0;
    while (r < w->size && e->spans[r].has_device == 0)
        r++;
    return r < w->size ? r : -1;
}

static int try_one_over_all(struct exposure *e, struct world *w)
{
    const int other = find_device(e, w);
    if (w->settings.windows >= 2)
        return error_set(BATON_EWINDOW, "BATON_TUNE=windows forbids one window over all");
    if (other >= 0)
        return error_set(BATON_EWINDOW, "rank %d has a device's memory between its regions", other);
    return open_span(e, w);
}

/* 0 also where neither way works: such memory is then staged. */
static int open_either(struct exposure *e, struct world *w, const struct path_regions *mine)
{
    int error = try_one_over_all(e, w);
    if (error == 0 || w->steps.is_lost)
        return error;
    add_reason(e, baton_errmsg());
    error = w->settings.windows == 3 ? error_set(BATON_EWINDOW, "and one for each region") : open_each(e, w, mine);
    if (error == 0 || w->steps.is_lost)
        return error;
    add_reason(e, baton_errmsg());
    if (w->rank == 0)
        log_line(w->log, LOG_WARN, "memory that engines own cannot be exposed to other nodes, and is staged: %s",
                 e->why);
    return 0;
}

int exposure_open(struct exposure *e, struct world *w, const struct path_regions *mine)
{
    const struct exposure_span own = span_of(mine);
    e->spans = calloc((size_t)w->size, sizeof *e->spans);
    int local = e->spans != NULL ? 0 : error_set(BATON_ENOMEM, "no memory for %d spans", w->size);
    int error = steps_agree(&w->steps, "table of spans", local);
    if (error == 0)
        error = steps_allgather(&w->steps, "spans of engines' memory", &own, sizeof own, e->spans);
    return error == 0 ? open_either(e, w, mine) : error;
}

void exposure_close(struct exposure *e, struct world *w)
{
    free_all(e, w);
    free(e->spans);
    e->spans = NULL;
}

MPI_Win exposure_place(const struct exposure *e, uint32_t rank, const struct path_regions *theirs, uint32_t region,
                       uint64_t offset, uint64_t *displacement)
{
    const struct path_region *r = &theirs->region[region];
    const struct exposure_span *span = &e->spans[rank];
    if (r->is_device)
        return MPI_WIN_NULL;
    if (e->way == EXPOSURE_EACH && region < (uint32_t)e->num) {
        *displacement = offset;
        return e->windows[region];
    }
    if (e->way != EXPOSURE_SPAN || r->at < span->begin || r->at > span->end || r->bytes > span->end - r->at)
        return MPI_WIN_NULL;
    *displacement = r->at - span->begin + offset;
    return e->windows[0];
}
