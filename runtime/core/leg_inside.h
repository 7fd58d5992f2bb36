/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leg_inside: a leg's fields, and what it says to its producer rank (leg_say.c). For leg.c, and for tests that look
 * inside.
 */
#ifndef BATON_CORE_LEG_INSIDE_H
#define BATON_CORE_LEG_INSIDE_H

#include "core/handoff.h"
#include "core/leg.h"
#include "core/speaker.h"

struct leg {
    struct ask *ask;
    uint32_t index; /* among the legs of its want */
    struct contact *contact;
    struct queued card;  /* HANDSHAKE: it waits for the contact's */
    struct mover *mover; /* pull; NULL: none yet */
    enum leg_state state;
    bool busy;           /* counted among the peer's business */
    bool known;          /* the producer knows of the want */
    bool let_go;         /* and has nothing under way for it: it said no, or was sent CANCEL */
    bool owes_end;       /* yet its offer must hear of the end */
    bool told;           /* it has heard of that */
    bool is_repeated;    /* a WANT may still be on its way to its producer: the word of its end has to follow it */
    bool has_taken;      /* it took or holds the lease by words (core/handoff.h), and gives it back so */
    uint32_t slot;       /* then: of the lease */
    uint64_t generation; /* of the lease that was granted, or that was written from; 0: of none yet */
    uint32_t doubts;     /* DOUBTED: WANTs that were said */
    uint32_t asks;       /* WANTs sent. An answer to an earlier one settles nothing: the last is still to be acted on */
    bool leaves;         /* STOPPING: for another rank, once it is quiet */
    int error;           /* then: why */
    struct check *check; /* CHECKING */
    struct speaker speaker; /* of what its state asks for */
};

void leg_send_want(struct core *core, struct leg *leg);
void leg_send_cancel(struct core *core, struct leg *leg);

/** Asks for nothing: takes a lease of the rank's offer, if that is there and whole, and all else is as usual. */
enum handoff_taken leg_take(struct core *core, struct leg *leg, struct handoff_grant *grant);
/**
 * The lease that it was granted by message is as one that it took, where such can be taken: its rank, which takes none
 * twice, knows from then on that it has had this one.
 */
void leg_hold(struct core *core, struct leg *leg, uint32_t slot);
/** Gives back what was taken; by that its producer hears of the end. */
void leg_give_back(struct core *core, struct leg *leg, int error);
/** Why the lease that it took, or came too late for, has ended, if that is still known: an error, and a sentence. */
int leg_why(const struct core *core, const struct leg *leg, char *detail, size_t size);

#endif
