/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-bench: measures Baton's figures, and prints each with the conditions under which it was measured.
 *
 *   batonrun --prefill 1x1 --decode 1x1 baton-bench pull --block 4K,64K,1M --batch 1,64,1024 --csv
 *
 * The program of every rank. It initialises MPI itself, so that it can measure MPI beside Baton; the main thread is the
 * engine's thread. The first rank of the first decode engine measures and reports, the first rank of the first prefill
 * engine serves; all others only take part in collective calls.
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/blocks.h"
#include "bench/fail.h"
#include "option/output.h"
#include "shm/copy.h"

#define STATUS_USAGE 2

static const char *const variables[] = {"UCX_TLS",          "UCX_NET_DEVICES",    "OMPI_MCA_pml",
                                        "OMPI_MCA_osc",     "OMPI_MCA_btl",       "OMPI_MCA_mpi_yield_when_idle",
                                        "BATON_FAKE_NODES", "BATON_COPY_WORKERS", "BATON_TUNE",
                                        "BATON_FAULT",      "BATON_TRACE"};

/* Collective: 0 where rc is 0 on all ranks. Else rank 0 prints the sentence of the first rank with another one. */
static int agree(int rc, struct why *why)
{
    int rank, size, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int mine = rc != 0 ? rank : size;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == size)
        return 0;
    MPI_Bcast(why->text, sizeof why->text, MPI_CHAR, first, MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "baton-bench: %s\n", why->text);
    return STATUS_USAGE;
}

static int refuse(const struct bench *b, const char *why)
{
    if (b->roster.rank == 0)
        fprintf(stderr, "baton-bench: %s\n", why);
    return STATUS_USAGE;
}

static int find_other(const struct roster *r, baton_role_t role, int engine)
{
    int e = roster_find(r, role, 0);
    return e == engine ? roster_find(r, role, 1) : e;
}

/* Finds the two engines to measure. Every rank finds the same. 0, or 2 after a line that says what is missing. */
static int find_ends(struct bench *b)
{
    const struct roster *r = &b->roster;
    b->prefill = roster_find(r, BATON_ROLE_PREFILL, 0);
    b->decode = find_other(r, BATON_ROLE_DECODE, b->prefill);
    if (b->prefill < 0 || b->decode < 0)
        return refuse(b, "needs a prefill engine and a decode engine (batonrun --prefill 1x1 --decode 1x1)");
    if (b->options.op != OP_HANDSHAKE &&
        (!roster_is_single(r, b->prefill, BATON_ROLE_PREFILL) || !roster_is_single(r, b->decode, BATON_ROLE_DECODE)))
        return refuse(b, "this operation is between engines of one rank each; only handshake takes larger ones");
    if (b->options.stop_engine) {
        int e = roster_named(r, b->options.stop_engine);
        if (e < 0 || e == b->decode || !(r->engines[e].role & BATON_ROLE_PREFILL))
            return refuse(b, "--stop-engine names no prefill engine of this run");
    }
    b->producer = r->engines[b->prefill].first;
    b->consumer = r->engines[b->decode].first;
    return 0;
}

