/* SPDX-License-Identifier: BSD-3-Clause */
/* reap: see reap.h. What is to be reaped is preceded by its place in the list, and its size. */
#include "core/reap.h"

#include "base/spare.h"

struct reaped {
    _Alignas(max_align_t) struct reaped *next;
    size_t bytes; /* of both */
};

void *reap_new(size_t bytes)
{
    struct reaped *r = spare_calloc(sizeof *r + bytes);
    if (r == NULL)
        return NULL;
    r->bytes = sizeof *r + bytes;
    return r + 1;
}

void reap_add(struct reap *reap, void *memory)
{
    if (memory == NULL)
        return;
    struct reaped *r = (struct reaped *)memory - 1;
    r->next = reap->first;
    reap->first = r;
}

void reap_free(struct reap *reap)
{
    while (reap->first != NULL) {
        struct reaped *r = reap->first;
        reap->first = r->next;
        spare_free(r, r->bytes);
    }
}
