/* SPDX-License-Identifier: BSD-3-Clause */
/* pages: on which NUMA node memory really lies, by a sample of its pages that the system is asked about. Any thread. */
#ifndef BATON_TOPO_PAGES_H
#define BATON_TOPO_PAGES_H

#include <stdint.h>

#define PAGES_SAMPLE 256

/** As move_pages(2) without nodes: fills status[i] with the node of pages[i], or a negative errno. 0, or an errno. */
typedef int (*pages_ask_fn)(unsigned long count, void **pages, int *status);

struct pages_count {
    uint32_t asked; /* pages of the sample; 0: there was nothing to ask about */
    uint32_t there; /* on the wished node */
    uint32_t other; /* on another one; the rest has no memory yet */
    int error;      /* an errno: the system does not say */
};

/** Counts pages of [base, base + bytes), which are spread over all of it, by node `node`, the system's number of it. */
struct pages_count pages_count(const void *base, uint64_t bytes, uint32_t node, pages_ask_fn ask);

/** Asks the system. */
int pages_ask(unsigned long count, void **pages, int *status);

#endif
