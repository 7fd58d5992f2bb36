/* SPDX-License-Identifier: BSD-3-Clause */
/* What batonrun and its shims read of hosts, switches, roles, places and costs. The first byte says which. */
#include "fuzz.h"

#include "base/layout.h"
#include "batonrun/bind.h"
#include "batonrun/node.h"
#include "place/allocation.h"
#include "place/costs.h"
#include "place/machine.h"
#include "place/network.h"

static char *text;

static char *variable(const char *name)
{
    static char one[] = "1";
    if (strcmp(name, "SLURM_JOB_ID") == 0 || strcmp(name, "SLURM_NTASKS") == 0)
        return one;
    char *space = strchr(text, '\n'); /* behind it the hosts' counts */
    if (space != NULL)
        *space = '\0';
    if (strcmp(name, "SLURM_JOB_NODELIST") == 0)
        return text;
    return strcmp(name, "SLURM_TASKS_PER_NODE") == 0 && space != NULL ? space + 1 : NULL;
}

static char *file(const char *path)
{
    (void)path;
    return NULL;
}

static void check_allocation(int rc, struct allocation *a)
{
    MUST(rc != 0 || (a->num_hosts > 0 && a->num_groups > 0));
    for (uint32_t i = 0; i < a->num_hosts; i++)
        MUST(a->hosts[i].name[0] != '\0' && a->hosts[i].name[0] != '-' && strpbrk(a->hosts[i].name, " \t\n/;") == NULL);
    allocation_fini(a);
}

static void check_machine(void)
{
    struct machine m;
    struct machine_cut cut = {.slots = 3, .gpus_per_rank = 1};
    struct why why;
    uint32_t num;
    if (machine_parse(&m, text, &why) == 0) {
        struct machine_seat *seats = machine_seats(&m, &cut, &num);
        MUST(seats != NULL && num > 0);
        for (uint32_t i = 0; i < num; i++)
            MUST(seats[i].first_core < seats[i].end_core && seats[i].end_core <= m.num_cores);
        free(seats);
        (void)node_parse(m.facts, &(struct profile_facts){.ucx_version = 0});
    }
    machine_fini(&m);
}

static void check_network(void)
{
    struct network n;
    struct why why;
    uint32_t path[NETWORK_HEIGHT_MAX];
    int rc = network_read(&n, text, &why);
    MUST(n.height <= NETWORK_HEIGHT_MAX || rc != 0);
    if (rc == 0)
        (void)network_path(&n, "n1", path);
    network_fini(&n);
}

static void check_costs(void)
{
    struct costs c;
    struct why why;
    int rc = costs_read(&c, text, &why);
    for (unsigned i = 1; rc == 0 && i < COST_CLASSES; i++)
        MUST(c.of[i] >= c.of[i - 1] && c.of[0] > 0 && c.of[i] <= 1e9);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct allocation a;
    struct why why;
    struct layout l;
    baton_open_params_t role;
    struct bind_place place;
    if (size == 0)
        return 0;
    text = malloc(size);
    MUST(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 8) {
    case 0:
        check_allocation(allocation_from_hosts(&a, text, &why), &a);
        break;
    case 1:
        check_allocation(allocation_from_hostfile(&a, text, &why), &a);
        break;
    case 2:
        check_allocation(allocation_from_batch(&a, variable, file, &why), &a);
        break;
    case 3:
        check_network();
        break;
    case 4:
        if (layout_read(text, &l))
            MUST(layout_find(&l, layout_ranks(&l.prefill) + layout_ranks(&l.decode) - 1, &role));
        break;
    case 5:
        check_machine();
        break;
    case 6:
        check_costs();
        break;
    default:
        (void)bind_find(text, size < 2 ? 0 : data[1], &place);
    }
    free(text);
    return 0;
}
