/* SPDX-License-Identifier: BSD-3-Clause */
/* sized: see sized.h. The size is read and written by memcpy, since the struct's type is not known here. */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

int sized_check(size_t size, const char *type)
{
    if (size >= sizeof size && size <= SIZED_MAX)
        return 0;
    return error_set(BATON_EINVAL, "%zu bytes are not the size of a %s: pass its sizeof", size, type);
}

int sized_take(const void *given, const char *type, void *own, size_t own_size)
{
    memset(own, 0, own_size);
    if (given == NULL)
        return error_set(BATON_EINVAL, "the %s must not be NULL", type);
    size_t size = size_of(given);
    if (size == 0)
        return error_set(BATON_EINVAL, "the size of the %s is 0: begin with BATON_INIT(%s)", type, type);
    if (size < sizeof size || size > SIZED_MAX)
        return error_set(BATON_EINVAL, "%zu is not the size of a %s: begin with BATON_INIT(%s)", size, type, type);
    for (size_t i = own_size; i < size; i++)
        if (((const unsigned char *)given)[i] != 0)
            return error_set(BATON_EINVAL,
                             "byte %zu of the %s is set, and baton " BATON_VERSION_STRING " knows %zu bytes of it", i,
                             type, own_size);
    memcpy(own, given, smaller(size, own_size));
    memcpy(own, &own_size, sizeof own_size);
    return 0;
}

void sized_give_back(const void *own, size_t own_size, void *given)
{
    size_t first = sizeof(size_t), known = smaller(size_of(given), own_size);
    memcpy((unsigned char *)given + first, (const unsigned char *)own + first, known - first);
}

void sized_fill(const void *own, size_t own_size, void *out, size_t size)
{
    size_t known = smaller(size, own_size);
    memcpy(out, own, known);
    memset((unsigned char *)out + known, 0, size - known);
    memcpy(out, &known, sizeof known);
}
