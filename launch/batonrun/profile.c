/* SPDX-License-Identifier: BSD-3-Clause */
/* profile: see profile.h. */
#include "batonrun/profile.h"

#include <stdio.h>
#include <string.h>

#define VERSION PROFILE_VERSION

/* ---- what the rows ask ------------------------------------------------------------------------------------------- */

typedef bool (*holds_fn)(const struct profile_facts *f);

static bool always(const struct profile_facts *f)
{
    (void)f;
    return true;
}

static bool has_osc_ucx(const struct profile_facts *f)
{
    return f->osc_ucx;
}

static bool has_pml_ucx(const struct profile_facts *f)
{
    return f->pml_ucx;
}

static bool has_ucx(const struct profile_facts *f)
{
    return f->osc_ucx || f->pml_ucx;
}

/* A rank has the engine's thread and the reactor's. */
static bool is_tight(const struct profile_facts *f)
{
    return f->sharers > 0 && 2 * (uint64_t)f->sharers > f->threads;
}

static bool is_roomy(const struct profile_facts *f)
{
    return f->sharers > 0 && !is_tight(f);
}

/* Open MPI 5 is told to use osc/rdma and pml/ob1 in its place. */
static bool moves_by_ucx(const struct profile_facts *f)
{
    return f->mpi != PROFILE_OPEN_MPI || f->mpi_version < VERSION(5, 0, 0);
}

/* An adapter that no byte goes over, although there are several nodes. */
static bool leaves_fabric(const struct profile_facts *f)
{
    return !f->one_node && f->port_is_active && !moves_by_ucx(f);
}

static bool has_nic(const struct profile_facts *f)
{
    return profile_kind(f) == PROFILE_FABRIC && f->nic[0] != '\0';
}

static bool has_interface(const struct profile_facts *f)
{
    return profile_kind(f) == PROFILE_TCP && f->interface[0] != '\0';
}

static bool has_ucx_interface(const struct profile_facts *f)
{
    return has_interface(f) && moves_by_ucx(f);
}

static bool sends_by_tcp(const struct profile_facts *f)
{
    return moves_by_ucx(f) && profile_kind(f) != PROFILE_FABRIC;
}

static bool needs_rdmacm(const struct profile_facts *f)
{
    return f->ucx_version > 0 && f->ucx_version < VERSION(1, 11, 0) && !f->port_is_active;
}

static bool survives(const struct profile_facts *f)
{
    return f->survive;
}

