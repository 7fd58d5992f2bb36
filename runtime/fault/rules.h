/* SPDX-License-Identifier: BSD-3-Clause */
/* rules: what BATON_FAULT asks for, read from its text. fault.h says what each rule means. */
#ifndef BATON_FAULT_RULES_H
#define BATON_FAULT_RULES_H

#include <stdbool.h>
#include <stdint.h>

#define RULES_MAX 16
#define RULES_ANY_TYPE 0u

enum action { DROP, DOUBLE, DELAY, CORRUPT, STALL, STOP, KILL, ACTIONS };
enum event { SEND, TAKE, CARD, TABLE, BOARD, MOVE, SETTLE, ENTER, LEAVE, LEASE, GIVE_BACK, EVENTS };

struct rule {
    enum action action;
    enum event event;
    unsigned type;         /* of a message; RULES_ANY_TYPE */
    uint64_t only, chance; /* the only-th such event, 0: each; by chance, of 1,000 */
    uint64_t ms;
    uint64_t seen; /* such events so far */
};

struct rules {
    struct rule rule[RULES_MAX];
    unsigned num;
    uint64_t seed;
};

/** Reads the rules that hold on this rank. *rules has its preset seed. 0, or BATON_ESETTING with its sentence. */
int rules_read(struct rules *rules, const char *text, uint32_t rank);

#endif
