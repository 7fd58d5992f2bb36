/* SPDX-License-Identifier: BSD-3-Clause */
/* hash: uthash as all of Baton uses it: a lack of memory leaves an element without a table, and tables that come and go
   with their only element are spare memory. */
#ifndef BATON_BASE_HASH_H
#define BATON_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) spare_calloc(bytes)
#define uthash_free(memory, bytes) spare_free(memory, bytes)

#include "base/spare.h"

#include <uthash.h>

#endif
