/* SPDX-License-Identifier: BSD-3-Clause */
/* row: see row.h. */
#include "wire/row.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/bytes.h"
#include "wire/card.h"
#include "wire/version.h"

#define ROW_MAGIC 0x5242u /* "BR" */

#define OF_ROW(member, sent) WIRE_NUMBER(struct wire_row, member, sent)
/* What stands between the names and the boxes. */
static const struct wire_number row_numbers[] = {OF_ROW(number, 8),
                                                 OF_ROW(life, 8),
                                                 OF_ROW(tp, 2),
                                                 OF_ROW(pp, 2),
                                                 OF_ROW(tp_rank, 2),
                                                 OF_ROW(pp_rank, 2),
                                                 OF_ROW(node, 4),
                                                 OF_ROW(package, 4),
                                                 OF_ROW(numa, 4),
                                                 OF_ROW(box[0].layer_first, 4),
                                                 OF_ROW(box[0].layer_count, 4),
                                                 OF_ROW(box[0].head_first, 4),
                                                 OF_ROW(box[0].head_count, 4),
                                                 OF_ROW(card_offset, 8),
                                                 OF_ROW(card_bytes, 4),
                                                 OF_ROW(verdicts, 1),
                                                 OF_ROW(num_boxes, 1),
                                                 {0}};

void wire_row_encode(const struct wire_row *row, uint8_t out[WIRE_ROW_BYTES])
{
    memset(out, 0, WIRE_ROW_BYTES);
    struct writer w = {.at = out, .end = out + WIRE_ROW_BYTES};
    put16(&w, ROW_MAGIC);
    put8(&w, row->version > 0 ? row->version : WIRE_VERSION);
    put8(&w, row->role);
    put_text(&w, row->engine, BATON_ENGINE_NAME_MAX);
    put_text(&w, row->host, WIRE_HOST_MAX);
    put_numbers(&w, row, row_numbers);
    for (uint32_t i = 1; i < BATON_SPLITS_MAX; i++) {
        put16(&w, i < row->num_boxes ? (uint16_t)row->box[i].head_first : 0);
        put16(&w, i < row->num_boxes ? (uint16_t)row->box[i].head_count : 0);
    }
    put8(&w, row->rules);
    put32(&w, row->model);
    put32(&w, row->block_tokens);
    put32(&w, row->features);
    struct writer tail = {.at = out + WIRE_ROW_BYTES - 8, .end = out + WIRE_ROW_BYTES};
    put64(&tail, XXH3_64bits(out, WIRE_ROW_BYTES - 8));
}

static bool engine_name_is_good(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '\0' && strspn(name, allowed) == strlen(name);
}

static bool range_is_good(uint32_t first, uint32_t count)
{
    return count <= UINT32_MAX - first;
}

int wire_row_decode(const uint8_t in[WIRE_ROW_BYTES], struct wire_row *row)
{
    struct reader r = {.at = in, .end = in + WIRE_ROW_BYTES};
    struct reader tail = {.at = in + WIRE_ROW_BYTES - 8, .end = in + WIRE_ROW_BYTES};
    memset(row, 0, sizeof *row);
    if (get16(&r) != ROW_MAGIC || get64(&tail) != XXH3_64bits(in, WIRE_ROW_BYTES - 8))
        return BATON_EMESSAGE;
    row->version = get8(&r);
    row->role = get8(&r);
    get_text(&r, row->engine, BATON_ENGINE_NAME_MAX);
    get_text(&r, row->host, WIRE_HOST_MAX);
    get_numbers(&r, row, row_numbers);
    if (row->num_boxes > BATON_SPLITS_MAX)
        return BATON_EMESSAGE;
    for (uint32_t i = 1; i < BATON_SPLITS_MAX; i++) {
        uint32_t head_first = get16(&r), head_count = get16(&r);
        if (i < row->num_boxes)
            row->box[i] =
                (struct plan_box){row->box[0].layer_first, row->box[0].layer_count, head_first, head_count, .split = i};
    }
    for (uint32_t i = 0; i < row->num_boxes; i++)
        if (row->box[i].layer_count == 0 || row->box[i].head_count == 0)
            return BATON_EMESSAGE;
    row->rules = get8(&r);
    row->model = get32(&r);
    row->block_tokens = get32(&r);
    row->features = get32(&r);
    if (r.bad || row->version < 1 || !engine_name_is_good(row->engine) || row->role < BATON_ROLE_PREFILL ||
        row->role > BATON_ROLE_BOTH || row->tp == 0 || row->pp == 0 || row->tp_rank >= row->tp ||
        row->pp_rank >= row->pp || row->number == 0 || row->card_bytes > WIRE_CARD_MAX ||
        row->verdicts > BATON_VERDICTS_LEADER || !range_is_good(row->box[0].layer_first, row->box[0].layer_count) ||
        !range_is_good(row->box[0].head_first, row->box[0].head_count))
        return BATON_EMESSAGE;
    return 0;
}
