/* SPDX-License-Identifier: BSD-3-Clause */
/* near: see near.h. What the card says is another process's word: files are compared, and lengths checked. */
#include "memory/near.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd /* headers of before Linux 5.6; an older kernel says that it knows no such call */
#define SYS_pidfd_getfd 438
#endif

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

/*
 * A descriptor of another process. -1 with errno: not permitted, or there is none. A copy of theirs is several times
 * quicker to get than their file is to be opened anew, which may permit writing where theirs does not.
 */
static int open_theirs(const struct process *process, uint32_t descriptor, bool *is_writable)
{
    char name[64];
    int copy = (int)syscall(SYS_pidfd_getfd, process->descriptor, descriptor, 0);
    *is_writable = copy >= 0 && (fcntl(copy, F_GETFL) & O_ACCMODE) == O_RDWR;
    if (*is_writable)
        return copy;
    snprintf(name, sizeof name, "/proc/%d/fd/%" PRIu32, process->id, descriptor);
    int opened = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    *is_writable = opened >= 0;
    if (*is_writable && copy >= 0)
        close(copy);
    if (*is_writable)
        return opened;
    return copy >= 0 ? copy : open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* Regions of one file. */
struct piece {
    const struct wire_region *const *region;
    uint32_t num;
};

/* The size of the pages that a file is mapped by: of hugetlbfs, whose blocks are its pages, that of a huge page. */
static uint64_t page_of(const struct stat *s)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), block = s->st_blksize > 0 ? (uint64_t)s->st_blksize : 0;
    return block > page && block % page == 0 ? block : page;
}

/* The bytes [begin, end) of the file that they need, in whole pages. False: it is another file, or shorter. */
static bool extent_of(const struct piece *p, int descriptor, uint64_t *begin, uint64_t *end)
{
    const struct wire_region *first = p->region[0];
    struct stat s;
    if (fstat(descriptor, &s) != 0 || s.st_dev != first->device || s.st_ino != first->inode)
        return false;
    *begin = UINT64_MAX;
    *end = 0;
    for (uint32_t i = 0; i < p->num; i++) {
        const struct wire_region *r = p->region[i];
        if (r->offset > (uint64_t)s.st_size || r->bytes > (uint64_t)s.st_size - r->offset)
            return false;
        *begin = r->offset < *begin ? r->offset : *begin;
        *end = r->offset + r->bytes > *end ? r->offset + r->bytes : *end;
    }
    uint64_t page = page_of(&s);
    *begin -= *begin % page;
    *end += (page - *end % page) % page;
    return true;
}

static bool map_file(struct memory_near *n, const struct wire_card *card, const struct piece *p,
                     const struct process *process)
{
    uint64_t begin, end;
    void *at = MAP_FAILED;
    bool is_writable;
    ptrdiff_t first = p->region[0] - card->regions;
    int descriptor = open_theirs(process, p->region[0]->descriptor, &is_writable);
    errno = descriptor >= 0 ? ESTALE : errno; /* for a file that is not the one told */
    if (descriptor >= 0 && extent_of(p, descriptor, &begin, &end)) {
        if (is_writable)
            at = mmap(NULL, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, (off_t)begin);
        is_writable = at != MAP_FAILED;
        if (!is_writable) /* sealed, say */
            at = mmap(NULL, end - begin, PROT_READ, MAP_SHARED, descriptor, (off_t)begin);
    }
    int error = errno;
    if (descriptor >= 0)
        close(descriptor);
    if (at == MAP_FAILED) {
        snprintf(n->why, sizeof n->why, "region %td cannot be mapped: %s", first, strerror(error));
        return false;
    }
    if (!is_writable) {
        n->is_writable = false;
        snprintf(n->why, sizeof n->why, "region %td can be mapped for reading alone", first);
    }
    n->mappings[n->num_mappings] = at;
    n->lengths[n->num_mappings++] = end - begin;
    for (uint32_t i = 0; i < p->num; i++)
        n->mapped[p->region[i] - card->regions] = (char *)at + (p->region[i]->offset - begin);
    return true;
}

