/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics_page: see metrics_page.h. Readers use pread, not a mapping: a file that somebody cuts off is an error to
 * them, and no signal.
 */
#include "observe/metrics_page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/lockfile.h"

#define MAGIC UINT64_C(0x7363697274656d62) /* "bmetrics" */
#define TRIES 200                          /* of a reader, while the page is written */
#define STAYS_NS UINT64_C(60000000000)
#define ASKED_MOST 100 /* how often for the memory of a page, while signals come */

struct head {
    uint64_t magic, layout, bytes;
    uint64_t stays;
    _Atomic uint64_t stalled_ns;
    _Atomic uint64_t sequence; /* odd: the body is being written */
};

#define WORDS (sizeof(struct metrics_body) / sizeof(uint64_t))

struct file {
    struct head head;
    _Atomic uint64_t body[WORDS];
};

struct metrics_page {
    struct file *file; /* the mapping holds it */
    char path[METRICS_PATH_BYTES];
};

bool metrics_name_is_good(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strnlen(name, METRICS_NAME_BYTES);
    return n > 0 && n < METRICS_NAME_BYTES && strspn(name, allowed) == n;
}

/* ---- the rank's side --------------------------------------------------------------------------------------------- */

/* A signal ends the call on tmpfs of older kernels (EINTR), and what it had got is given back. */
static int reserve(int fd, size_t bytes)
{
    int error = posix_fallocate(fd, 0, (off_t)bytes);
    for (int asked = 1; error == EINTR && asked < ASKED_MOST; asked++)
        error = posix_fallocate(fd, 0, (off_t)bytes);
    return error;
}

/* The memory of a new file, which it holds. NULL with errno: EEXIST: the name is taken. */
static struct file *make_file(const char *root, const char *name, char path[METRICS_PATH_BYTES])
{
    int fd = metrics_folder_hold(root, name, path);
    if (fd < 0)
        return NULL;
    int error = reserve(fd, sizeof(struct file));
    void *at = error == 0 ? mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (error == 0 && (at == MAP_FAILED || madvise(at, sizeof(struct file), MADV_DONTFORK) != 0))
        error = errno;
    if (error != 0) {
        if (at != MAP_FAILED)
            munmap(at, sizeof(struct file));
        unlink(path);
    }
    close(fd);
    errno = error;
    return error == 0 ? at : NULL;
}

int metrics_page_create(const char *root, const char *job, uint32_t rank, bool stays, struct metrics_page **out)
{
    struct metrics_page *p = malloc(sizeof *p);
    if (p == NULL)
        return ENOMEM;
    p->file = NULL;
    errno = EEXIST;
    for (unsigned i = 0; i < METRICS_SAME_RANK && p->file == NULL && errno == EEXIST; i++) {
        char more[8] = "", name[METRICS_NAME_BYTES + 32];
        if (i > 0)
            snprintf(more, sizeof more, ".%u", i);
        snprintf(name, sizeof name, "%s" METRICS_MARK "%u%s", job, rank, more);
        p->file = make_file(root, name, p->path);
    }
    if (p->file == NULL) {
        int error = errno;
        free(p);
        return error;
    }
    struct head *head = &p->file->head;
    head->layout = METRICS_LAYOUT;
    head->bytes = sizeof(struct metrics_body);
    head->stays = stays;
    /* Release: who reads the magic finds the rest of the head. The sequence is 1, odd, until the first renewal. */
    atomic_store_explicit(&head->sequence, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    head->magic = MAGIC;
    *out = p;
    return 0;
}

static void put(struct metrics_page *p, const struct metrics_body *body, size_t from, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)(const void *)((const char *)body + from);
    _Atomic uint64_t *to = &p->file->body[from / sizeof *words];
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        atomic_store_explicit(&to[i], words[i], memory_order_relaxed);
}

