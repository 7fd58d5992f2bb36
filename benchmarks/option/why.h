/* SPDX-License-Identifier: BSD-3-Clause */
/* why: the sentence that says what is wrong. Whoever finds it writes it; main prints it, once for all ranks. */
#ifndef OPTION_WHY_H
#define OPTION_WHY_H

#define WHY_MAX 384

struct why {
    char text[WHY_MAX];
};

/** Writes the sentence and returns -1: `return why_set(why, "…")`. A longer one is cut. */
int why_set(struct why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
