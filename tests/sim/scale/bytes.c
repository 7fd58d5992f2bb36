/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes: see scale.h. The linker puts these functions in the place of malloc and the others. */
#include "scale.h"

#include <malloc.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);
void *__wrap_spare_calloc(size_t bytes);
void __wrap_spare_free(void *p, size_t bytes);

static struct bytes *owner;

struct bytes *bytes_of(struct bytes *of)
{
    struct bytes *former = owner;
    owner = of;
    return former;
}

static void count(int64_t change)
{
    if (owner == NULL)
        return;
    owner->now += change;
    owner->most = owner->now > owner->most ? owner->now : owner->most;
}

/* What the allocator really gave. */
static int64_t size_of(void *p)
{
    return p != NULL ? (int64_t)malloc_usable_size(p) : 0;
}

void *__wrap_malloc(size_t size)
{
    void *p = __real_malloc(size);
    count(size_of(p));
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = __real_calloc(n, size);
    count(size_of(p));
    return p;
}

void *__wrap_realloc(void *p, size_t size)
{
    const int64_t former = size_of(p);
    void *q = __real_realloc(p, size);
    if (q != NULL)
        count(size_of(q) - former);
    return q;
}

void __wrap_free(void *p)
{
    count(-size_of(p));
    __real_free(p);
}

/* What one rank's core freed must not serve another's, whose bytes it would be. */
void *__wrap_spare_calloc(size_t bytes)
{
    return __wrap_calloc(1, bytes);
}

void __wrap_spare_free(void *p, size_t bytes)
{
    (void)bytes;
    __wrap_free(p);
}
