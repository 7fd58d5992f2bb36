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

void wire_row_encode(const struct wire_row *row, uint8_t out[WIRE_ROW_BYTES])
{
    memset(out, 0, WIRE_ROW_BYTES);
    struct writer w = {.at = out, .end = out + WIRE_ROW_BYTES};
    put16(&w, ROW_MAGIC);
    put8(&w, row->version > 0 ? row->version : WIRE_VERSION);
    put8(&w, row->role);
    put_text(&w, row->engine, BATON_ENGINE_NAME_MAX);
    put16(&w, row->tp);
    put16(&w, row->pp);
    put16(&w, row->tp_rank);
    put16(&w, row->pp_rank);
    put32(&w, row->node);
    put32(&w, row->package);
    put32(&w, row->numa);
    put32(&w, row->box[0].layer_first);
    put32(&w, row->box[0].layer_count);
    put32(&w, row->box[0].head_first);
    put32(&w, row->box[0].head_count);
    put64(&w, row->incarnation);
    put64(&w, row->card_offset);
    put32(&w, row->card_bytes);
    put8(&w, row->verdicts);
    put8(&w, (uint8_t)row->num_boxes);
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
    row->tp = get16(&r);
    row->pp = get16(&r);
    row->tp_rank = get16(&r);
    row->pp_rank = get16(&r);
    row->node = get32(&r);
    row->package = get32(&r);
    row->numa = get32(&r);
    row->box[0].layer_first = get32(&r);
    row->box[0].layer_count = get32(&r);
    row->box[0].head_first = get32(&r);
    row->box[0].head_count = get32(&r);
    row->incarnation = get64(&r);
    row->card_offset = get64(&r);
    row->card_bytes = get32(&r);
    row->verdicts = get8(&r);
    row->num_boxes = get8(&r);
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
        row->pp_rank >= row->pp || row->incarnation == 0 || row->card_bytes > WIRE_CARD_MAX ||
        row->verdicts > BATON_VERDICTS_LEADER || !range_is_good(row->box[0].layer_first, row->box[0].layer_count) ||
        !range_is_good(row->box[0].head_first, row->box[0].head_count))
        return BATON_EMESSAGE;
    return 0;
}
