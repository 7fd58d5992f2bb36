/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables: a peer's block tables as they were read from its arena, or came in a message. Few entries need no memory of
 * their own. A plain record, which a mover embeds.
 */
#ifndef BATON_CORE_TABLES_H
#define BATON_CORE_TABLES_H

#include "core/contact.h"

#define TABLES_FEW 16u /* entries, of all tables */

/** Zeroed before. */
struct tables {
    struct plan_tables all;
    uint32_t *entries; /* NULL, `few` or malloc'ed */
    uint32_t few[TABLES_FEW];
};

/**
 * Takes them from these bytes, which are copied. After an error those of before stay. 0, BATON_ESTALE: the bytes are
 * not the tables of that lease; BATON_EMESSAGE, BATON_ENOMEM.
 */
int tables_decode(struct tables *t, const struct peer_table *lease, const uint8_t *data, uint64_t bytes);
void tables_fini(struct tables *t);

#endif