static int check_json(const struct bench *b, struct why *why)
{
    return bench_is_consumer(b) && b->options.json != NULL ? output_check_json(b->options.json, why) : 0;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

static void cpu_name(char *out, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void note_machine(struct bench *b)
{
    char cpu[200], mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    struct utsname system;
    double load;
    int len;
    cpu_name(cpu, sizeof cpu);
    uname(&system);
    if (getloadavg(&load, 1) != 1)
        load = 0;
    MPI_Get_library_version(mpi, &len);
    mpi[strcspn(mpi, ",\n")] = '\0';
    report_note(&b->report,
                "machine: %s; CPUs %ld online, %d allowed to this rank; L3 %" PRIu64 " KiB; %s %s; load average %.2f",
                cpu, sysconf(_SC_NPROCESSORS_ONLN), CPU_COUNT(&b->pin.allowed), blocks_l3_bytes() / 1024,
                system.sysname, system.release, load);
    report_note(&b->report, "software: Baton %s, %s; copy kernels: memcpy of the C library, streaming stores by %s",
                baton_version(), mpi, copy_stream_name());
}

static void note_environment(struct bench *b)
{
    char line[480] = "";
    size_t at = 0;
    for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (!value || at >= sizeof line)
            continue;
        at += (size_t)snprintf(line + at, sizeof line - at, " %s=%s", variables[i], value);
    }
    const char *tls = getenv("UCX_TLS");
    report_note(&b->report, "transport environment:%s%s", tls ? "" : " UCX_TLS unset", line);
}

/* Notes the machine, the MPI library, the environment and the options: what the figures depend on. */
static void note_conditions(struct bench *b)
{
    const struct roster *r = &b->roster;
    const struct options *o = &b->options;
    report_note(&b->report, "baton-bench %s: %d ranks, %d engines; prefill %s (rank %d), decode %s (rank %d)",
                options_op_name(o), r->size, r->num_engines, r->engines[b->prefill].name, b->producer,
                r->engines[b->decode].name, b->consumer);
    note_machine(b);
    note_environment(b);
    report_note(&b->report, "options: seed %" PRIu64 "; %s; %s", o->seed,
                o->busy ? "every rank has a computing thread" : "the engines compute nothing",
                !o->pin        ? "threads not pinned by baton-bench"
                : b->pin.apart ? "caller on the first allowed CPU, reactor on the last"
                               : "not pinned: one CPU allowed");
    report_note(&b->report, "units: GB/s are 10^9 bytes a second, KiB 1024 bytes; percentiles of sorted samples");
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

#define OPERATION_RUN(op, word, run) run,

static void run(struct bench *b)
{
    static void (*const operations[])(struct bench * b) = {OPERATIONS_MAP(OPERATION_RUN)};
    report_open(&b->report, &b->options, b->options.op == OP_DISTANCES ? b->roster.rank == 0 : bench_is_consumer(b));
    note_conditions(b);
    operations[b->options.op](b);
    if (report_close(&b->report) != 0)
        b->status = 1;
}

/* The exit status of all ranks is the worst of them. After the loss of a peer MPI_Finalize would hang. */
static int leave(struct bench *b)
{
    int mine[2] = {b->status, b->lost}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, b->roster.comm);
    watcher_destroy(&b->watcher);
    if (all[1]) {
        fflush(stdout);
        baton_exit(all[0]);
    }
    MPI_Comm_free(&b->roster.comm);
    roster_fini(&b->roster);
    MPI_Finalize();
    return all[0];
}

/* Before MPI, of a rank that is to be stopped. */
static int start_watcher(struct bench *b, const baton_open_params_t *self)
{
    const char *engine = b->options.stop_engine;
    if (engine == NULL || strcmp(engine, self->engine) != 0 || watcher_create(&b->watcher) == 0)
        return 0;
    fprintf(stderr, "baton-bench: cannot fork the child that continues this process\n");
    return -1;
}

int main(int argc, char **argv)
{
    struct bench b = {.watcher = {.pipe = -1}, .world = MPI_COMM_WORLD};
    baton_open_params_t self = {.size = sizeof self};
    struct why why = {0};
    int level;
    int rc = options_read(&b.options, argc, argv, &why);
    if (rc == 0 && (b.options.help || b.options.version))
        return output_asked("baton-bench", b.options.help ? options_help : NULL, baton_version(), 1);
    if (rc == 0 && baton_role_from_env(&self) != 0)
        rc = why_set(&why, "%s", baton_errmsg());
    pin_init(&b.pin);
    b.busy.wanted = b.options.busy;
    if (rc == 0 && start_watcher(&b, &self) != 0)
        return 1;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (agree(rc, &why) != 0) {
        watcher_destroy(&b.watcher);
        MPI_Finalize();
        return STATUS_USAGE;
    }
    if (level < MPI_THREAD_MULTIPLE)
        fail("MPI gives no MPI_THREAD_MULTIPLE, and this program measures an engine beside Baton's reactor");
    roster_init(&b.roster, &self);
    b.status = find_ends(&b);
    if (b.status == 0)
        b.status = agree(check_json(&b, &why), &why);
    if (b.status == 0)
        run(&b);
    return leave(&b);
}
