/* SPDX-License-Identifier: BSD-3-Clause */
/* fields: see fields.h. */
#include "wire/fields.h"

#include <stddef.h>

/* The words of the column `sent`. */
#define ALWAYS 0
#define IN(name) WIRE_SENT_IN(WIRE_##name)
#define PUSH WIRE_SENT_PUSH
#define SINCE(version) WIRE_SENT_SINCE(version)

_Static_assert(WIRE_SENT_IN(WIRE_TYPE_LAST) <= WIRE_SENT_TYPES, "each type has a bit");

#define BIT(number, name, body, version) | WIRE_SENT_IN(number)
_Static_assert((0 WIRE_TYPES(BIT)) == WIRE_SENT_IN(WIRE_TYPE_LAST + 1) - WIRE_SENT_IN(1), "no number is left out");

/* This build sends no type and no field of a later version than its own. */
#define KNOWN_TYPE(number, name, body, version) _Static_assert((version) <= WIRE_VERSION, #name ": raise WIRE_VERSION");
WIRE_TYPES(KNOWN_TYPE)
#define KNOWN_FIELD(kind, name, sent, least, most)                                                                     \
    _Static_assert(((sent) & ~WIRE_SENT_PUSH) < WIRE_SENT_SINCE(WIRE_VERSION + 1), #name ": raise WIRE_VERSION");

#define ROW(kind_, name_, sent_, least_, most_)                                                                        \
    {.name = #name_,                                                                                                   \
     .kind = WIRE_KIND_##kind_,                                                                                        \
     .offset = offsetof(struct wire_message, want) + offsetof(body, name_),                                            \
     .sent = (sent_),                                                                                                  \
     .least = (uint64_t)(least_),                                                                                      \
     .most = (uint64_t)(most_)},

/* One function for each body: it has the body's rows. */
#define TABLE(body_, FIELDS)                                                                                           \
    static uint32_t fields_of_##body_(const struct wire_field **fields)                                                \
    {                                                                                                                  \
        typedef struct wire_##body_ body;                                                                              \
        FIELDS(KNOWN_FIELD)                                                                                            \
        static const struct wire_field rows[] = {FIELDS(ROW)};                                                         \
        *fields = rows;                                                                                                \
        return sizeof rows / sizeof rows[0];                                                                           \
    }
WIRE_BODIES(TABLE)

uint32_t wire_fields(enum wire_type type, const struct wire_field **fields)
{
#define OF_TYPE(number, name, body, version) [number] = fields_of_##body,
    static uint32_t (*const of_type[])(const struct wire_field **) = {WIRE_TYPES(OF_TYPE)};
    return type >= 1 && type <= WIRE_TYPE_LAST ? of_type[type](fields) : 0;
}
