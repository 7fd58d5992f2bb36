/* SPDX-License-Identifier: BSD-3-Clause */
/* quirks: the table, and the choice of a row. */
#include "mpi/quirks.h"

#include <stdio.h>
#include <string.h>

#define VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

/* When a row is chosen, and what it then says. */
struct row {
    const char *library;  /* how the version string begins; NULL: any */
    int from, below;      /* the versions v with from <= v < below */
    const char *window;   /* how the overlay's name begins; NULL: any */
    struct quirks quirks; /* but for the library's name */
};

/* The first row that fits is chosen, so a special row stands before a general one. */
static const struct row rows[] = {
    /*
     * osc/ucx of 4.x completes a request by a fetching atomic behind a worker fence (osc_ucx_comm.c), so the request
     * also covers the gets before it and the remote side of puts. That atomic makes each MPI_Rget cost as much as
     * several gets. A blocking flush comes inside any put or get after OSC_UCX_OPS_THRESHOLD (1,000,000) operations.
     * Completions may be lost where another thread progresses MPI at the wrong moment (open-mpi/ompi#6941, and the
     * external_req that is not set): rma.c settles those by a flush.
     */
    {.library = "Open MPI",
     .from = VERSION(4, 0, 0),
     .below = VERSION(5, 0, 0),
     .window = "ucx",
     .quirks = {.per_request = 64,
                .put_is_remote = true,
                .flush_within = 1000000,
                .why = "a request is a fenced remote atomic: it completes the gets and puts before it"}},
    /*
     * osc/ucx of 5.0 aborts at the 255th outstanding request (open-mpi/ompi#14192), so fewer requests are parked. How
     * its requests relate to earlier gets depends on the worker pool, so each get has its own. It makes its UCX worker
     * for one thread (common_ucx_wpool.c), but any thread's progress runs it. A UCX that was built with assertions, as
     * Debian's is, then ends the process (ucs_async_check_owner_thread); any other is used against its rules. Over TCP,
     * MPI_Win_free and MPI_Finalize hang in ucp_ep_destroy once an operation has used the window.
     */
    {.library = "Open MPI",
     .from = VERSION(5, 0, 0),
     .below = VERSION(6, 0, 0),
     .window = "ucx",
     .quirks = {.per_request = 1,
                .requests_within = 254,
                .one_thread = true,
                .keeps_window = true,
                .why = "requests are limited to 254 (ompi#14192); each get has its own"}},
    /*
     * osc/rdma tracks each request by itself. Under lock_all, a flush waits for the operations of every target. With
     * cross-memory attach it retries an operation on a dead process for ever, inside the call. That of 5.0.7 loses
     * memory with each long operation, without a remedy: 656 bytes at the target of a put between ranks of a host, 160
     * bytes at the origin of a get by TCP (btl_base_am_rdma.c).
     */
    {.library = "Open MPI",
     .from = VERSION(4, 0, 0),
     .below = VERSION(6, 0, 0),
     .window = "rdma",
     .quirks = {.per_request = 1, .holds_on_dead = true, .why = "each request is tracked by itself"}},
    /*
     * ch4 of MPICH: a request stands for one operation. The noncontiguous MPI_Rget of mpich#7896 is never used.
     * MPI_Finalize ends UCX while the memory of an open window is still registered: a UCX that was built with
     * assertions, as Debian's is, then aborts (rcache.c). It also turns all locks off before it calls our hook
     * (isThreaded, mpir_init.c). A thread that is inside MPI at that moment leaves its lock taken, and MPICH aborts
     * where it destroys that lock (ch4_init.c). The threads of two contexts may then be inside UCX at once.
     */
    {.library = "MPICH",
     .below = VERSION(99, 0, 0),
     .quirks = {.per_request = 1, .close_first = true, .why = "a request stands for one operation"}},
    {.quirks = {.per_request = 1, .why = "an unknown MPI: as the standard says"}},
};

/* What helps where there is no window over all nodes, or none for several threads. The first row that fits. */
static const struct {
    const char *library;
    int from, below;
    const char *remedy;
} remedies[] = {
    {"Open MPI", 0, VERSION(5, 0, 0),
     "set OMPI_MCA_osc=ucx,sm and OMPI_MCA_opal_common_ucx_tls=any (or OMPI_MCA_osc=^pt2pt); Debian's "
     "openmpi-mca-params.conf excludes ucx"},
    {"Open MPI", VERSION(5, 0, 0), VERSION(99, 0, 0),
     "set OMPI_MCA_osc=rdma,sm and OMPI_MCA_pml=ob1, which opens the transports of osc/rdma"},
    {"", 0, VERSION(99, 0, 0), "use an MPI that was built with one-sided operations between nodes"},
};

/* The first number with a dot: "Open MPI v4.1.4, ...", "MPICH Version:      4.0.2", "... MPI Library 2021.9". */
static int version_of(const char *text)
{
    for (const char *at = text; *(at += strcspn(at, "0123456789")) != '\0'; at += strspn(at, "0123456789")) {
        int major = 0, minor = 0, patch = 0;
        if (sscanf(at, "%4d.%2d.%2d", &major, &minor, &patch) >= 2)
            return VERSION(major, minor, patch);
    }
    return 0;
}

static bool fits(const struct row *row, const char *library, int version, const char *window)
{
    if (row->library == NULL)
        return true;
    return strncmp(library, row->library, strlen(row->library)) == 0 && version >= row->from && version < row->below &&
           (row->window == NULL || strncmp(window, row->window, strlen(row->window)) == 0);
}

/* The first line, and the device of MPICH, which says how it reaches other nodes: "MPICH Version: 4.2.1, ch4:ucx". */
static void name_library(struct quirks *q, const char *library)
{
    char device[32] = "";
    const char *at = strstr(library, "MPICH Device:");
    if (at != NULL)
        sscanf(at, "MPICH Device: %31s", device);
    snprintf(q->library, sizeof q->library, "%.*s%s%s", (int)strcspn(library, "\n,"), library,
             device[0] != '\0' ? ", " : "", device);
}

void quirks_choose(struct quirks *q, const char *library, const char *window_name, uint64_t forced)
{
    const struct row *row = rows;
    int version = version_of(library);
    while (!fits(row, library, version, window_name))
        row++;
    *q = row->quirks;
    name_library(q, library);
    q->is_forced = forced != 0;
    if (q->is_forced)
        q->per_request = forced < QUIRKS_RUNS_MAX ? (uint32_t)forced : QUIRKS_RUNS_MAX;
}

const char *quirks_remedy(const char *library)
{
    int version = version_of(library);
    for (unsigned i = 0;; i++)
        if (strncmp(library, remedies[i].library, strlen(remedies[i].library)) == 0 && version >= remedies[i].from &&
            version < remedies[i].below)
            return remedies[i].remedy;
}

bool quirks_flush_due(const struct quirks *q, uint64_t of_peer, uint64_t of_all, uint64_t num_peers)
{
    if (q->flush_within == 0 || of_peer == 0)
        return false;
    return of_peer >= q->flush_within / 8 || (of_all >= q->flush_within / 4 && 2 * of_peer * num_peers >= of_all);
}
