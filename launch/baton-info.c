/* SPDX-License-Identifier: BSD-3-Clause */
/* baton-info: prints the version, where this process runs, and every setting with its value. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "shm/copy.h"
#include "topo/topo.h"

static void print_place(void)
{
    struct topo_place p;
    if (topo_find(NULL, &p) != 0)
        printf("place: hwloc could not read this machine\n");
    printf("place: host %s, ", p.host);
    if (p.numa == TOPO_UNKNOWN)
        printf("several or unknown NUMA nodes, ");
    else
        printf("NUMA node %" PRIu32 ", ", p.numa);
    printf("%" PRIu32 " CPUs, last cache %" PRIu64 " KiB, memory %" PRIu64 " MiB, nic %s, gpu %s\n", p.cpus,
           p.llc_bytes >> 10, p.memory_bytes >> 20, p.nic[0] ? p.nic : "none", p.gpu[0] ? p.gpu : "none");
}

static void print_settings(const struct settings *s, bool of_tests)
{
    const uint64_t values[] = {
#define VALUE(field, variable, preset, least, most, meaning) s->field,
        SETTINGS_MAP(VALUE)
#undef VALUE
    };
    for (unsigned i = 0; i < settings_count; i++) {
        const struct setting_info *info = &settings_table[i];
        if (info->is_of_tests != of_tests)
            continue;
        printf("%-27s %12" PRIu64 "  %-11s %" PRIu64 "..%" PRIu64 "  %s\n", info->variable, values[i],
               getenv(info->variable) != NULL ? "environment" : "default", info->least, info->most, info->meaning);
    }
}

int main(int argc, char **argv)
{
    struct settings s;
    if (argc > 1) {
        int help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        fprintf(
            help ? stdout : stderr,
            "usage: baton-info [-h | --help]\n\n"
            "Prints the version, where this process runs, and every setting: its value, whether that is the default\n"
            "or comes from the environment, its bounds and its meaning. Settings are variables of the environment.\n");
        return help ? 0 : 2;
    }
    printf("baton %s, streaming copies by %s\n", baton_version(), copy_stream_name());
    print_place();
    if (settings_read(&s, getenv) != 0) {
        fprintf(stderr, "baton-info: %s\n", baton_errmsg());
        return 1;
    }
    print_settings(&s, false);
    printf("Beside these there are BATON_ENGINE, BATON_ROLE, BATON_TP, BATON_TP_RANK, BATON_PP and BATON_PP_RANK: the "
           "role of a rank. batonrun sets them.\n\nFor tests:\n");
    print_settings(&s, true);
    printf("BATON_FAULT injects faults: see baton(7).\n");
    for (char **entry = environ; *entry != NULL; entry++) {
        const char *nearest = settings_nearest(*entry);
        if (nearest != NULL)
            fprintf(stderr, "baton-info: %.*s is not a setting and has no effect; the nearest is %s\n",
                    (int)strcspn(*entry, "="), *entry, nearest);
    }
    return 0;
}
