/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths: the port of the protocol core, wired. Each rank is reached by one path (core/path.h), which is settled at
 * start: the first of the table in paths.c that leads there. The port hands on each call to the path of its rank.
 * Messages go by lanes within the node, else by the net; the copy workers hash and zero. All of it is for whoever
 * makes turns (front/turns.h), but where a function says that any thread may call it.
 */
#ifndef BATON_FRONT_PATHS_H
#define BATON_FRONT_PATHS_H

#include "core/directory.h"
#include "core/ground.h"
#include "core/net.h"
#include "shm/copy.h"

struct textbuf;
struct paths;

struct paths_wish {
    const struct ground *ground;
    const struct net *net;
    const struct settings *settings;
    struct logger *log;
    const struct directory *directory;
    const char *cpus;                   /* the hardware threads of the copy workers (base/thread.h) */
    copy_done_fn *look;                 /* called by a copy worker: a job was copied, or it was asked (shm/copy.h) */
    void *arg;                          /* its first */
    uint64_t board_offset;              /* of my lease board in my segment */
    uint64_t area_offset;               /* of my area (front/areas.h) in my segment; 0: I have none */
    bool has_lanes;                     /* messages within the node go by its lanes, where both ranks have some */
    uint64_t stage_offset, stage_bytes; /* buffers for staging in my segment; 0 bytes: nothing is staged */
    const struct baton_cache *cache;    /* mine; NULL: I have none. Must outlive the paths */
    const baton_driver_t *driver;       /* of a device's memory; or NULL. As long */
};

/**
 * Finds out how the memory of each rank is reached, and claims a place with each neighbour (front/areas.h). 0,
 * BATON_ENOMEM or BATON_ESYSTEM, with an error sentence. Only paths_open, paths_meet and paths_destroy may follow.
 */
int paths_create(const struct paths_wish *wish, struct paths **out);
/** All ranks have claimed theirs: opens those of my neighbours. Only paths_meet and paths_destroy may follow. */
void paths_open(struct paths *p);
/** All have opened them: settles the path to each rank. */
void paths_meet(struct paths *p);
/** Joins the copy workers. 0; or BATON_EPEER, with an error sentence: a driver still uses memory of the segment. */
int paths_destroy(struct paths *p);

const struct port *paths_port(const struct paths *p);

/**
 * Whether any thread may make turns: nothing is staged, and ranks of this node are reached without the net. Turns that
 * are lent leave the net alone (front/beside.h).
 */
bool paths_can_lend(const struct paths *p);
/** Whether turns are lent from now on: the net waits, and staging, which copies for ranks that reach no memory here. */
void paths_lend(struct paths *p, bool is_lent);
/** Whether no event may be handed out in this turn: other nodes do not know yet what a lease's end stored. */
bool paths_hold_events(const struct paths *p);
/** Whether turns that are not lent may call MPI or a driver of a device. */
bool paths_may_take_long(const struct paths *p);
/** Whether turns call a driver of a device, which one thread alone may do: the reactor, or who lends itself for it. */
bool paths_has_driver(const struct paths *p);
/** Ranks of this node that are to be rung. */
struct rings *paths_rings(struct paths *p);

/** Messages that came by lanes and made no sense. */
uint64_t paths_messages_bad(const struct paths *p);

/** By rank: the path to it. */
const baton_path_t *paths_table(const struct paths *p);
/** The same for what is written there: files of its may be mapped for reading alone. */
const baton_path_t *paths_table_out(const struct paths *p);

/** Ranks of the world by path. */
const uint32_t *paths_peers(const struct paths *p);

/** After the core's step: wakes copy workers that sleep, for what was handed to them in it. */
void paths_wake(struct paths *p);

/** Wakes a copy worker, which looks as after a job. False: they have enough to do. Any thread. */
bool paths_ask(const struct paths *p);

/** Does a piece of what copy workers have under way. False: there is none. Any thread. */
bool paths_help(const struct paths *p);

/** The hardware threads that the copy workers run on, as a list. Any thread. */
void paths_worker_cpus(const struct paths *p, char *list, size_t size);

/** How many ranks are reached by which path, and why not by a better one, in lines of text. Any thread. */
void paths_describe(const struct paths *p, struct textbuf *out);

#endif
