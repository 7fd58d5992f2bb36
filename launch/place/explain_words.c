/* SPDX-License-Identifier: BSD-3-Clause */
/* explain_words: numbers, ranks and their GPUs as the page of explain.h has them. */
#include "place/explain.h"

#include "base/layout.h"

const char *explain_bytes(double bytes, char text[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    unsigned unit = 0;
    for (; bytes >= 1000 && unit < 5; unit++)
        bytes /= 1000;
    snprintf(text, 32, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *explain_range(uint32_t first, uint32_t last, char text[32])
{
    snprintf(text, 32, last > first ? "%u-%u" : "%u", first, last);
    return text;
}

#define GPU_NUMBER_BYTES 16 /* ", (4294967295)" */

const char *explain_gpus(const struct explain *e, uint32_t rank, char text[EXPLAIN_GPUS_BYTES])
{
    const struct world_place *p = &e->places[rank];
    const struct machine_device *gpus = e->world->nodes[p->node].machine->gpus;
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = p->seat.first_gpu;
         i < p->seat.first_gpu + p->seat.num_gpus && at + MACHINE_DEVICE_BYTES + GPU_NUMBER_BYTES < EXPLAIN_GPUS_BYTES;
         i++)
        at += (size_t)snprintf(text + at, EXPLAIN_GPUS_BYTES - at, "%s%s (%u)", at > 0 ? "," : "", gpus[i].name,
                               gpus[i].number);
    return text;
}

void explain_role(const struct explain *e, uint32_t rank, baton_open_params_t *role)
{
    const struct engine_size *prefill = &e->sizes[JOB_PREFILL], *decode = &e->sizes[JOB_DECODE];
    const struct layout layout = {{prefill->engines, prefill->tp, prefill->pp},
                                  {decode->engines, decode->tp, decode->pp}};
    layout_find(&layout, rank, role);
}
