/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-serve: a small disaggregated LLM server whose answers prove that Baton moved every byte right. Prefill engines
 * compute prompts, decode engines answer, and each answer is compared, bit for bit, with that of one undivided process.
 *
 *   batonrun --prefill 1x2 --decode 2x1 baton-serve [OPTION...]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/measure.h"
#include "engine/options.h"
#include "engine/result.h"
#include "engine/serve.h"
#include "engine/undivided.h"
#include "option/output.h"
#include "replay/clock.h"

enum { STATUS_GOOD = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

#define MEETING_NS (600 * NS_PER_S) /* the longest that ranks wait while others compare */
#define LOSS_NS (60 * NS_PER_S)     /* the same, where a rank was lost, which may be one of those */

/* ---- one process ------------------------------------------------------------------------------------------------- */

static int run_undivided(const struct options *o, const struct load *load, struct why *why)
{
    struct undivided u;
    struct result r;
    struct digest *digests = calloc(load->count, sizeof *digests);
    uint64_t tokens = 0;
    int rc = undivided_init(&u, &o->shape, load, why);
    if (result_init(&r, load->count) != 0 || digests == NULL)
        rc = why_set(why, "no memory for %u requests", load->count);
    const uint64_t begun_ns = clock_ns();
    for (uint32_t i = 0; rc == 0 && i < load->count; i++) {
        if (load->requests[i].root == i)
            undivided_run(&u, i, digests);
        r.rows[i].tokens_digest = (int64_t)digests[i].tokens; /* of a later turn: known since its conversation ran */
        r.rows[i].logits_digest = (int64_t)digests[i].logits;
        tokens += load->requests[i].output;
    }
    if (rc == 0)
        printf("%u requests, %llu tokens answered in %.1f s\n", load->count, (unsigned long long)tokens,
               (double)(clock_ns() - begun_ns) / 1e9);
    if (rc == 0 && o->output != NULL)
        rc = result_write(&r, o->output, why);
    undivided_fini(&u);
    result_fini(&r);
    free(digests);
    return rc;
}

/* ---- a world of engines ------------------------------------------------------------------------------------------ */

/* 0 if rc is 0 on all ranks, else -1 on all. The lowest rank that has an error prints it. */
static int agree(int rc, const struct why *why)
{
    int rank, size, mine, first;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = rc != 0 ? rank : size;
    if (MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request) != MPI_SUCCESS ||
        mates_wait(&request, MEETING_NS) != 0)
        baton_exit(STATUS_FAILED);
    if (rank == first)
        fprintf(stderr, "baton-serve: %s\n", why->text);
    return first < size ? -1 : 0;
}

static int read_role(baton_open_params_t *me, struct why *why)
{
    *me = (baton_open_params_t){.size = sizeof *me};
    const int rc = baton_role_from_env(me);
    if (rc < 0)
        return why_set(why, "%s", baton_errmsg());
    if (me->role != BATON_ROLE_PREFILL && me->role != BATON_ROLE_DECODE)
        return why_set(why, "%s has neither the role prefill nor decode", me->engine);
    return 0;
}

/* The decode ranks compare their answers with those of the undivided model; the first of them reports. */
static int judge(struct serve *s, struct result *r, MPI_Comm decode, uint64_t patience_ns, struct why *why)
{
    int rank, status = STATUS_GOOD;
    MPI_Comm_rank(decode, &rank);
    if (result_take(r, s) != 0) {
        serve_lost(s, why);
        fprintf(stderr, "baton-serve: %s\n", why->text);
        return STATUS_FAILED;
    }
    if (result_check(r, s, why) != 0) {
        fprintf(stderr, "baton-serve: %s\n", why->text);
        status = STATUS_FAILED;
    }
    if (result_gather(r, decode, patience_ns) != 0) {
        fprintf(stderr, "baton-serve: a decode rank did not come to compare answers\n");
        return STATUS_FAILED;
    }
    if (rank != 0)
        return status;
    if (!result_print(r))
        status = STATUS_FAILED;
    if (s->options->output != NULL && result_write(r, s->options->output, why) != 0) {
        fprintf(stderr, "baton-serve: %s\n", why->text);
        status = STATUS_FAILED;
    }
    return status;
}

/* Serves, closes Baton and compares. The process ends here if a rank was lost: MPI_Finalize would hang. */
static int serve(struct serve *s, struct result *r, MPI_Comm decode, struct why *why)
{
    const bool measures = s->options->measure > 0;
    int status = (measures ? measure_run(s, why) : serve_run(s, why)) == 0 ? STATUS_GOOD : STATUS_FAILED;
    if (status != STATUS_GOOD)
        fprintf(stderr, "baton-serve: %s\n", why->text);
    const int closed = glue_close(&s->glue, why);
    if (closed < 0)
        fprintf(stderr, "baton-serve: rank %d of %s: %s\n", s->mates.rank, s->glue.me.engine, why->text);
    if (status == STATUS_GOOD && glue_side(&s->glue) == SIDE_DECODE && !measures)
        status = judge(s, r, decode, closed < 0 ? LOSS_NS : MEETING_NS, why);
    status = output_finish("baton-serve", status, STATUS_FAILED);
    if (closed < 0 || s->mates.lost)
        baton_exit(status);
    return status;
}

static int run_world(const struct options *o, const struct load *load, struct why *why)
{
    struct serve s = {0};
    struct result r = {0};
    baton_open_params_t me;
    MPI_Comm decode;
    int status = STATUS_USAGE;
    MPI_Request request;
    if (agree(read_role(&me, why), why) != 0 || agree(serve_place(&s, o, &me, why), why) != 0 ||
        agree(serve_meet(&s, why), why) != 0)
        return STATUS_USAGE;
    MPI_Comm_split(MPI_COMM_WORLD, me.role == BATON_ROLE_DECODE, 0, &decode);
    int rc = result_init(&r, load->count);
    if (rc == 0)
        rc = serve_init(&s, load, why);
    if (agree(rc, why) == 0) {
        status = serve(&s, &r, decode, why);
    } else if (glue_close(&s.glue, why) < 0) {
        fprintf(stderr, "baton-serve: %s\n", why->text);
        baton_exit(STATUS_FAILED);
    }
    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS || mates_wait(&request, MEETING_NS) != 0)
        baton_exit(STATUS_FAILED);
    serve_fini(&s);
    result_fini(&r);
    MPI_Comm_free(&decode);
    return status;
}

int main(int argc, char **argv)
{
    struct options o;
    struct load load = {0};
    struct why why = {""};
    int level, status;
    int rc = options_read(&o, argc, argv, &why);
    if (rc == 0 && (o.help || o.version))
        return output_asked("baton-serve", o.help ? options_help : NULL, baton_version(), STATUS_FAILED);
    if (rc == 0 && o.measure > 0)
        measure_options(&o);
    if (rc == 0)
        rc = options_load(&o, &load, &why);
    if (rc == 0 && o.undivided) {
        rc = run_undivided(&o, &load, &why);
        load_fini(&load);
        if (rc != 0)
            fprintf(stderr, "baton-serve: %s\n", why.text);
        return output_finish("baton-serve", rc == 0 ? STATUS_GOOD : STATUS_USAGE, STATUS_FAILED);
    }
    setenv("UCX_LOG_FILE", "stderr", 0); /* UCX writes its warnings to standard output by default */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        fputs("baton-serve: MPI does not start\n", stderr);
        return STATUS_FAILED;
    }
    status = agree(rc, &why) == 0 ? run_world(&o, &load, &why) : STATUS_USAGE;
    load_fini(&load);
    MPI_Finalize();
    return status;
}
