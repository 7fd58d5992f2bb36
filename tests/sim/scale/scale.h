/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scale: a large world of real protocol cores in virtual time, where nothing fails. It answers what a request costs, in
 * messages, time and memory, and whether that grows with the world.
 *
 *   bytes.c    counts the bytes that each core holds
 *   network.c  the port: messages and one-sided operations, with latency and bandwidth
 *   traffic.c  the world and its start; requests between engines of TP 8
 *   main.c     the command line, the table, and what must not grow
 *
 * One thread. Only the storm (../storm) has failures; only it checks bytes.
 */
#ifndef BATON_TESTS_SCALE_H
#define BATON_TESTS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

#define SCALE_US UINT64_C(1000)
#define SCALE_MS UINT64_C(1000000)
#define SCALE_TP 8u
#define SCALE_LATENCY_NS (5 * SCALE_US) /* of a message, and of an operation each way */
#define SCALE_LINK_BYTES_PER_NS 25      /* of each rank, each way: 200 Gbit/s */

/** The bytes that a core holds. */
struct bytes {
    int64_t now, most;
};

/** From now on, what is allocated and freed is counted there; NULL: nowhere. Returns where it was counted before. */
struct bytes *bytes_of(struct bytes *of);

struct scale_rank {
    struct scale *scale;
    uint32_t rank;
    struct core *core;
    struct port port;
    uint64_t *board;
    uint8_t *arena, *met; /* met: a bit for each rank that it sent to or read from, or that did so */
    uint32_t num_met;
    uint64_t timer_ns;        /* when it will be stepped for its timers; UINT64_MAX: never */
    uint64_t link_free_ns[2]; /* until when its link has bytes to carry: outwards, inwards */
    struct bytes bytes;       /* of its core */
    int64_t bytes_at_start;
};

struct scale_request {
    uint64_t at;           /* when it arrived */
    uint64_t received_ns;  /* after that: the last rank has it */
    uint8_t wants, offers; /* that are open */
    bool first;            /* of these two engines */
};

/** The tensor-parallel ranks of an engine. All engines have the same. */
struct scale_cache {
    baton_geometry_t geometry;
    baton_tensor_t *tensors;
    uint32_t card_bytes;
};

/** What is to happen, by time. */
struct scale_queue {
    struct due **heap;
    uint32_t num, room;
    uint64_t order; /* of what happens at one time */
};

struct scale_counts {
    uint64_t messages, message_bytes, reads, moves;
};

struct scale {
    struct settings settings;
    struct logger log;
    uint64_t now, random;

    uint32_t num_ranks, num_sides; /* so many prefill engines, and as many decode engines */
    struct directory *directory;
    int64_t directory_bytes;
    baton_path_t *path;
    struct scale_cache cache[SCALE_TP];
    struct scale_rank *ranks;
    struct scale_queue queue;
    struct scale_counts counts;

    uint32_t peers;  /* prefill engines that a decode engine takes requests from */
    uint8_t *paired; /* [decode engine * peers + which]: they have had a request */
    uint32_t num_requests, begun, ended, failed;
    char failure[512]; /* the first that failed */
    struct scale_request *requests;
};

/** What one world has shown. */
struct scale_row {
    uint32_t ranks, requests;
    uint64_t start_ns;                                   /* of the exchange of rows */
    double messages, message_bytes, reads, moves;        /* a request */
    uint64_t p50_ns, p99_ns, first_p50_ns, first_p99_ns; /* from arrival to received; of first contacts */
    double cpu_s;                                        /* of the requests */
    uint64_t start_bytes;                                /* that a rank keeps after the start, with its directory */
    double peer_bytes;        /* a rank keeps of each rank that it has met: the most of all ranks */
    uint32_t peers;           /* that it has met */
    uint64_t core_most_bytes; /* the most that a core held */
};

/* network.c */
void scale_port(struct scale_rank *r);
/** Something of the traffic happens at that time: scale_arrive. */
void scale_later(struct scale *s, uint64_t at, uint32_t decode_engine);
/** Lets time pass until nothing is on its way and no timer is due before `until`. */
void scale_run(struct scale *s, uint64_t until);
/** Steps a rank after a call was submitted to it. */
void scale_step(struct scale *s, struct scale_rank *r, const struct port_event *e, int n);
void scale_drop_all(struct scale *s);

/* traffic.c */
/** The card of a rank, as its segment has it: at most `room` bytes. Their number, or an error. */
int scale_card(const struct scale *s, uint32_t rank, uint8_t *out, uint32_t room);
/** The next request of a decode engine. */
void scale_arrive(struct scale *s, uint32_t decode_engine);
/** Takes the outcomes of a rank. */
void scale_collect(struct scale *s, struct scale_rank *r);
/** Builds a world, runs it and takes it down. False: it did not do what it must; *why says what. */
bool scale_world(uint32_t ranks, uint32_t requests, uint64_t seed, struct scale_row *out, char why[640]);

#endif
