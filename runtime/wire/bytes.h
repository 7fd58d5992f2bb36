/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bytes: little-endian fields, written and read within bounds. A reader or writer that would cross its end turns bad
 * and stays so; a bad reader yields zeros.
 */
#ifndef BATON_WIRE_BYTES_H
#define BATON_WIRE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct writer {
    uint8_t *at, *end;
    bool bad;
};

struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline void put_bytes(struct writer *w, const void *data, size_t n)
{
    if (w->bad || (size_t)(w->end - w->at) < n) {
        w->bad = true;
        return;
    }
    if (n > 0)
        memcpy(w->at, data, n);
    w->at += n;
}

static inline void put_number(struct writer *w, uint64_t value, unsigned n)
{
    value = htole64(value);
    put_bytes(w, &value, n);
}

static inline void put8(struct writer *w, uint8_t v)
{
    put_number(w, v, 1);
}
static inline void put16(struct writer *w, uint16_t v)
{
    put_number(w, v, 2);
}
static inline void put32(struct writer *w, uint32_t v)
{
    put_number(w, v, 4);
}
static inline void put64(struct writer *w, uint64_t v)
{
    put_number(w, v, 8);
}

/* A text in a field of n bytes; the rest is zeros. */
static inline void put_text(struct writer *w, const char *text, size_t n)
{
    size_t used = strnlen(text, n - 1);
    put_bytes(w, text, used);
    for (; used < n; used++)
        put8(w, 0);
}

static inline void get_bytes(struct reader *r, void *out, size_t n)
{
    if (r->bad || (size_t)(r->end - r->at) < n) {
        r->bad = true;
        memset(out, 0, n);
        return;
    }
    if (n > 0)
        memcpy(out, r->at, n);
    r->at += n;
}

static inline uint64_t get_number(struct reader *r, unsigned n)
{
    uint64_t value = 0;
    get_bytes(r, &value, n);
    return le64toh(value);
}

static inline uint8_t get8(struct reader *r)
{
    return (uint8_t)get_number(r, 1);
}
static inline uint16_t get16(struct reader *r)
{
    return (uint16_t)get_number(r, 2);
}
static inline uint32_t get32(struct reader *r)
{
    return (uint32_t)get_number(r, 4);
}
static inline uint64_t get64(struct reader *r)
{
    return get_number(r, 8);
}

/* A text that does not end within its field is bad. */
static inline void get_text(struct reader *r, char *out, size_t n)
{
    get_bytes(r, out, n);
    if (out[n - 1] != '\0') {
        r->bad = true;
        out[0] = '\0';
    }
}

/* A number of a struct: where it stands, how many bytes it has there, and how many are sent of it. */
struct wire_number {
    size_t offset;
    uint8_t held, sent;
};

#define WIRE_NUMBER(type, member, sent)                                                                                \
    {                                                                                                                  \
        offsetof(type, member), sizeof(((type *)0)->member), sent                                                      \
    }

/* Numbers of a struct in the order of their bytes, up to one of which nothing is sent. */
static inline void put_numbers(struct writer *w, const void *from, const struct wire_number *n)
{
    for (; n->sent > 0; n++) {
        const void *at = (const uint8_t *)from + n->offset;
        put_number(w,
                   n->held == 1   ? *(const uint8_t *)at
                   : n->held == 2 ? *(const uint16_t *)at
                   : n->held == 4 ? *(const uint32_t *)at
                                  : *(const uint64_t *)at,
                   n->sent);
    }
}

static inline void get_numbers(struct reader *r, void *to, const struct wire_number *n)
{
    for (; n->sent > 0; n++) {
        void *at = (uint8_t *)to + n->offset;
        uint64_t value = get_number(r, n->sent);
        if (n->held == 1)
            *(uint8_t *)at = (uint8_t)value;
        else if (n->held == 2)
            *(uint16_t *)at = (uint16_t)value;
        else if (n->held == 4)
            *(uint32_t *)at = (uint32_t)value;
        else
            *(uint64_t *)at = value;
    }
}

#endif
