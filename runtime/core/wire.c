/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire: directory rows, cards, block tables and messages, to bytes and back. Pure functions of their arguments, called
 * by any thread; the only memory they allocate is a decoded card's tensors.
 *
 * Whatever is decoded may come from a broken or hostile peer: all reading goes through `struct reader`, which never
 * leaves its bytes and remembers that it would have. So a decoder reads all its fields first and judges once.
 */
#include "core/wire.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ROW_MAGIC 0x574f5242u     /* "BROW" */
#define CARD_MAGIC 0x44524342u    /* "BCRD" */
#define TABLE_MAGIC 0x4c425442u   /* "BTBL" */
#define MESSAGE_MAGIC 0x47534d42u /* "BMSG" */

#define CHECKSUM_BYTES 8u

/* ---- writer and reader: little-endian, within bounds ------------------------------------------------------------- */

struct writer {
    uint8_t *out;
    uint32_t size, used;
    bool full; /* something did not fit; nothing is written from then on */
};

static void put_bytes(struct writer *w, const void *bytes, uint32_t n)
{
    if (w->full || n > w->size - w->used) {
        w->full = true;
        return;
    }
    memcpy(w->out + w->used, bytes, n);
    w->used += n;
}

static void put(struct writer *w, uint64_t value, uint32_t width)
{
    uint8_t bytes[8];
    for (uint32_t i = 0; i < width; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    put_bytes(w, bytes, width);
}

/** A length byte, then the text without its NUL. `size` is that of its array, at most 256. */
static void put_text(struct writer *w, const char *text, uint32_t size)
{
    uint32_t length = (uint32_t)strnlen(text, size - 1);
    put(w, length, 1);
    put_bytes(w, text, length);
}

/** Zeros up to offset `end`. */
static void put_zeros(struct writer *w, uint32_t end)
{
    while (!w->full && w->used < end) {
        put(w, 0, 1);
    }
}

/** Fills in a number that was not known when its place was passed. */
static void put_at(const struct writer *w, uint32_t offset, uint64_t value, uint32_t width)
{
    struct writer back = {.out = w->out, .size = w->used, .used = offset};
    put(&back, value, width);
}

struct reader {
    const uint8_t *in;
    uint32_t size, used;
    bool bad; /* something was missing or malformed; everything read from then on is 0 */
};

static void get_bytes(struct reader *r, void *out, uint32_t n)
{
    if (r->bad || n > r->size - r->used) {
        r->bad = true;
        memset(out, 0, n);
        return;
    }
    memcpy(out, r->in + r->used, n);
    r->used += n;
}

static uint64_t get(struct reader *r, uint32_t width)
{
    uint8_t bytes[8];
    uint64_t value = 0;
    get_bytes(r, bytes, width);
    for (uint32_t i = 0; i < width; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static uint32_t get_u32(struct reader *r)
{
    return (uint32_t)get(r, 4);
}

/** A text that fits into out[size] with its NUL, and has no NUL of its own: what it compares equal to is what came. */
static void get_text(struct reader *r, char *out, uint32_t size)
{
    uint32_t length = (uint32_t)get(r, 1);
    if (length >= size) {
        r->bad = true;
        length = 0;
    }
    memset(out, 0, size);
    get_bytes(r, out, length);
    if (strlen(out) != length) {
        r->bad = true;
    }
}

static uint64_t number_at(const uint8_t *in, uint32_t width)
{
    struct reader r = {.in = in, .size = width};
    return get(&r, width);
}

static bool checksum_matches(const uint8_t *in, uint32_t covered)
{
    return number_at(in + covered, CHECKSUM_BYTES) == XXH3_64bits(in, covered);
}

/** A range [offset, offset + bytes) that ends past 2^64 would pass a later comparison with the segment's size. */
static bool range_wraps(uint64_t offset, uint64_t bytes)
{
    return bytes > UINT64_MAX - offset;
}

/* ---- directory row ----------------------------------------------------------------------------------------------- */

static void put_box(struct writer *w, const struct plan_box *box)
{
    put(w, box->layer_first, 4);
    put(w, box->layer_count, 4);
    put(w, box->head_first, 4);
    put(w, box->head_count, 4);
}

static struct plan_box get_box(struct reader *r)
{
    struct plan_box box;
    box.layer_first = get_u32(r);
    box.layer_count = get_u32(r);
    box.head_first = get_u32(r);
    box.head_count = get_u32(r);
    return box;
}

void wire_row_encode(const struct wire_row *row, uint8_t out[WIRE_ROW_BYTES])
{
    struct writer w = {.out = out, .size = WIRE_ROW_BYTES};
    char engine[BATON_ENGINE_NAME_MAX] = {0}; /* nothing of what lies behind the name leaves this rank */
    memcpy(engine, row->engine, strnlen(row->engine, sizeof(engine) - 1));
    put(&w, ROW_MAGIC, 4);
    put(&w, WIRE_VERSION, 2);
    put(&w, WIRE_ROW_BYTES, 2);
    put_bytes(&w, engine, sizeof(engine));
    put(&w, row->incarnation, 8);
    put(&w, row->card_offset, 8);
    put(&w, row->card_bytes, 4);
    put(&w, row->node, 4);
    put(&w, row->package, 4);
    put(&w, row->numa, 4);
    put_box(&w, &row->box);
    put(&w, row->tp, 2);
    put(&w, row->pp, 2);
    put(&w, row->tp_rank, 2);
    put(&w, row->pp_rank, 2);
    put(&w, row->role, 1);
    put_zeros(&w, WIRE_ROW_BYTES - CHECKSUM_BYTES);
    put(&w, XXH3_64bits(out, w.used), CHECKSUM_BYTES);
}

static bool engine_name_is_good(const char name[BATON_ENGINE_NAME_MAX])
{
    size_t length = strnlen(name, BATON_ENGINE_NAME_MAX);
    if (length == 0 || length == BATON_ENGINE_NAME_MAX) {
        return false;
    }
    /* Spelled out: isalnum would follow the locale of the process. */
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static bool box_is_good(const struct plan_box *box)
{
    bool empty = box->layer_count == 0;
    return empty == (box->head_count == 0) && box->layer_count <= UINT32_MAX - box->layer_first &&
           box->head_count <= UINT32_MAX - box->head_first;
}

static bool row_is_good(const struct wire_row *row)
{
    return engine_name_is_good(row->engine) && row->role >= BATON_ROLE_PREFILL && row->role <= BATON_ROLE_BOTH &&
           row->tp_rank < row->tp && row->pp_rank < row->pp && row->incarnation != 0 && box_is_good(&row->box) &&
           row->card_bytes <= WIRE_CARD_MAX && !range_wraps(row->card_offset, row->card_bytes);
}

int wire_row_decode(const uint8_t in[WIRE_ROW_BYTES], struct wire_row *row)
{
    struct reader r = {.in = in, .size = WIRE_ROW_BYTES - CHECKSUM_BYTES};
    bool head = get(&r, 4) == ROW_MAGIC;
    head = get(&r, 2) >= 1 && head;
    head = get(&r, 2) == WIRE_ROW_BYTES && head;
    if (!head || !checksum_matches(in, r.size)) {
        return BATON_EMESSAGE;
    }
    struct wire_row found = {0};
    get_bytes(&r, found.engine, sizeof(found.engine));
    found.incarnation = get(&r, 8);
    found.card_offset = get(&r, 8);
    found.card_bytes = get_u32(&r);
    found.node = get_u32(&r);
    found.package = get_u32(&r);
    found.numa = get_u32(&r);
    found.box = get_box(&r);
    found.tp = (uint16_t)get(&r, 2);
    found.pp = (uint16_t)get(&r, 2);
    found.tp_rank = (uint16_t)get(&r, 2);
    found.pp_rank = (uint16_t)get(&r, 2);
    found.role = (uint8_t)get(&r, 1);
    if (r.bad || !row_is_good(&found)) {
        return BATON_EMESSAGE;
    }
    *row = found;
    return 0;
}

/* ---- block table ------------------------------------------------------------------------------------------------- */

/*
 * Header: magic u32, version u16, 0 u16, slot u32, count u32, generation u64, checksum u64. The checksum is chained:
 * the header's hash up to the checksum is the seed of the first piece of ids, that one's hash the seed of the next.
 * So a reader needs no more memory than one piece.
 */
#define TABLE_CHECKSUM 24u
#define TABLE_PIECE 1024u /* ids; part of the format */

void wire_table_encode(uint32_t slot, uint64_t generation, const uint32_t *blocks, uint32_t num_blocks, uint8_t *out)
{
    struct writer w = {.out = out, .size = WIRE_TABLE_HEADER};
    put(&w, TABLE_MAGIC, 4);
    put(&w, WIRE_VERSION, 2);
    put(&w, 0, 2);
    put(&w, slot, 4);
    put(&w, num_blocks, 4);
    put(&w, generation, 8);
    uint64_t sum = XXH3_64bits(out, TABLE_CHECKSUM);
    uint8_t *ids = out + WIRE_TABLE_HEADER;
    for (uint32_t done = 0; done < num_blocks;) {
        uint32_t n = num_blocks - done < TABLE_PIECE ? num_blocks - done : TABLE_PIECE;
        struct writer piece = {.out = ids, .size = n * 4};
        for (uint32_t i = 0; i < n; i++) {
            put(&piece, blocks[done + i], 4);
        }
        sum = XXH3_64bits_withSeed(ids, piece.used, sum);
        ids += piece.used;
        done += n;
    }
    put(&w, sum, CHECKSUM_BYTES);
}

/** Reads a header that was copied. False: not the table of this slot and generation. */
static bool table_header(const uint8_t *header, uint32_t slot, uint64_t generation, uint32_t *count, uint64_t *sum)
{
    struct reader r = {.in = header, .size = WIRE_TABLE_HEADER};
    bool ours = get(&r, 4) == TABLE_MAGIC;
    ours = get(&r, 2) >= 1 && ours;
    get(&r, 2);
    ours = get(&r, 4) == slot && ours;
    *count = get_u32(&r);
    ours = get(&r, 8) == generation && ours;
    *sum = get(&r, CHECKSUM_BYTES);
    return ours;
}

int wire_table_decode(const uint8_t *in, uint64_t bytes, uint32_t slot, uint64_t generation, uint32_t num_blocks,
                      uint32_t limit, uint32_t *out)
{
    uint8_t copy[TABLE_PIECE * 4];
    uint32_t count;
    uint64_t expected;
    if (bytes < WIRE_TABLE_HEADER) {
        return BATON_ESTALE;
    }
    memcpy(copy, in, WIRE_TABLE_HEADER);
    if (!table_header(copy, slot, generation, &count, &expected) || wire_table_bytes(count) > bytes) {
        return BATON_ESTALE;
    }
    uint64_t sum = XXH3_64bits(copy, TABLE_CHECKSUM);
    const uint8_t *ids = in + WIRE_TABLE_HEADER;
    bool outside = false;
    for (uint32_t done = 0; done < count;) {
        uint32_t n = count - done < TABLE_PIECE ? count - done : TABLE_PIECE;
        memcpy(copy, ids, n * 4);
        sum = XXH3_64bits_withSeed(copy, n * 4, sum);
        struct reader r = {.in = copy, .size = n * 4};
        for (uint32_t i = done; i < done + n; i++) {
            uint32_t id = get_u32(&r);
            outside = outside || id >= limit;
            if (i < num_blocks) {
                out[i] = id;
            }
        }
        ids += n * 4;
        done += n;
    }
    /* The checksum first: ids of a table that was being replaced say nothing about the peer. */
    if (sum != expected) {
        return BATON_ESTALE;
    }
    return outside || count < num_blocks ? BATON_EMESSAGE : 0;
}
