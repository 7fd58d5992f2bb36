/* SPDX-License-Identifier: BSD-3-Clause */
/* attached: see the header. */
#include "bench/attached.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/fail.h"

#define PIECES_MOST 1024u /* IOV_MAX */

static void read_part(void *arg, unsigned part, unsigned parts)
{
    struct attached *a = arg;
    uint32_t at = (uint32_t)((uint64_t)a->batch * part / parts);
    const uint32_t end = (uint32_t)((uint64_t)a->batch * (part + 1) / parts);
    while (at < end) {
        uint32_t n = end - at < PIECES_MOST ? end - at : PIECES_MOST;
        ssize_t want = (ssize_t)(n * a->stage->block_bytes);
        if (process_vm_readv(a->process, &a->mine_piece[at], n, &a->their_piece[at], n, 0) != want)
            atomic_fetch_add(&a->failed, 1);
        at += n;
    }
}

void attached_open(struct attached *a, struct stage *s)
{
    const struct bench *b = s->bench;
    struct {
        uint64_t base;
        int process;
    } told = {(uint64_t)(uintptr_t)s->context.pool, getpid()};
    memset(a, 0, sizeof *a);
    a->stage = s;
    MPI_Bcast(&told, sizeof told, MPI_BYTE, b->producer, b->roster.comm);
    a->process = told.process;
    a->theirs = (char *)(uintptr_t)told.base;
    if (!bench_is_consumer(b))
        return;
    stage_crew(&a->crew);
    a->mine_piece = calloc(s->max_batch, sizeof *a->mine_piece);
    a->their_piece = calloc(s->max_batch, sizeof *a->their_piece);
    if (!a->mine_piece || !a->their_piece)
        fail("out of memory for %u pieces", s->max_batch);
}

void attached_close(struct attached *a)
{
    crew_stop(&a->crew);
    free(a->mine_piece);
    free(a->their_piece);
}

uint64_t attached_read(struct attached *a, uint32_t batch)
{
    struct stage *s = a->stage;
    stage_draw(s, batch);
    a->batch = batch;
    for (uint32_t i = 0; i < batch; i++) {
        a->mine_piece[i] = (struct iovec){s->context.pool + s->target_ids[i] * s->block_bytes, s->block_bytes};
        a->their_piece[i] = (struct iovec){a->theirs + s->source_ids[i] * s->block_bytes, s->block_bytes};
    }
    const uint64_t ns = crew_run(&a->crew, read_part, a);
    if (atomic_load(&a->failed) > 0)
        fail("process_vm_readv of process %d fails: %s", a->process, strerror(errno));
    return ns;
}
