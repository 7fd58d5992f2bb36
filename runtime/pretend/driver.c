/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver: of the pretended device (pretend.h). A call's pieces are copied by the thread; calls in an order of its own.
 */
#include "pretend/pretend.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

#define CALLS_MOST 32
#define PIECES_MOST 1024
#define LATER_MOST_NS 200000

enum call_state { CALL_FREE, CALL_WAITS, CALL_RUNS, CALL_ENDED };

struct copy_call {
    enum call_state state;
    bool to_device;
    uint64_t tag;
    int error;
    uint32_t num;
    baton_piece_t pieces[PIECES_MOST];
};

struct pretend_driver {
    uint8_t *device, *kernel;
    uint64_t bytes;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;
    bool stops;
    uint64_t random;
    struct copy_call calls[CALLS_MOST];
};

static uint64_t draw(struct pretend_driver *d)
{
    d->random = d->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return d->random >> 33;
}

/* One of those that wait, by lot. NULL: none does. */
static struct copy_call *draw_call(struct pretend_driver *d)
{
    uint64_t first = draw(d) % CALLS_MOST;
    for (uint64_t i = 0; i < CALLS_MOST; i++) {
        struct copy_call *c = &d->calls[(first + i) % CALLS_MOST];
        if (c->state == CALL_WAITS)
            return c;
    }
    return NULL;
}

static int run(const struct pretend_driver *d, const struct copy_call *c)
{
    for (uint32_t i = 0; i < c->num; i++) {
        const baton_piece_t *p = &c->pieces[i];
        uint64_t at = (uint64_t)((uint8_t *)p->device - d->device);
        if ((uint8_t *)p->device < d->device || at > d->bytes || p->bytes > d->bytes - at)
            return BATON_EINVAL; /* no memory of this device */
        memcpy(c->to_device ? d->kernel + at : p->host, c->to_device ? p->host : d->kernel + at, p->bytes);
    }
    return 0;
}

static void *driver_main(void *arg)
{
    struct pretend_driver *d = arg;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        struct copy_call *c = draw_call(d);
        if (c == NULL && d->stops)
            break;
        if (c == NULL) {
            pthread_cond_wait(&d->work, &d->lock);
            continue;
        }
        c->state = CALL_RUNS;
        long later = (long)(draw(d) % LATER_MOST_NS);
        pthread_mutex_unlock(&d->lock);
        nanosleep(&(struct timespec){.tv_nsec = later}, NULL);
        c->error = run(d, c);
        pthread_mutex_lock(&d->lock);
        c->state = CALL_ENDED;
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static int driver_copy(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag)
{
    struct pretend_driver *d = self;
    struct copy_call *c = NULL;
    if (num > PIECES_MOST)
        return BATON_EINVAL;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < CALLS_MOST && c == NULL; i++)
        c = d->calls[i].state == CALL_FREE ? &d->calls[i] : NULL;
    if (c != NULL) {
        c->to_device = to_device != 0;
        c->tag = tag;
        c->num = num;
        memcpy(c->pieces, pieces, num * sizeof *pieces);
        c->state = CALL_WAITS;
        pthread_cond_signal(&d->work);
    }
    pthread_mutex_unlock(&d->lock);
    return c != NULL ? 0 : BATON_EAGAIN;
}

static int driver_poll(void *self, uint64_t *tags, int *errors, int max)
{
    struct pretend_driver *d = self;
    int n = 0;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < CALLS_MOST && n < max; i++) {
        struct copy_call *c = &d->calls[i];
        if (c->state != CALL_ENDED)
            continue;
        tags[n] = c->tag;
        errors[n++] = c->error;
        c->state = CALL_FREE;
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}

int pretend_driver_create(uint8_t *device, uint8_t *kernel, uint64_t bytes, struct pretend_driver **out)
{
    struct pretend_driver *d = calloc(1, sizeof *d);
    if (d == NULL)
        return BATON_ENOMEM;
    d->device = device;
    d->kernel = kernel;
    d->bytes = bytes;
    d->random = (uint64_t)(uintptr_t)device;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    if (thread_start(&d->thread, "baton-pretend", NULL, driver_main, d) != 0) {
        free(d);
        return BATON_ESYSTEM;
    }
    *out = d;
    return 0;
}

void pretend_driver_destroy(struct pretend_driver *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    d->stops = true;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

baton_driver_t pretend_driver_table(struct pretend_driver *d)
{
    return (baton_driver_t){.size = sizeof(baton_driver_t),
                            .name = "pretended device",
                            .self = d,
                            .copy = driver_copy,
                            .poll = driver_poll};
}
