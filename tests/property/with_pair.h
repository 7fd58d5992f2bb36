/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair: two engines of one model and one request, described by small numbers, built, moved and compared with the
 * reference. Every field is a uint32_t of which less is simpler, so that a failing pair can be shrunk field by field.
 */
#ifndef BATON_TESTS_PAIR_H
#define BATON_TESTS_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#define PAIR_TENSORS_MAX 6
#define PAIR_SPLITS_MAX 3
#define PAIR_SLOTS 6 /* groups: of each kind two */
#define PAIR_RANKS_MAX 24

/* Directions from the innermost one of the plainest layout to the outermost. */
enum { BY_CHANNEL, BY_TOKEN, BY_HEAD, BY_PLANE, BY_BLOCK, BY_TENSOR, DIRECTIONS };

struct pair_tensor {
    uint32_t layer, kind, split;
    uint32_t planes, head_size, elem_log; /* its own; 0: the model's. elem_log is one more than the logarithm */
};

struct pair_side {
    uint32_t tp, pp, cut[2];           /* where the second and third stage begin */
    uint32_t whole[PAIR_SPLITS_MAX];   /* 1: every rank holds all heads of the split */
    uint32_t second[PAIR_TENSORS_MAX]; /* 1: in the second group of its kind */
    uint32_t block_tokens[PAIR_SLOTS]; /* by 2 * kind + second */
    uint32_t late[PAIR_SLOTS];         /* blocks at most that the table begins late, where it may */
    uint32_t spare;                    /* blocks more than needed, of caches and tables */
    uint32_t usual;                    /* 1 + bits of baton_layout_t, where all tensors are alike; 0: as `nest` says */
    uint32_t nest[DIRECTIONS];         /* the next direction outwards: its place among those not yet taken */
    uint32_t pad[DIRECTIONS];          /* elements' gap behind all steps of a direction */
    uint32_t reversed;                 /* 1: tensors and groups in reverse order */
    uint32_t regions;                  /* 1: unlike tensors lie in regions of their own */
    uint32_t holes;                    /* 1: ids of blocks that are not needed are no ids */
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
    uint32_t walk; /* 0: in one go; 3, 7, ...: by chunks; odd: by slices of plan_skip; else by parts; at odd budgets */
};

/** Fails the test: the condition and a sentence are printed, unless quiet, and the process ends with status 1. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            pair_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                    \
    } while (0)
_Noreturn void pair_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void pair_be_quiet(void);

/** Brings every field into its range, and those without meaning to 0. */
void pair_mend(struct pair *p);

/** Builds both engines and moves the request to every consumer. A failure ends the process. */
void pair_check(const struct pair *p);

/** A generator of random numbers below n, by a state of the caller's. */
uint32_t pair_random(uint64_t *state, uint32_t n);

/* ---- with_shrink.c ----------------------------------------------------------------------------------------------- */

/** Prints a pair as an initialiser. */
void pair_print(const struct pair *p);

/**
 * Checks pairs number first .. first + count - 1, which `make` makes, in a process of their own. Where one fails,
 * crashes or has no end, it is shrunk and printed (not with PLAN_SHRINK=0); returns false then.
 */
bool pairs_play(void (*make)(uint64_t number, struct pair *p), uint64_t first, uint64_t count);

/** A number of the environment. */
uint64_t pairs_setting(const char *name, uint64_t preset);

#endif
