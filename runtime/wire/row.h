/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row: what all members know of one member from the start: its row in the directory. The size is fixed.
 */
#ifndef BATON_WIRE_ROW_H
#define BATON_WIRE_ROW_H

#include <stdint.h>

#include "plan/plan.h"

#define WIRE_ROW_BYTES 256u
#define WIRE_HOST_MAX 64 /* bytes of a host's name, NUL included */

/* Features. */
#define WIRE_ROW_WRAPPED 1u /* its engine owns its cache's memory */
#define WIRE_ROW_DEVICE 2u  /* which only a driver may touch */
#define WIRE_ROW_MIXED 4u   /* but for some of its regions */

struct wire_row {
    uint8_t version; /* of its build; encoding: 0 means WIRE_VERSION */
    uint64_t number; /* the member's, drawn at random: it names this very context, and is never 0 */
    uint64_t life;   /* the same on all ranks of one start of their engine; 0: that of its first rank's number */
    char engine[BATON_ENGINE_NAME_MAX];
    char host[WIRE_HOST_MAX]; /* as it says */
    uint8_t role;             /* baton_role_t */
    uint16_t tp, pp, tp_rank, pp_rank;
    uint32_t node;                         /* number of its node in the world */
    uint32_t package, numa;                /* on that node; may be TOPO_UNKNOWN */
    uint64_t card_offset;                  /* in its segment */
    uint32_t card_bytes;                   /* <= WIRE_CARD_MAX */
    uint8_t verdicts;                      /* baton_verdicts_t */
    uint8_t rules;                         /* PLAN_RULES of its build */
    uint32_t features;                     /* WIRE_ROW_..., or 0 */
    uint32_t num_boxes;                    /* 0: no cache */
    uint32_t model, block_tokens;          /* geometry_model, and of its first group; 0: no cache */
    struct plan_box box[BATON_SPLITS_MAX]; /* layers and heads held, by split; of one cache the layers are the same */
};

void wire_row_encode(const struct wire_row *row, uint8_t out[WIRE_ROW_BYTES]);
/** 0, or BATON_EMESSAGE: a bad magic, version, checksum or engine name, or a field outside its bounds. */
int wire_row_decode(const uint8_t in[WIRE_ROW_BYTES], struct wire_row *row);

#endif
