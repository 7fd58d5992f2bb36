/* SPDX-License-Identifier: BSD-3-Clause */
/* check: see check.h. */
#include "batonrun/check.h"

#include <stdlib.h>
#include <string.h>

#include "info/compare.h"

int check_init(struct check *c, const struct launch_host *hosts, uint32_t num)
{
    *c = (struct check){.hosts = hosts, .num = num, .readers = calloc(num, sizeof *c->readers)};
    return c->readers != NULL ? 0 : -1;
}

void check_fini(struct check *c)
{
    for (uint32_t k = 0; c->readers != NULL && k < c->num; k++)
        info_fini(&c->readers[k].info);
    free(c->readers);
}

static bool take(void *arg, char *line)
{
    struct check *c = arg;
    int64_t rank = line_rank(line);
    if (rank < 0)
        return false;
    if (rank >= c->num || c->readers[rank].is_whole)
        return true;
    line_take(&c->readers[rank], line);
    c->whole += c->readers[rank].is_whole;
    return true;
}

static bool is_done(const void *arg)
{
    const struct check *c = arg;
    return c->whole == c->num;
}

struct listener check_listener(struct check *c)
{
    return (struct listener){take, is_done, c};
}

int check_print(const struct check *c, FILE *out)
{
    uint32_t silent = 0;
    for (uint32_t k = 0; k < c->num; k++)
        silent += c->readers[k].lines == 0;
    if (silent == c->num && c->num > 1) {
        fprintf(stderr,
                "batonrun: none of the %u hosts reported: the lines above say why, or the launcher could not "
                "start the others after one of them failed; check the hosts one at a time (--host %s --check), and "
                "leave out those that cannot be reached\n",
                c->num, c->hosts[0].name);
        return 1;
    }
    struct compare_host *hosts = calloc(c->num, sizeof *hosts);
    if (hosts == NULL) {
        fputs("batonrun: out of memory\n", stderr);
        return 1;
    }
    for (uint32_t k = 0; k < c->num; k++) {
        const struct line_reader *r = &c->readers[k];
        hosts[k] = (struct compare_host){c->hosts[k].name, r->is_whole ? &r->info : NULL,
                                         r->lines > 0 ? "some of its lines are missing" : "see the lines above"};
    }
    uint32_t found = compare_print(out, hosts, c->num);
    if (found == 0)
        fprintf(out, "%u host%s: no problem was found, and no difference\n", c->num, c->num == 1 ? "" : "s");
    free(hosts);
    return found > 0;
}
