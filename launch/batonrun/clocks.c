/* SPDX-License-Identifier: BSD-3-Clause */
/* clocks: see clocks.h. */
#include "batonrun/clocks.h"

#include <stdlib.h>

bool clocks_init(struct clocks *c, uint32_t machines)
{
    size_t pairs = (size_t)machines * machines;
    *c = (struct clocks){.num = machines, .least = malloc((pairs > 0 ? pairs : 1) * sizeof *c->least)};
    for (size_t i = 0; c->least != NULL && i < pairs; i++)
        c->least[i] = INT64_MAX;
    return c->least != NULL;
}

void clocks_fini(struct clocks *c)
{
    free(c->least);
}

void clocks_message(struct clocks *c, uint32_t from, uint32_t to, int64_t ns)
{
    int64_t *least = &c->least[(size_t)from * c->num + to];
    if (ns < *least)
        *least = ns;
}

/* Where `to` stands if `from` stands at *place. False: messages did not go both ways. */
static bool compare(const struct clocks *c, uint32_t from, uint32_t to, struct clock_place *place)
{
    int64_t there = c->least[(size_t)from * c->num + to], back = c->least[(size_t)to * c->num + from];
    if (there == INT64_MAX || back == INT64_MAX)
        return false;
    int64_t both = there + back;
    place->ahead_ns += (there - back) / 2;
    place->within_ns += both > 0 ? both / 2 : -both / 2; /* below 0 a clock was set meanwhile, or drifts */
    return true;
}

void clocks_place(const struct clocks *c, struct clock_place *places)
{
    for (uint32_t i = 0; i < c->num; i++)
        places[i] = (struct clock_place){.is_known = i == 0};
    for (;;) {
        uint32_t best = c->num;
        struct clock_place found = {0};
        for (uint32_t from = 0; from < c->num; from++)
            for (uint32_t to = 0; places[from].is_known && to < c->num; to++) {
                struct clock_place place = places[from];
                if (places[to].is_known || !compare(c, from, to, &place))
                    continue;
                if (best == c->num || place.within_ns < found.within_ns) {
                    best = to;
                    found = place;
                }
            }
        if (best == c->num)
            return;
        places[best] = found;
    }
}
