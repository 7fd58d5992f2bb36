/* SPDX-License-Identifier: BSD-3-Clause */
/* reap: see reap.h. What is to be reaped is preceded by its place in the list. */
#include "core/reap.h"

#include <stdlib.h>

struct reaped {
    _Alignas(max_align_t) struct reaped *next;
};

void *reap_new(size_t bytes)
{
    struct reaped *r = calloc(1, sizeof *r + bytes);
    return r != NULL ? r + 1 : NULL;
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
        free(r);
    }
}
