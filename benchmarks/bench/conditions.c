/* SPDX-License-Identifier: BSD-3-Clause */
/* conditions: see the header. */
#include "bench/conditions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/settings.h"
#include "bench/fail.h"
#include "shm/copy.h"

static const char *const variables[] = {"UCX_TLS",          "UCX_NET_DEVICES",    "OMPI_MCA_pml",
                                        "OMPI_MCA_osc",     "OMPI_MCA_btl",       "OMPI_MCA_mpi_yield_when_idle",
                                        "BATON_FAKE_NODES", "BATON_COPY_WORKERS", "BATON_TUNE",
                                        "BATON_FAULT",      "BATON_TRACE"};

uint64_t conditions_l3_bytes(void)
{
    char text[32] = "";
    uint64_t bytes = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file) {
        if (fgets(text, sizeof text, file))
            text[strcspn(text, "\n")] = '\0';
        fclose(file);
    }
    if (settings_number(text, &bytes) == 0)
        return bytes;
    long told = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return told > 0 ? (uint64_t)told : 0;
}

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
                cpu, sysconf(_SC_NPROCESSORS_ONLN), CPU_COUNT(&b->pin.allowed), conditions_l3_bytes() / 1024,
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

void conditions_note(struct bench *b)
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

void conditions_note_baton(struct bench *b, const baton_t *baton)
{
    int length = baton_describe(baton, NULL, 0);
    if (!b->report.active || length <= 0)
        return;
    char *text = room((size_t)length + 1, 1);
    baton_describe(baton, text, (size_t)length + 1);
    report_text(&b->report, text);
    free(text);
}
