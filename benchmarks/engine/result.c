/* SPDX-License-Identifier: BSD-3-Clause */
/* result: see result.h. */
#include "engine/result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/samples.h"
#include "engine/undivided.h"
#include "replay/clock.h"

int result_init(struct result *r, uint32_t count)
{
    *r = (struct result){.count = count, .rows = calloc(count, sizeof *r->rows)};
    return r->rows != NULL ? 0 : -1;
}

void result_fini(struct result *r)
{
    free(r->rows);
    *r = (struct result){0};
}

/* ---- what this rank knows ---------------------------------------------------------------------------------------- */

/* From prefill's end, which came along with the blocks, or from the want if that came later, until all blocks were
   here. 0 where nothing says so. */
static int64_t handed_ns(const struct serve *s, const struct request *r)
{
    uint64_t from_ns;
    if (!s->glue.one_machine || r->in.mine != OUTCOME_DONE || r->in.num_attach != sizeof from_ns)
        return 0;
    memcpy(&from_ns, r->in.attach, sizeof from_ns);
    from_ns = from_ns > r->in.begun_ns ? from_ns : r->in.begun_ns;
    return r->in.ended_ns > from_ns ? (int64_t)(r->in.ended_ns - from_ns) : 0;
}

static struct result_row row_of(const struct serve *s, const struct request *r)
{
    const uint32_t further = r->digest.answers - 1;
    return (struct result_row){
        .answered = 1,
        .first_ns = (int64_t)(r->first_ns - serve_arrival_ns(s, r->index)),
        .token_ns = further > 0 ? (int64_t)(r->last_ns - r->first_ns) / further : 0,
        .tokens_digest = (int64_t)r->digest.tokens,
        .logits_digest = (int64_t)r->digest.logits,
    };
}

int result_take(struct result *r, struct serve *s)
{
    const struct scheduler *sched = &s->scheduler;
    int64_t *handed = calloc(sched->count + 1, sizeof *handed);
    if (handed == NULL)
        return -1;
    for (uint32_t i = 0; i < sched->count; i++)
        handed[i] = handed_ns(s, &sched->requests[i]);
    const int rc = mates_most(&s->mates, handed, sched->count);
    for (uint32_t i = 0; i < sched->count && rc == 0 && serve_is_leader(s); i++) {
        const struct request *request = &sched->requests[i];
        if (!request->answered || (s->options->sabotage == SABOTAGE_LOSE && request->index == 0))
            continue;
        r->rows[request->index] = row_of(s, request);
        r->rows[request->index].handed_ns = handed[i];
    }
    free(handed);
    if (serve_is_leader(s))
        r->sums = (struct result_sums){
            .loaded_tokens = (int64_t)sched->counts.loaded_tokens,
            .returned_tokens = (int64_t)sched->counts.returned_tokens,
            .prefix_tokens = (int64_t)sched->counts.prefix_tokens,
            .preempted = sched->counts.preempted,
            .recomputed = sched->counts.recomputed,
            .aborted = sched->counts.aborted,
            .taken_back = sched->counts.taken_back,
        };
    r->sums.failures = s->glue.failures;
    for (uint32_t i = 0; i < BATON_PATHS; i++)
        r->sums.bytes[i] = (int64_t)s->glue.stats.bytes[i];
    return rc;
}

static const struct request *find(const struct serve *s, uint32_t index)
{
    for (uint32_t i = 0; i < s->scheduler.count; i++)
        if (s->scheduler.requests[i].index == index)
            return &s->scheduler.requests[i];
    return NULL;
}

/* Conversations are dealt out to the ranks of the engine that served them. */
int result_check(struct result *r, const struct serve *s, struct why *why)
{
    struct undivided u;
    struct digest *digests = calloc(s->load->count, sizeof *digests);
    int rc = undivided_init(&u, &s->options->shape, s->load, why);
    if (digests == NULL)
        rc = why_set(why, "no memory for %u digests", s->load->count);
    for (uint32_t root = 0, turn = 0; rc == 0 && root < s->load->count; root++) {
        if (s->load->requests[root].root != root || find(s, root) == NULL ||
            (int)(turn++ % (uint32_t)s->mates.size) != s->mates.rank)
            continue;
        undivided_run(&u, root, digests);
        for (uint32_t i = root; i != LOAD_NONE; i = s->load->requests[i].child) {
            const struct request *request = find(s, i);
            r->rows[i].checked = 1;
            r->rows[i].equal = request->answered && digest_equal(&request->digest, &digests[i]);
        }
    }
    undivided_fini(&u);
    free(digests);
    return rc;
}

