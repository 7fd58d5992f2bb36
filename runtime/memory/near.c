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

static void reach_by(struct memory_way *way, ptrdiff_t region, enum memory_reach reach, char *base)
{
    way->reach[region] = reach;
    way->bases[region] = base;
}

static void map_file(struct memory_near *n, const struct wire_card *card, const struct piece *p,
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
        return;
    }
    if (!is_writable)
        snprintf(n->why, sizeof n->why, "region %td can be mapped for reading alone", first);
    n->mappings[n->num_mappings] = at;
    n->lengths[n->num_mappings++] = end - begin;
    for (uint32_t i = 0; i < p->num; i++) {
        char *base = (char *)at + (p->region[i]->offset - begin);
        reach_by(&n->read, p->region[i] - card->regions, MEMORY_MAPPED, base);
        if (is_writable)
            reach_by(&n->write, p->region[i] - card->regions, MEMORY_MAPPED, base);
    }
}

static int by_file(const void *a, const void *b)
{
    const struct wire_region *x = *(const struct wire_region *const *)a, *y = *(const struct wire_region *const *)b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Puts those that lie in files into `by`, and returns their number. Of the others the first is told, and why. */
static uint32_t with_files(struct memory_near *n, const struct wire_card *card, const struct wire_region **by)
{
    uint32_t num = 0;
    for (uint32_t i = 0; i < card->num_regions; i++) {
        const struct wire_region *r = &card->regions[i];
        bool is_device = wire_region_is_device(r);
        if (!is_device && r->descriptor != WIRE_NO_FILE)
            by[num++] = r;
        else if (n->why[0] == '\0')
            snprintf(n->why, sizeof n->why, "region %" PRIu32 " is %s memory", i, is_device ? "a device's" : "private");
    }
    return num;
}

/* Each file once, for all regions that lie in it. */
static void map_files(struct memory_near *n, const struct wire_card *card, const struct process *process,
                      const struct wire_region **by)
{
    const uint32_t num = with_files(n, card, by);
    qsort(by, num, sizeof *by, by_file);
    for (uint32_t i = 0; i < num;) {
        struct piece p = {&by[i], 0};
        while (i < num && by_file(&p.region[0], &by[i]) == 0)
            p.num++, i++;
        map_file(n, card, &p, process);
    }
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

static void attach(struct memory_near *n, const struct wire_card *card, uint32_t region)
{
    char *address = (char *)(uintptr_t)card->regions[region].address;
    if (n->read.reach[region] == MEMORY_OUT_OF_REACH)
        reach_by(&n->read, region, MEMORY_ATTACHED, address);
    reach_by(&n->write, region, MEMORY_ATTACHED, address); /* as far as the process itself may write */
}

/*
 * Attaches regions from *at on that cannot be written yet, as many as one call takes, by reading the first and the last
 * byte of each. *at moves behind them, or behind the first that cannot be read. False: nothing of the process can be.
 */
static bool attach_some(struct memory_near *n, const struct wire_card *card, const struct process *process,
                        uint32_t *at)
{
    struct iovec theirs[ENDS_A_CALL];
    uint32_t which[ENDS_A_CALL / 2];
    uint8_t ends[ENDS_A_CALL];
    unsigned long num = 0;
    for (; *at < card->num_regions && num < ENDS_A_CALL; ++*at) {
        const struct wire_region *r = &card->regions[*at];
        if (wire_region_is_device(r) || n->write.reach[*at] != MEMORY_OUT_OF_REACH)
            continue;
        which[num / 2] = *at;
        theirs[num++] = (struct iovec){(void *)(uintptr_t)r->address, 1};
        theirs[num++] = (struct iovec){(void *)(uintptr_t)(r->address + r->bytes - 1), 1};
    }
    const struct iovec mine = {ends, num};
    ssize_t got = num > 0 ? process_vm_readv(process->id, &mine, 1, theirs, num, 0) : 0;
    int error = got < 0 ? errno : EFAULT;
    uint32_t read = got > 0 ? (uint32_t)got / 2 : 0;
    for (uint32_t i = 0; i < read; i++)
        attach(n, card, which[i]);
    if (read == num / 2)
        return true;
    snprintf(n->why, sizeof n->why, "region %" PRIu32 " cannot be read by cross-memory attach: %s", which[read],
             strerror(error));
    *at = which[read] + 1;
    return error == EFAULT;
}

/* Whether a region that is no device's cannot be written yet. */
static bool lacks_any(const struct memory_near *n, const struct wire_card *card)
{
    uint32_t i = 0;
    while (i < card->num_regions &&
           (wire_region_is_device(&card->regions[i]) || n->write.reach[i] != MEMORY_OUT_OF_REACH))
        i++;
    return i < card->num_regions;
}

static void detach(struct memory_way *way, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++)
        if (way->reach[i] == MEMORY_ATTACHED)
            reach_by(way, i, MEMORY_OUT_OF_REACH, NULL);
}

static void attach_all(struct memory_near *n, const struct wire_card *card, const struct process *process)
{
    if (!reads_sample(n, process))
        return;
    for (uint32_t at = 0; at < card->num_regions && attach_some(n, card, process, &at);)
        continue;
    if (process_is(process) == PROCESS_ALIVE) /* and no other with its id */
        return;
    snprintf(n->why, sizeof n->why, "its process ended while its memory was read");
    detach(&n->read, card->num_regions);
    detach(&n->write, card->num_regions);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int find_engine(struct memory_near *n, const struct wire_card *card, const struct memory_segment *segment)
{
    if (process_alive(segment->process) != PROCESS_ALIVE) {
        snprintf(n->why, sizeof n->why, "its process has ended or is not known here (another namespace, or no pidfd)");
        return 0;
    }
    const struct wire_region **by = malloc(card->num_regions * sizeof *by);
    if (by == NULL)
        return BATON_ENOMEM;
    map_files(n, card, segment->process, by);
    free(by);
    if (lacks_any(n, card))
        attach_all(n, card, segment->process);
    return 0;
}

static bool has_room(const struct memory_near *n)
{
    return n->read.reach != NULL && n->read.bases != NULL && n->write.reach != NULL && n->write.bases != NULL &&
           n->places != NULL && n->mappings != NULL && n->lengths != NULL;
}

static struct memory_way way_new(uint32_t num)
{
    return (struct memory_way){calloc(num, sizeof(enum memory_reach)), calloc(num, sizeof(char *))};
}

static void way_free(struct memory_way *way)
{
    free(way->reach);
    free(way->bases);
}

int memory_near_find(struct memory_near *n, const struct wire_card *card, const struct memory_segment *segment)
{
    uint32_t num = card->num_regions > 0 ? card->num_regions : 1;
    *n = (struct memory_near){0};
    if (!card->has_geometry)
        return 0;
    n->read = way_new(num);
    n->write = way_new(num);
    n->places = calloc(num, sizeof *n->places);
    n->mappings = calloc(num, sizeof *n->mappings);
    n->lengths = calloc(num, sizeof *n->lengths);
    if (!has_room(n)) {
        memory_near_fini(n);
        return BATON_ENOMEM;
    }
    n->regions = (struct path_regions){card->num_regions > 0, num, n->places};
    n->places[0] = (struct path_region){card->pool_offset, card->pool_bytes, false};
    for (uint32_t i = 0; i < card->num_regions; i++)
        n->places[i] = (struct path_region){card->regions[i].address, card->regions[i].bytes,
                                            wire_region_is_device(&card->regions[i])};
    if (card->num_regions > 0) {
        int rc = find_engine(n, card, segment);
        if (rc != 0)
            memory_near_fini(n);
        return rc;
    }
    if (card->pool_offset > segment->bytes || card->pool_bytes > segment->bytes - card->pool_offset)
        return BATON_EMESSAGE;
    reach_by(&n->read, 0, MEMORY_MAPPED, (char *)(uintptr_t)segment->mapped + card->pool_offset);
    reach_by(&n->write, 0, MEMORY_MAPPED, n->read.bases[0]);
    return 0;
}

bool memory_near_is_writable(const struct memory_near *n)
{
    uint32_t i = 0;
    while (i < n->regions.num && (n->read.reach[i] == MEMORY_OUT_OF_REACH || n->write.reach[i] != MEMORY_OUT_OF_REACH))
        i++;
    return i == n->regions.num;
}

void memory_near_fini(struct memory_near *n)
{
    unmap_all(n);
    way_free(&n->read);
    way_free(&n->write);
    free(n->places);
    free(n->mappings);
    free(n->lengths);
    *n = (struct memory_near){0};
}
