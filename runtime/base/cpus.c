/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus: see cpus.h. */
#include "base/cpus.h"

#include <stdio.h>

#include "base/number.h"

#define CPUS_MAX 65536u

bool cpus_init(struct cpus *c)
{
    c->set = CPU_ALLOC(CPUS_MAX);
    c->bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    if (c->set != NULL)
        CPU_ZERO_S(c->bytes, c->set);
    return c->set != NULL;
}

void cpus_fini(struct cpus *c)
{
    if (c->set != NULL)
        CPU_FREE(c->set);
    c->set = NULL;
}

bool cpus_read(struct cpus *c, const char *list)
{
    for (const char *at = list;;) {
        uint32_t first, last;
        if (!number_take(&at, CPUS_MAX - 1, &first))
            return false;
        last = first;
        if (*at == '-' && (at++, !number_take(&at, CPUS_MAX - 1, &last)))
            return false;
        if (last < first)
            return false;
        for (uint32_t i = first; i <= last; i++)
            CPU_SET_S(i, c->bytes, c->set);
        if (*at == '\0')
            return true;
        if (*at++ != ',')
            return false;
    }
}

/* Adds first to last to a list of *used bytes. False, and nothing is added: there is no room. */
static bool add_range(char *list, size_t size, size_t *used, uint32_t first, uint32_t last)
{
    char range[32];
    int length = snprintf(range, sizeof range, last > first ? "%s%u-%u" : "%s%u", *used > 0 ? "," : "", first, last);
    if (*used + (size_t)length >= size)
        return false;
    snprintf(list + *used, size - *used, "%s", range);
    *used += (size_t)length;
    return true;
}

bool cpus_write(const struct cpus *c, char *list, size_t size)
{
    size_t used = 0;
    if (size > 0)
        list[0] = '\0';
    for (uint32_t i = 0, next; i < CPUS_MAX; i = next + 1) {
        for (; i < CPUS_MAX && !CPU_ISSET_S(i, c->bytes, c->set); i++)
            ;
        if (i == CPUS_MAX)
            break;
        for (next = i + 1; next < CPUS_MAX && CPU_ISSET_S(next, c->bytes, c->set); next++)
            ;
        if (!add_range(list, size, &used, i, next - 1))
            return false;
    }
    return true;
}

bool cpus_write_numbers(const uint32_t *numbers, uint32_t num, char *list, size_t size)
{
    size_t used = 0;
    if (size > 0)
        list[0] = '\0';
    for (uint32_t i = 0, next; i < num; i = next) {
        for (next = i + 1; next < num && numbers[next] == numbers[next - 1] + 1;)
            next++;
        if (!add_range(list, size, &used, numbers[i], numbers[next - 1]))
            return false;
    }
    return true;
}