static int by_file(const void *a, const void *b)
{
    const struct wire_region *x = *(const struct wire_region *const *)a, *y = *(const struct wire_region *const *)b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Each file once, for all regions that lie in it. */
static bool map_files(struct memory_near *n, const struct wire_card *card, const struct process *process,
                      const struct wire_region **by)
{
    const uint32_t num = card->num_regions;
    bool is_mapped = true;
    n->is_writable = true;
    for (uint32_t i = 0; i < num; i++)
        by[i] = &card->regions[i];
    qsort(by, num, sizeof *by, by_file);
    for (uint32_t i = 0; i < num && is_mapped;) {
        struct piece p = {&by[i], 0};
        while (i < num && by_file(&p.region[0], &by[i]) == 0)
            p.num++, i++;
        is_mapped = map_file(n, card, &p, process);
    }
    return is_mapped;
}

static bool map_all(struct memory_near *n, const struct wire_card *card, const struct process *process)
{
    for (uint32_t i = 0; i < card->num_regions; i++)
        if (card->regions[i].descriptor == WIRE_NO_FILE) {
            snprintf(n->why, sizeof n->why, "region %" PRIu32 " is private memory", i);
            return false;
        }
    const struct wire_region **by = malloc(card->num_regions * sizeof *by);
    if (by == NULL) {
        snprintf(n->why, sizeof n->why, "no memory for %" PRIu32 " regions", card->num_regions);
        return false;
    }
    bool is_mapped = map_files(n, card, process, by);
    free(by);
    return is_mapped;
}

static void unmap_all(struct memory_near *n)
{
    for (uint32_t i = 0; i < n->num_mappings; i++)
        munmap(n->mappings[i], n->lengths[i]);
    n->num_mappings = 0;
}

/* ---- attaching --------------------------------------------------------------------------------------------------- */

static bool reads_sample(struct memory_near *n, const struct process *process)
{
    uint8_t found[PROCESS_SAMPLE_BYTES];
    const struct iovec mine = {found, sizeof found}, theirs = {(void *)(uintptr_t)process->sample.at, sizeof found};
    ssize_t got = process_vm_readv(process->id, &mine, 1, &theirs, 1, 0);
    int error = errno;
    if (got == (ssize_t)sizeof found && memcmp(found, process->sample.known, sizeof found) == 0)
        return true;
    snprintf(n->why, sizeof n->why, "cross-memory attach to process %d fails: %s", process->id,
             got < 0 ? strerror(error) : "other bytes are there");
    return false;
}

#define ENDS_A_CALL 1024 /* IOV_MAX */

/* The first and the last byte of each region. */
static bool reads_regions(struct memory_near *n, const struct wire_card *card, const struct process *process)
{
    struct iovec theirs[ENDS_A_CALL];
    uint8_t ends[ENDS_A_CALL];
    uint32_t i = 0;
    while (i < card->num_regions) {
        unsigned long num = 0;
        for (; i < card->num_regions && num < ENDS_A_CALL; i++) {
            const struct wire_region *r = &card->regions[i];
            theirs[num++] = (struct iovec){(void *)(uintptr_t)r->address, 1};
            theirs[num++] = (struct iovec){(void *)(uintptr_t)(r->address + r->bytes - 1), 1};
        }
        const struct iovec mine = {ends, num};
        ssize_t got = process_vm_readv(process->id, &mine, 1, theirs, num, 0);
        if (got != (ssize_t)num) {
            uint32_t first = i - (uint32_t)num / 2;
            snprintf(n->why, sizeof n->why, "region %" PRIu32 " cannot be read by cross-memory attach: %s",
                     first + (got > 0 ? (uint32_t)got / 2 : 0), strerror(got < 0 ? errno : EFAULT));
            return false;
        }
    }
    return true;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool attaches(struct memory_near *n, const struct wire_card *card, const struct memory_segment *segment)
{
    for (uint32_t i = 0; i < card->num_regions; i++)
        n->addresses[i] = (char *)(uintptr_t)card->regions[i].address;
    if (!reads_sample(n, segment->process) || !reads_regions(n, card, segment->process))
        return false;
    bool was_read = process_is(segment->process) == PROCESS_ALIVE; /* and no other with its id */
    if (!was_read)
        snprintf(n->why, sizeof n->why, "its process ended while its memory was read");
    return was_read;
}

static void find_engine(struct memory_near *n, const struct wire_card *card, const struct memory_segment *segment)
{
    for (uint32_t i = 0; i < card->num_regions; i++)
        if (wire_region_is_device(&card->regions[i])) {
            snprintf(n->why, sizeof n->why, "region %" PRIu32 " is a device's memory", i);
            return;
        }
    if (process_alive(segment->process) != PROCESS_ALIVE) {
        snprintf(n->why, sizeof n->why, "its process has ended or is not known here (another namespace, or no pidfd)");
        return;
    }
    if (!map_all(n, card, segment->process))
        unmap_all(n);
    else
        n->read = (struct memory_way){MEMORY_MAPPED, n->mapped};
    if (n->read.reach == MEMORY_MAPPED && n->is_writable) {
        n->write = n->read;
    } else if (attaches(n, card, segment)) {
        n->write = (struct memory_way){MEMORY_ATTACHED, n->addresses}; /* as far as the process itself may write */
        if (n->read.reach == MEMORY_OUT_OF_REACH)
            n->read = n->write;
    }
}

int memory_near_find(struct memory_near *n, const struct wire_card *card, const struct memory_segment *segment)
{
    uint32_t num = card->num_regions > 0 ? card->num_regions : 1;
    *n = (struct memory_near){0};
    if (!card->has_geometry)
        return 0;
    n->mapped = calloc(num, sizeof *n->mapped);
    n->addresses = calloc(num, sizeof *n->addresses);
    n->places = calloc(num, sizeof *n->places);
    n->mappings = calloc(num, sizeof *n->mappings);
    n->lengths = calloc(num, sizeof *n->lengths);
    if (n->mapped == NULL || n->addresses == NULL || n->places == NULL || n->mappings == NULL || n->lengths == NULL) {
        memory_near_fini(n);
        return BATON_ENOMEM;
    }
    n->regions = (struct path_regions){card->num_regions > 0, num, n->places};
    n->places[0] = (struct path_region){card->pool_offset, card->pool_bytes, false};
    for (uint32_t i = 0; i < card->num_regions; i++)
        n->places[i] = (struct path_region){card->regions[i].address, card->regions[i].bytes,
                                            wire_region_is_device(&card->regions[i])};
    if (card->num_regions > 0) {
        find_engine(n, card, segment);
        return 0;
    }
    if (card->pool_offset > segment->bytes || card->pool_bytes > segment->bytes - card->pool_offset)
        return BATON_EMESSAGE;
    n->mapped[0] = (char *)(uintptr_t)segment->mapped + card->pool_offset;
    n->read = n->write = (struct memory_way){MEMORY_MAPPED, n->mapped};
    return 0;
}

void memory_near_fini(struct memory_near *n)
{
    unmap_all(n);
    free(n->mapped);
    free(n->addresses);
    free(n->places);
    free(n->mappings);
    free(n->lengths);
    *n = (struct memory_near){0};
}