static bool cma_kills(const struct profile_facts *f)
{
    return f->survive && f->ucx_version >= VERSION(1, 18, 0);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum which { OPEN_MPI = 1 << PROFILE_OPEN_MPI, MPICH = 1 << PROFILE_MPICH, ANY_MPI = ~0 };

#define THE_NIC "<nic>" /* values that are facts */
#define THE_INTERFACE "<interface>"

#define ONLY_INTERFACE "no other interface has hardware behind it: bridges of containers lead to no other node"

#define WIDE_TCP "UCX sends and receives at most 8 KiB a system call over TCP: large blocks take twice the time"

struct row {
    int mpi;              /* of enum which */
    uint32_t from, below; /* versions v of it with from <= v < below; below 0: all from there on */
    holds_fn holds;
    const char *variable, *value;
    enum { BEST, SECOND_BEST } rank; /* second best: something is missing on the node */
    const char *reason;
};

/* The first row of a variable that fits is taken. A list that names a component which is missing ends a rank of Open
 * MPI, a list that leaves it out ("^") does not. */
static const struct row rows[] = {
    {OPEN_MPI, VERSION(5, 0, 0), 0, leaves_fabric, "OMPI_MCA_osc", "rdma,sm", SECOND_BEST,
     "bytes between nodes go over TCP, not InfiniBand or RoCE: osc/ucx of Open MPI 5 serves one thread; Open MPI 4's "
     "serves several"},
    {OPEN_MPI, VERSION(5, 0, 0), 0, always, "OMPI_MCA_osc", "rdma,sm", BEST,
     "windows that other nodes can read and any thread may use: osc/ucx of Open MPI 5 ends processes of several"},
    {OPEN_MPI, VERSION(5, 0, 0), 0, always, "OMPI_MCA_pml", "ob1", BEST,
     "only pml/ob1 opens the transports of osc/rdma"},
    {OPEN_MPI, VERSION(5, 0, 0), 0, always, "OMPI_MCA_reachable", "weighted", BEST,
     "TCP also between ranks of a node: else Open MPI 5 logs an error for each pair of them"},
    {OPEN_MPI, VERSION(5, 0, 0), 0, survives, "OMPI_MCA_mpi_ft_enable", "1", BEST,
     "--survive: else Open MPI 5 ends each rank to which the connection of a lost one closes"},
    {OPEN_MPI, 0, 0, has_osc_ucx, "OMPI_MCA_osc", "ucx,sm", BEST,
     "windows that other nodes can read, which Debian's MCA file turns off"},
    {OPEN_MPI, 0, 0, always, "OMPI_MCA_osc", "^ucx", SECOND_BEST,
     "osc/ucx is missing, or UCX was built for one thread; other nodes cannot be read with MPI_THREAD_MULTIPLE"},
    {OPEN_MPI, 0, 0, has_pml_ucx, "OMPI_MCA_pml", "ucx", BEST, "messages by UCX, which Debian's MCA file turns off"},
    {OPEN_MPI, 0, 0, always, "OMPI_MCA_pml", "ob1", SECOND_BEST, "pml/ucx is missing, or UCX was built for one thread"},
    {OPEN_MPI, VERSION(5, 0, 0), 0, always, "OMPI_MCA_btl", "^uct,openib,ofi", BEST,
     "osc/rdma runs over memory and TCP, over which it has been tested"},
    {OPEN_MPI, 0, 0, always, "OMPI_MCA_btl", "^uct,openib,ofi", BEST, "not beside UCX: they use the same adapters"},
    {OPEN_MPI, 0, 0, always, "OMPI_MCA_coll", "^hcoll", BEST, "hcoll breaks the creation of windows"},
    {OPEN_MPI, 0, 0, has_ucx, "OMPI_MCA_opal_common_ucx_tls", "any", BEST, "UCX on any adapter, not on a list of them"},
    {OPEN_MPI, 0, 0, has_ucx, "OMPI_MCA_opal_common_ucx_devices", "any", BEST,
     "UCX on any adapter, not on a list of them"},
    {OPEN_MPI, 0, 0, is_tight, "OMPI_MCA_mpi_yield_when_idle", "1", BEST,
     "waiting threads of MPI yield: fewer than two hardware threads a rank"},
    {OPEN_MPI, 0, 0, is_roomy, "OMPI_MCA_mpi_yield_when_idle", "0", BEST,
     "waiting threads of MPI need not yield: two hardware threads a rank, or more"},
    {ANY_MPI, 0, 0, has_nic, "UCX_NET_DEVICES", THE_NIC, BEST,
     "the adapter nearest to the rank's cores, which is up; all ports of all nodes are in one network"},
    {ANY_MPI, 0, 0, has_ucx_interface, "UCX_NET_DEVICES", THE_INTERFACE, BEST, ONLY_INTERFACE},
    {OPEN_MPI, 0, 0, has_interface, "OMPI_MCA_btl_tcp_if_include", THE_INTERFACE, BEST, ONLY_INTERFACE},
    {ANY_MPI, 0, 0, sends_by_tcp, "UCX_TCP_TX_SEG_SIZE", "128k", BEST, WIDE_TCP},
    {ANY_MPI, 0, 0, sends_by_tcp, "UCX_TCP_RX_SEG_SIZE", "128k", BEST, WIDE_TCP},
    {ANY_MPI, 0, 0, needs_rdmacm, "UCX_SOCKADDR_TLS_PRIORITY", "tcp", BEST,
     "UCX before 1.11 gives up where rdmacm, which nothing here uses, finds no adapter"},
    {ANY_MPI, 0, 0, cma_kills, "UCX_TLS", "^cma", BEST,
     "--survive: UCX 1.18 and later ends a rank that reads the memory of one that was killed"},
    {ANY_MPI, 0, 0, always, "UCX_LOG_FILE", "stderr", BEST, "UCX's warnings stay out of what a program prints"},
};

/* Open MPI ends a rank for which both are set. */
static const struct {
    const char *variable, *rival;
} exclusive[] = {{"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude"}};

/* ---- the choice -------------------------------------------------------------------------------------------------- */

void profile_mpi(const char *library, struct profile_facts *out)
{
    unsigned major = 0, minor = 0, patch = 0;
    const char *digits = library + strcspn(library, "0123456789");
    sscanf(digits, "%4u.%2u.%2u", &major, &minor, &patch);
    out->mpi = strncmp(library, "Open MPI", 8) == 0 ? PROFILE_OPEN_MPI
               : strncmp(library, "MPICH", 5) == 0  ? PROFILE_MPICH
                                                    : PROFILE_OTHER_MPI;
    out->mpi_version = VERSION(major, minor, patch);
}

enum profile_kind profile_kind(const struct profile_facts *f)
{
    return f->one_node ? PROFILE_ONE_NODE : f->port_is_active && moves_by_ucx(f) ? PROFILE_FABRIC : PROFILE_TCP;
}

const char *profile_name(enum profile_kind kind)
{
    static const char *const names[] = {
        [PROFILE_ONE_NODE] = "one node", [PROFILE_TCP] = "TCP", [PROFILE_FABRIC] = "InfiniBand or RoCE"};
    return names[kind];
}

static bool fits(const struct row *row, const struct profile_facts *f)
{
    return (row->mpi & 1 << f->mpi) != 0 && f->mpi_version >= row->from &&
           (row->below == 0 || f->mpi_version < row->below) && row->holds(f);
}

static bool is_there(const struct profile_setting *settings, unsigned num, const char *variable)
{
    for (unsigned i = 0; i < num; i++)
        if (strcmp(settings[i].variable, variable) == 0)
            return true;
    return false;
}

unsigned profile_find(const struct profile_facts *f, struct profile_setting settings[PROFILE_SETTINGS_MAX])
{
    unsigned num = 0;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        if (!fits(row, f) || is_there(settings, num, row->variable))
            continue;
        struct profile_setting *s = &settings[num++];
        *s = (struct profile_setting){
            .variable = row->variable, .reason = row->reason, .is_second_best = row->rank == SECOND_BEST};
        snprintf(s->value, sizeof s->value, "%s",
                 strcmp(row->value, THE_NIC) == 0         ? f->nic
                 : strcmp(row->value, THE_INTERFACE) == 0 ? f->interface
                                                          : row->value);
    }
    return num;
}

const char *profile_own(const struct profile_setting *s, profile_given_fn is_given, const void *arg)
{
    if (is_given(arg, s->variable))
        return s->variable;
    for (unsigned i = 0; i < sizeof exclusive / sizeof exclusive[0]; i++)
        if (strcmp(exclusive[i].variable, s->variable) == 0 && is_given(arg, exclusive[i].rival))
            return exclusive[i].rival;
    return NULL;
}
