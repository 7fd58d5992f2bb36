/* SPDX-License-Identifier: BSD-3-Clause */
/* tables: see tables.h. */
#include "core/tables.h"

#include <stdlib.h>

#include "wire/table.h"

int tables_decode(struct tables *t, const struct peer_table *lease, const uint8_t *data, uint64_t bytes)
{
    uint32_t *former = t->entries, *room = former == NULL ? t->few : NULL; /* the former may be needed again */
    const int rc =
        wire_table_decode_into(data, bytes, lease->slot, lease->generation, room, TABLES_FEW, &t->all, &t->entries);
    if (rc == 0 && former != t->few)
        free(former);
    return rc;
}

void tables_fini(struct tables *t)
{
    if (t->entries != t->few)
        free(t->entries);
}
