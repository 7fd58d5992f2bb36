/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-plan: prints which ranks of a prefill and a decode engine exchange what. Neither engine nor MPI is needed.
 *
 *   baton-plan --model llama3-70b --prefill 4x2 --decode 8x1 --tokens 4096
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "option/output.h"
#include "print.h"

#define STATUS_NO_MATCH 1
#define STATUS_USAGE 2

struct tool {
    struct query query;
    struct description description[ROLES];
    struct engine engine[ROLES];
    struct exchange exchange;
};

static int read_sides(struct tool *t, struct why *why)
{
    static const char *const roles[] = {"prefill", "decode"};
    const struct query *q = &t->query;
    uint32_t first = 0;
    for (unsigned i = 0; i < ROLES; i++) {
        const struct engine_size *size = &q->size[i];
        if (q->file[i] != NULL && description_read(&t->description[i], q->file[i], why) != 0)
            return -1;
        struct engine_source source = {.role = roles[i],
                                       .size = *size,
                                       .cut = &q->cut[i],
                                       .description = q->file[i] != NULL ? &t->description[i] : NULL,
                                       .tokens = q->request.tokens,
                                       .first_rank = first,
                                       .ranks_per_node = q->ranks_per_node};
        if (engine_init(&t->engine[i], &source, why) != 0)
            return -1;
        first += size->engines * engine_size_ranks(size);
    }
    return 0;
}

static void tool_fini(struct tool *t)
{
    exchange_fini(&t->exchange);
    for (unsigned i = 0; i < ROLES; i++) {
        engine_fini(&t->engine[i]);
        description_fini(&t->description[i]);
    }
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static int print_costs(struct tool *t, uint64_t begin_ns, struct why *why)
{
    struct rusage usage;
    if (print_cost(&t->query, &t->exchange, stdout, why) != 0)
        return -1;
    getrusage(RUSAGE_SELF, &usage);
    printf("all decode ranks         %u planned in %.2f s, this program's memory %.1f MiB at most\n",
           t->engine[ROLE_DECODE].num_ranks, (double)(clock_now_ns() - begin_ns) / 1e9, (double)usage.ru_maxrss / 1024);
    return 0;
}

static int write_picture(const struct tool *t, struct why *why)
{
    struct dot dot;
    if (dot_begin(&dot, why) != 0)
        return -1;
    return dot_end(&dot, &t->query.picture, print_graph(&t->query, &t->exchange, dot.out, why), why);
}

static int print(struct tool *t, uint64_t begin_ns, struct why *why)
{
    const struct query *q = &t->query;
    int rc = dot_is_wanted(&q->picture) ? write_picture(t, why) : 0;
    if (rc == 0 && q->cost)
        rc = print_costs(t, begin_ns, why);
    else if (rc == 0 && q->json)
        rc = print_json(q, &t->exchange, stdout, why);
    else if (rc == 0)
        rc = print_text(q, &t->exchange, stdout, why);
    return rc;
}

static int run(struct tool *t, uint64_t begin_ns, struct why *why)
{
    if (read_sides(t, why) != 0)
        return STATUS_USAGE;
    if (exchange_init(&t->exchange, &t->engine[ROLE_PREFILL], &t->engine[ROLE_DECODE], &t->query.request, why) != 0)
        return STATUS_NO_MATCH;
    return print(t, begin_ns, why) == 0 ? 0 : STATUS_USAGE;
}

int main(int argc, char **argv)
{
    const uint64_t begin_ns = clock_now_ns();
    struct tool tool = {0};
    struct why why = {""};
    int status = query_read(&tool.query, argc, argv, &why) == 0 ? 0 : STATUS_USAGE;
    if (status == 0 && (tool.query.help || tool.query.version))
        return output_asked("baton-plan", tool.query.help ? query_help : NULL, baton_version(), STATUS_USAGE);
    if (status == 0)
        status = run(&tool, begin_ns, &why);
    if (status != 0)
        fprintf(stderr, "baton-plan: %s\n", why.text);
    tool_fini(&tool);
    return output_finish("baton-plan", status, STATUS_USAGE);
}
