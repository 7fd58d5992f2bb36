/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair: two engines of one model and one request, described by small numbers. They are built, the request is moved, and
 * the result is compared with the reference. Every field is a uint32_t, and a smaller value is simpler, so that a
 * failing pair can be shrunk field by field.
 */
#ifndef BATON_TESTS_PAIR_H
#define BATON_TESTS_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#define PAIR_TENSORS_MAX 6
#define PAIR_SPLITS_MAX 3
#define PAIR_SLOTS 6 /* groups: two of each kind */
#define PAIR_RANKS_MAX 24

/* Directions from the innermost one of the plainest layout to the outermost. */
enum { BY_CHANNEL, BY_TOKEN, BY_HEAD, BY_PLANE, BY_BLOCK, BY_TENSOR, DIRECTIONS };

struct pair_tensor {
    uint32_t layer, kind, split;
    uint32_t planes, head_size, elem_log; /* its own; 0: the model's. elem_log: 1 + log2 of elem_bytes */
};

struct pair_side {
    uint32_t tp, pp, cut[2];           /* the layers with which the second and third stage begin */
    uint32_t whole[PAIR_SPLITS_MAX];   /* 1: every rank holds all heads of the split */
    uint32_t second[PAIR_TENSORS_MAX]; /* 1: the tensor is in the second group of its kind */
    uint32_t block_tokens[PAIR_SLOTS]; /* by 2 * kind + second */
    uint32_t late[PAIR_SLOTS];         /* by how many blocks the table begins late at most, where it may */
    uint32_t spare;                    /* how many blocks more than needed caches and tables have */
    uint32_t usual;                    /* 1 + bits of baton_layout_t, if all tensors are alike; 0: `nest` decides */
    uint32_t nest[DIRECTIONS];         /* which direction is next outwards: its index among those not yet taken */
    uint32_t pad[DIRECTIONS];          /* gap in elements behind all steps of a direction */
    uint32_t reversed;                 /* 1: tensors and groups in reverse order */
    uint32_t regions;                  /* 1: each kind of tensor lies in a region of its own */
    uint32_t holes;                    /* 1: tables have bad ids where no block is needed */
    uint32_t scatter;                  /* 0: block ids ascend */
    uint32_t places;                   /* 0: all ranks on one node */
};

struct pair {
    uint32_t layers, tokens, held, window;
    uint32_t planes, head_size, elem_log;
    uint32_t num_splits, heads[PAIR_SPLITS_MAX];
    uint32_t num_tensors;
    struct pair_tensor tensor[PAIR_TENSORS_MAX];
    struct pair_side side[2]; /* producer, consumer */
    uint32_t walk; /* 0: in one go; else at odd budgets: 3, 7, ...: by chunks; 1, 5, ...: by slices; even: by parts */
};

/** Fails the test if the condition is false: prints it and a sentence, unless quiet, and exits with status 1. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            pair_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                    \
    } while (0)
_Noreturn void pair_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void pair_be_quiet(void);

/** Brings every field into its range, and sets those without meaning to 0. */
void pair_mend(struct pair *p);

/** Builds both engines and moves the request to every consumer. A failure ends the process. */
void pair_check(const struct pair *p);

/** The next random number below n of the generator whose state is the caller's. */
uint32_t pair_random(uint64_t *state, uint32_t n);

/* ---- with_shrink.c ----------------------------------------------------------------------------------------------- */

/** Prints a pair as an initialiser. */
void pair_print(const struct pair *p);

/**
 * Checks pairs number first .. first + count - 1, which `make` makes, in a process of their own. False: one failed,
 * crashed or did not end. It is shrunk and printed then, unless PLAN_SHRINK is 0.
 */
bool pairs_play(void (*make)(uint64_t number, struct pair *p), uint64_t first, uint64_t count);

/** The number in an environment variable, or `preset`. */
uint64_t pairs_setting(const char *name, uint64_t preset);

#endif
