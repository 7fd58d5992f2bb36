/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: cross-memory attach (process_vm_readv(2), process_vm_writev(2)). One call moves up to 1,024 pieces and 1 GiB:
 * the kernel takes no more pieces, and moves no more than 2 GiB less a page. The lists of so many are on the heap: the
 * thread may be any that makes turns, and its stack small. Those of a short slice are on the stack. The copy workers'
 * threads, and whoever makes turns.
 *
 * THE PROOF. The kernel knows the other process by its id. Another process may have that after its end, and another
 * program after execve(2), while the generation lives on in shared memory. So each call that reads takes the sample of
 * the program (base/process.h) along with the bytes. One call looks into one memory from its first piece to its last,
 * whatever the process does meanwhile: where the sample is right, the bytes are of the program that made the offer, and
 * else they are refused.
 *
 * What is written cannot be taken back, and a call that writes reads nothing. So the sample is read just before, and is
 * the first piece that is written: to the right program that changes nothing, and where nothing can be written in its
 * place, the call ends before the next piece. One chance is left: the process runs another program by the time of the
 * second call, microseconds after the first, and that program has already mapped memory where the sample was. Then the
 * bytes are written into it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/process.h"
#include "shm/copy.h"

#define PIECES_MOST 1024 /* IOV_MAX */
#define PIECES_FEW 33    /* of a slice of at most SHORT_BYTES, or where there is no memory: the sample and 32 blocks */
#define SHORT_BYTES (UINT64_C(128) << 10)
#define BYTES_MOST (UINT64_C(1) << 30)

/* Pieces of one side; touching ones are joined. */
struct side {
    struct iovec *piece;
    unsigned long num;
};

/* Room for the pieces of one call, the sample and the runs. */
struct room {
    uint32_t most_runs;
    struct plan_run *runs;
    struct side side[2]; /* mine, theirs */
};

struct room_of_many {
    struct plan_run runs[PIECES_MOST];
    struct iovec pieces[2][PIECES_MOST];
};

static void add(struct side *s, const void *at, uint64_t bytes)
{
    struct iovec *last = s->num > 0 ? &s->piece[s->num - 1] : NULL;
    if (last != NULL && (const char *)last->iov_base + last->iov_len == (const char *)at)
        last->iov_len += bytes;
    else
        s->piece[s->num++] = (struct iovec){(void *)(uintptr_t)at, bytes};
}

static bool is_right(const struct process_sample *s, const uint8_t *found)
{
    return s->known != NULL && memcmp(found, s->known, PROCESS_SAMPLE_BYTES) == 0;
}

/* Why the kernel refused a call. Who has the id of a process that has ended may be another user's. */
static int refusal_of(const struct process *process, int cause)
{
    const bool has_ended = cause == ESRCH || process_is(process) == PROCESS_DEAD;
    errno = cause;
    return has_ended ? BATON_EPEER : BATON_ESYSTEM;
}

/* The outcome of a call that moved some bytes, the sample first. `found`: the sample as it was read; NULL: it was
 * written. */
static int result_of(const struct process *process, ssize_t moved, uint64_t bytes, const uint8_t *found)
{
    if (moved < 0 && errno != EFAULT)
        return refusal_of(process, errno);
    if (moved < PROCESS_SAMPLE_BYTES || (found != NULL && !is_right(&process->sample, found)))
        return BATON_EPEER; /* it runs another program */
    errno = EFAULT;         /* where it stopped at memory that is not there */
    return (uint64_t)moved == bytes ? 0 : BATON_ESYSTEM;
}

/* Both sides begin with the sample. */
static int move_pieces(const struct process *process, bool write, const struct side *mine, const struct side *theirs,
                       uint64_t bytes, const uint8_t *found)
{
    ssize_t moved = write ? process_vm_writev(process->id, mine->piece, mine->num, theirs->piece, theirs->num, 0)
                          : process_vm_readv(process->id, mine->piece, mine->num, theirs->piece, theirs->num, 0);
    return result_of(process, moved, bytes, write ? NULL : found);
}

/* Before a write: whether it is still the program that the sample is of. */
static int ask(const struct process *process)
{
    uint8_t found[PROCESS_SAMPLE_BYTES];
    if (process_is(process) == PROCESS_DEAD)
        return BATON_EPEER;
    const struct iovec mine = {found, sizeof found}, theirs = {(void *)(uintptr_t)process->sample.at, sizeof found};
    ssize_t moved = process_vm_readv(process->id, &mine, 1, &theirs, 1, 0);
    return result_of(process, moved, sizeof found, found);
}

static int move_slice(const struct process *process, bool write, const struct plan_transfer *transfer,
                      struct plan_cursor from, uint64_t bytes, const struct copy_side *mine,
                      const struct copy_side *theirs, struct room *room)
{
    struct side *side = room->side;
    const struct plan_run *runs = room->runs;
    uint8_t found[PROCESS_SAMPLE_BYTES];
    uint32_t n;
    while (bytes > 0 &&
           (n = plan_next(transfer, &from, room->runs, room->most_runs, bytes < BYTES_MOST ? bytes : BYTES_MOST)) > 0) {
        uint64_t sum = 0;
        if (!copy_holds(write ? mine : theirs, write ? theirs : mine, runs, n))
            return BATON_EMESSAGE;
        side[0].num = side[1].num = 0;
        add(&side[0], write ? process->sample.known : found, sizeof found);
        add(&side[1], (const void *)(uintptr_t)process->sample.at, sizeof found);
        for (uint32_t i = 0; i < n; i++) {
            const struct plan_run *r = &runs[i];
            add(&side[write ? 0 : 1], (write ? mine : theirs)->bases[r->src_region] + r->src, r->bytes);
            add(&side[write ? 1 : 0], (write ? theirs : mine)->bases[r->dst_region] + r->dst, r->bytes);
            sum += r->bytes;
        }
        int rc = write ? ask(process) : 0;
        if (rc == 0)
            rc = move_pieces(process, write, &side[0], &side[1], sum + sizeof found, found);
        if (rc != 0)
            return rc;
        bytes -= sum;
    }
    return 0;
}

int attach_slice(const struct process *process, bool write, const struct plan_transfer *transfer,
                 struct plan_cursor from, uint64_t bytes, const struct copy_side *mine, const struct copy_side *theirs)
{
    struct plan_run runs[PIECES_FEW];
    struct iovec pieces[2][PIECES_FEW];
    struct room room = {PIECES_FEW - 1, runs, {{pieces[0], 0}, {pieces[1], 0}}};
    struct room_of_many *many = bytes > SHORT_BYTES ? malloc(sizeof *many) : NULL;
    if (many != NULL)
        room = (struct room){PIECES_MOST - 1, many->runs, {{many->pieces[0], 0}, {many->pieces[1], 0}}};
    const int rc = move_slice(process, write, transfer, from, bytes, mine, theirs, &room);
    const int cause = errno; /* of a call that failed, for the log */
    free(many);
    errno = cause;
    return rc;
}
