/* SPDX-License-Identifier: BSD-3-Clause */
/* contact_inside: a contact's fields. For contact.c, for link.c, which makes them, and for tests that look inside. */
#ifndef BATON_CORE_CONTACT_INSIDE_H
#define BATON_CORE_CONTACT_INSIDE_H

#include "core/contact.h"
#include "core/timer.h"

enum contact_state { CONTACT_NEEDED, CONTACT_READING, CONTACT_GOOD, CONTACT_REFUSED };

struct contact {
    struct op op; /* first: an op is cast back */
    struct link *link;
    uint32_t peer;
    enum contact_state state;
    uint32_t attempts;
    struct timer timer;           /* deadline of a reading, or pause before the next */
    const struct plan_box *boxes; /* the parts that it serves, in the link's array; or takes, in its engine's readers */
    uint32_t num_boxes;
    bool is_spare;               /* in the place of a source that failed */
    bool is_target;              /* I write to it; else I read from it */
    struct contact *prev, *next; /* in link->spares */
    uint8_t readers[BATON_ENGINE_RANKS_MAX /
                    8]; /* of a source: bit i: the rank of index i of my engine reads from it too */
    struct queue waits; /* pushes, or legs that turned to a spare */
    struct plan *plan;  /* GOOD */
    struct peer_layout layout;
    struct plan_why why; /* REFUSED */
};

#endif