void metrics_page_renew(struct metrics_page *p, const struct metrics_body *body, uint32_t changes)
{
    struct head *head = &p->file->head;
    const uint64_t odd = atomic_load_explicit(&head->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&head->sequence, odd, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* no word of the body is seen before the odd sequence is */
    put(p, body, 0, offsetof(struct metrics_body, path));
    for (unsigned i = 0; i < METRICS_PATHS; i++)
        if ((changes >> i & 1) != 0)
            put(p, body, offsetof(struct metrics_body, path) + i * sizeof body->path[0], sizeof body->path[0]);
    for (unsigned i = 0; i <= METRICS_PEERS; i++)
        if ((changes >> (METRICS_PATHS + i) & 1) != 0)
            put(p, body, offsetof(struct metrics_body, peer) + i * sizeof body->peer[0], sizeof body->peer[0]);
    atomic_store_explicit(&head->sequence, odd + 1, memory_order_release); /* all words are seen before it is even */
}

void metrics_page_stall(struct metrics_page *p, uint64_t since_ns)
{
    atomic_store_explicit(&p->file->head.stalled_ns, since_ns, memory_order_relaxed);
}

void metrics_page_destroy(struct metrics_page *p)
{
    if (p == NULL)
        return;
    if (!p->file->head.stays && unlink(p->path) == 0) {
        *strrchr(p->path, '/') = '\0';
        rmdir(p->path); /* fails where another file is in it */
    }
    munmap(p->file, sizeof *p->file);
    free(p);
}

/* ---- the readers' side ------------------------------------------------------------------------------------------- */

static bool read_whole(int fd, void *to, size_t bytes, off_t from)
{
    return pread(fd, to, bytes, from) == (ssize_t)bytes;
}

/* Why it cannot be opened. */
static int refuse(const char *path, int error, char why[METRICS_WHY_BYTES])
{
    struct stat status;
    if (error == EACCES && lstat(path, &status) == 0 && status.st_uid != geteuid())
        return METRICS_FOREIGN;
    snprintf(why, METRICS_WHY_BYTES, "%.160s cannot be opened: %s", path, strerror(error));
    return METRICS_NO_PAGE;
}

int metrics_view_open(const char *path, bool of_anybody, char why[METRICS_WHY_BYTES])
{
    struct stat status;
    struct head head;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return refuse(path, errno, why);
    bool is_there = fstat(fd, &status) == 0;
    if (is_there && status.st_uid != geteuid() && !of_anybody) {
        close(fd);
        return METRICS_FOREIGN;
    }
    const bool is_whole = is_there && S_ISREG(status.st_mode) && read_whole(fd, &head, sizeof head, 0);
    if ((!is_whole || head.magic == 0) && lockfile_is(fd)) {
        close(fd);
        return METRICS_NO_PAGE;
    }
    if (!is_whole || head.magic != MAGIC)
        snprintf(why, METRICS_WHY_BYTES, "%.160s is no page of Baton's metrics", path);
    else if (head.layout != METRICS_LAYOUT || head.bytes != sizeof(struct metrics_body))
        snprintf(why, METRICS_WHY_BYTES,
                 "%.160s has layout %llu, and this program reads layout %d: use the programs of the job's own version",
                 path, (unsigned long long)head.layout, METRICS_LAYOUT);
    else
        return fd;
    close(fd);
    return METRICS_NO_PAGE;
}

void metrics_text_clean(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    metrics_text_clean(text);
}

#define END(field) end_text(field, sizeof(field))

/* Another process wrote it, so it may be no body at all. */
static void make_sound(struct metrics_body *b)
{
    END(b->engine);
    END(b->host);
    END(b->version);
    if (b->num_peers > METRICS_PEERS)
        b->num_peers = METRICS_PEERS;
    for (unsigned i = 0; i <= METRICS_PEERS; i++)
        END(b->peer[i].engine);
}

/* The sequence after an acquire fence, so that what is read later is not older than it. -1: it cannot be read. */
static int64_t sequence_of(int fd)
{
    uint64_t sequence;
    if (!read_whole(fd, &sequence, sizeof sequence, offsetof(struct head, sequence)))
        return -1;
    atomic_thread_fence(memory_order_acquire);
    return (int64_t)(sequence & INT64_MAX);
}

bool metrics_view_read(int fd, struct metrics_view *view)
{
    struct metrics_body *body = malloc(sizeof *body);
    bool good = false;
    view->is_alive = lockfile_is(fd);
    for (unsigned i = 0; body != NULL && !good && i < TRIES; i++) {
        int64_t before = sequence_of(fd);
        if (before < 0)
            break;
        good = before % 2 == 0 && read_whole(fd, body, sizeof *body, offsetof(struct file, body));
        atomic_thread_fence(memory_order_acquire);
        good = good && sequence_of(fd) == before;
        if (!good)
            sched_yield();
    }
    if (good) {
        view->body = *body;
        make_sound(&view->body);
        if (!read_whole(fd, &view->stalled_ns, sizeof view->stalled_ns, offsetof(struct head, stalled_ns)))
            view->stalled_ns = 0;
    }
    free(body);
    return good;
}

struct search {
    const char *job;
    void (*found)(void *arg, const char *path);
    void *arg;
    unsigned num; /* pages so far */
};

static void search_folder(void *arg, const char *folder)
{
    struct search *s = arg;
    char path[METRICS_PATH_BYTES];
    const size_t length = s->job != NULL ? strlen(s->job) : 0;
    struct dirent *entry;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    while (dir != NULL && s->num < METRICS_MOST && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        bool is_one = strchr(name, METRICS_MARK[0]) != NULL &&
                      (s->job == NULL || (strncmp(name, s->job, length) == 0 && name[length] == METRICS_MARK[0]));
        if (is_one && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path) {
            s->found(s->arg, path);
            s->num++;
        }
    }
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

uint32_t metrics_pages_find(const char *root, const char *job, bool of_anybody,
                            void (*found)(void *arg, const char *path), void *arg)
{
    struct search search = {.job = job, .found = found, .arg = arg};
    return metrics_folders_find(root, of_anybody, search_folder, &search);
}

/* ---- pages of dead processes ------------------------------------------------------------------------------------- */

static void sweep_one(void *arg, const char *path)
{
    struct head head;
    struct stat status;
    uint64_t renewed_ns = 0;
    struct timespec now;
    (void)arg;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    bool is_ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    bool has_head = is_ours && read_whole(fd, &head, sizeof head, 0), is_page = has_head && head.magic == MAGIC;
    bool is_begun = is_ours && (status.st_size == 0 || (has_head && head.magic == 0));
    bool stays = is_page && head.stays != 0 && head.layout == METRICS_LAYOUT &&
                 read_whole(fd, &renewed_ns, sizeof renewed_ns,
                            (off_t)(offsetof(struct file, body) + offsetof(struct metrics_body, renewed_ns))) &&
                 now_ns < renewed_ns + STAYS_NS;
    close(fd);
    if (is_begun || (is_page && !stays))
        lockfile_remove(path); /* not a page that is just being made: that is held */
}

void metrics_pages_sweep(const char *root)
{
    metrics_pages_find(root, NULL, false, sweep_one, NULL);
    metrics_folders_tidy(root);
}
