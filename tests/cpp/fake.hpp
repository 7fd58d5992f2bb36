/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake: the functions of baton.h that need MPI, for tests of baton.hpp in one process. Each keeps what it was given and
 * returns fake::state.answer, as an error with a sentence of its own if it is negative. Allocations are counted.
 */
#ifndef BATON_TESTS_FAKE_HPP
#define BATON_TESTS_FAKE_HPP

#include "baton.h"

#include <string>
#include <vector>

namespace fake
{
/* A deep copy of what a verb was given. */
struct call {
    std::string key, base_key, engine, attach;
    bool has_base_key = false, has_consumers = false;
    std::vector<std::vector<uint32_t>> blocks;
    std::vector<uint32_t> first_tokens;
    std::vector<std::string> consumers;
    baton_offer_params_t offer;
    baton_append_params_t append;
    baton_want_params_t want;
    baton_id_t id = 0;
    uint32_t numbers[3] = {};
};

struct made {
    int answer = 0;     /* of each function but baton_close */
    int close = 0;      /* of baton_close */
    int text_bytes = 0; /* that baton_describe has; it has 10 more when it is asked again */
    bool keeps = true;  /* deep copies, which allocate */
    call last;
    baton_geometry_t geometry;
    std::vector<baton_tensor_t> tensors;
    std::vector<baton_region_t> regions;
    baton_memory_t memory;
    baton_driver_t driver;
    baton_open_params_t open;
    int comm = 0;
    int opened = 0, closed = 0, started = 0; /* contexts */
    const baton_t *context = nullptr;        /* of the last call */
    std::vector<baton_event_t> events;       /* that wait */
    baton_log_fn log = nullptr;
    void *log_user = nullptr;
    unsigned char memory_of_cache[64];
};
extern made state;
extern long allocations; /* by operator new */

/* Forgets everything. */
void reset();

/* An event as a library fills it. */
baton_event_t event();
} // namespace fake

#endif
