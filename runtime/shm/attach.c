/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: cross-memory attach (process_vm_readv(2), process_vm_writev(2)). One call moves up to 1,024 pieces and 1 GiB:
 * the kernel takes no more pieces, and moves no more than 2 GiB less a page. The lists of so many are on the heap: the
 * thread may be any that makes turns, and its stack small. Those of a short slice are on the stack.
 * The copy workers' threads, and whoever makes turns.
 *
 * Before each call the process's descriptor must show it alive: bytes that were read of another process with the same
 * id are refused by the fence (shm.h), but what was written could not be taken back.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/process.h"
#include "shm/copy.h"

#define PIECES_MOST 1024 /* IOV_MAX */
#define PIECES_FEW 32    /* of a slice of at most SHORT_BYTES, or where there is no memory */
#define SHORT_BYTES (UINT64_C(128) << 10)
#define BYTES_MOST (UINT64_C(1) << 30)

/* Pieces of one side; touching ones are joined. */
struct side {
    struct iovec *piece;
    unsigned long num;
};

/* Room for the pieces of one call. */
struct room {
    uint32_t most;
    struct plan_run *runs;
    struct side side[2]; /* mine, theirs */
};

struct room_of_many {
    struct plan_run runs[PIECES_MOST];
    struct iovec pieces[2][PIECES_MOST];
};

static void add(struct side *s, char *at, uint64_t bytes)
{
    struct iovec *last = s->num > 0 ? &s->piece[s->num - 1] : NULL;
    if (last != NULL && (char *)last->iov_base + last->iov_len == at)
        last->iov_len += bytes;
    else
        s->piece[s->num++] = (struct iovec){at, bytes};
}

static int move_pieces(const struct process *process, bool write, const struct side *mine, const struct side *theirs,
                       uint64_t bytes)
{
    if (process_is(process) != PROCESS_ALIVE)
        return BATON_EPEER;
    ssize_t moved = write ? process_vm_writev(process->id, mine->piece, mine->num, theirs->piece, theirs->num, 0)
                          : process_vm_readv(process->id, mine->piece, mine->num, theirs->piece, theirs->num, 0);
    if (moved == (ssize_t)bytes)
        return 0;
    if (moved >= 0)
        errno = EFAULT; /* it stopped at memory that is not there */
    return errno == ESRCH ? BATON_EPEER : BATON_ESYSTEM;
}

static int move_slice(const struct process *process, bool write, const struct plan_transfer *transfer,
                      struct plan_cursor from, uint64_t bytes, const struct copy_side *mine,
                      const struct copy_side *theirs, struct room *room)
{
    struct side *side = room->side;
    const struct plan_run *runs = room->runs;
    uint32_t n;
    while (bytes > 0 &&
           (n = plan_next(transfer, &from, room->runs, room->most, bytes < BYTES_MOST ? bytes : BYTES_MOST)) > 0) {
        uint64_t sum = 0;
        if (!copy_holds(write ? mine : theirs, write ? theirs : mine, runs, n))
            return BATON_EMESSAGE;
        side[0].num = side[1].num = 0;
        for (uint32_t i = 0; i < n; i++) {
            const struct plan_run *r = &runs[i];
            add(&side[write ? 0 : 1], (write ? mine : theirs)->bases[r->src_region] + r->src, r->bytes);
            add(&side[write ? 1 : 0], (write ? theirs : mine)->bases[r->dst_region] + r->dst, r->bytes);
            sum += r->bytes;
        }
        int rc = move_pieces(process, write, &side[0], &side[1], sum);
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
    struct room room = {PIECES_FEW, runs, {{pieces[0], 0}, {pieces[1], 0}}};
    struct room_of_many *many = bytes > SHORT_BYTES ? malloc(sizeof *many) : NULL;
    if (many != NULL)
        room = (struct room){PIECES_MOST, many->runs, {{many->pieces[0], 0}, {many->pieces[1], 0}}};
    const int rc = move_slice(process, write, transfer, from, bytes, mine, theirs, &room);
    const int cause = errno; /* of a call that failed, for the log */
    free(many);
    errno = cause;
    return rc;
}
