/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: cross-memory attach (process_vm_readv(2), process_vm_writev(2)). One call moves up to 1,024 pieces and 1 GiB:
 * the kernel takes no more pieces, and moves no more than 2 GiB less a page. The copy workers' threads.
 *
 * Before each call the process's descriptor must show it alive: bytes that were read of another process with the same
 * id are refused by the fence (shm.h), but what was written could not be taken back.
 */
#include <errno.h>
#include <sys/uio.h>

#include "base/process.h"
#include "shm/copy.h"

#define PIECES_MOST 1024 /* IOV_MAX */
#define BYTES_MOST (UINT64_C(1) << 30)

/* Pieces of one side; touching ones are joined. */
struct side {
    struct iovec piece[PIECES_MOST];
    unsigned long num;
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

int attach_slice(const struct process *process, bool write, const struct plan_transfer *transfer,
                 struct plan_cursor from, uint64_t bytes, const struct copy_side *mine, const struct copy_side *theirs)
{
    struct plan_run runs[PIECES_MOST];
    struct side side[2]; /* mine, theirs */
    uint32_t n;
    while (bytes > 0 &&
           (n = plan_next(transfer, &from, runs, PIECES_MOST, bytes < BYTES_MOST ? bytes : BYTES_MOST)) > 0) {
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