/* ---- what all know ----------------------------------------------------------------------------------------------- */

static int add(void *numbers, size_t bytes, MPI_Comm comm, uint64_t patience_ns)
{
    MPI_Request request;
    if (MPI_Iallreduce(MPI_IN_PLACE, numbers, (int)(bytes / sizeof(int64_t)), MPI_INT64_T, MPI_SUM, comm, &request))
        return -1;
    return mates_wait(&request, patience_ns);
}

int result_gather(struct result *r, MPI_Comm decode, uint64_t patience_ns)
{
    return add(r->rows, r->count * sizeof *r->rows, decode, patience_ns) == 0 &&
                   add(&r->sums, sizeof r->sums, decode, patience_ns) == 0
               ? 0
               : -1;
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

/* Three quantiles of the numbers at `offset` in the rows, of those that are not 0. */
static void print_times(const struct result *r, const char *what, size_t offset)
{
    struct samples samples = {0};
    for (uint32_t i = 0; i < r->count; i++) {
        const int64_t ns = *(const int64_t *)((const char *)&r->rows[i] + offset);
        if (ns > 0)
            samples_add(&samples, (uint64_t)ns);
    }
    if (samples.count > 0)
        printf("%-22s p50 %.3f, p90 %.3f, p99 %.3f ms (%zu requests)\n", what, samples_us(&samples, 0.5) / 1e3,
               samples_us(&samples, 0.9) / 1e3, samples_us(&samples, 0.99) / 1e3, samples.count);
    samples_fini(&samples);
}

static void print_bytes(const int64_t bytes[BATON_PATHS])
{
    static const char *const names[BATON_PATHS] = {
        [BATON_PATH_SHM] = "shm", [BATON_PATH_RMA] = "rma", [BATON_PATH_CMA] = "cma", [BATON_PATH_STAGED] = "staged"};
    printf("%-22s", "bytes received");
    for (uint32_t i = 0, shown = 0; i < BATON_PATHS; i++)
        if (bytes[i] > 0)
            printf("%s %.3f MB by %s", shown++ > 0 ? "," : "", (double)bytes[i] / 1e6, names[i] ? names[i] : "?");
    printf("\n");
}

bool result_print(const struct result *r)
{
    const struct result_sums *sums = &r->sums;
    uint32_t equal = 0;
    print_times(r, "time to first token", offsetof(struct result_row, first_ns));
    print_times(r, "time per output token", offsetof(struct result_row, token_ns));
    print_times(r, "hand-off", offsetof(struct result_row, handed_ns));
    printf("%-22s %lld handed over, %lld given back for further turns, %lld found in the prefix cache\n", "tokens",
           (long long)sums->loaded_tokens, (long long)sums->returned_tokens, (long long)sums->prefix_tokens);
    printf("%-22s %lld preempted, %lld aborted, %lld computed again where blocks did not come\n", "requests",
           (long long)sums->preempted, (long long)sums->aborted, (long long)sums->recomputed);
    printf("%-22s %lld for further turns taken back for want of blocks\n", "offers", (long long)sums->taken_back);
    print_bytes(sums->bytes);
    if (sums->failures > 0)
        printf("%-22s %lld calls were refused\n", "Baton", (long long)sums->failures);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct result_row *row = &r->rows[i];
        equal += row->answered && row->checked && row->equal;
        if (!row->answered || !row->checked)
            printf("request %u was lost\n", i);
        else if (!row->equal)
            printf("request %u differs from the undivided model's answers\n", i);
    }
    printf("%u/%u requests: tokens and logits as undivided", equal, r->count);
    if (equal < r->count)
        printf(", and %u not", r->count - equal);
    printf("\n");
    return equal == r->count;
}

int result_write(const struct result *r, const char *path, struct why *why)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return why_set(why, "%s: %s", path, strerror(errno));
    for (uint32_t i = 0; i < r->count; i++)
        fprintf(file, "%u %016llx %016llx\n", i, (unsigned long long)r->rows[i].tokens_digest,
                (unsigned long long)r->rows[i].logits_digest);
    const bool failed = ferror(file) != 0;
    return fclose(file) == 0 && !failed ? 0 : why_set(why, "%s cannot be written", path);
}
