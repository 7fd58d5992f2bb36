/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ways: by which path bytes move between each pair of regions, one of mine and one of a peer's. Where all pairs with a
 * peer go by one path, the port hands on its calls to that path, and this has no part in it. Else this is the path to
 * that peer: it cuts a leg into stretches that go by one path each, and asks all of them whether the leg is quiet.
 *
 * FENCE. The events of all paths carry the leg's tag, and their bytes add up. No path is told where the generation
 * stands, since others' bytes may still be on their way when its own are there: the core asks for it once all are, by
 * the path that the peer's segment is read by. That is right behind bytes of each path: whichever it was, they were
 * taken from the peer's memory before their event came.
 *
 * Made once by the thread that starts. The rest is for whoever makes turns (front/turns.h).
 */
#ifndef BATON_FRONT_WAYS_H
#define BATON_FRONT_WAYS_H

#include "core/directory.h"
#include "core/ground.h"
#include "core/net.h"

struct neighbours;
struct staged;
struct textbuf;
struct ways;

/* In the order in which they are made: what a path stands on comes before it. The later, the slower. */
enum { PATH_SHM, PATH_ATTACH, PATH_NET, PATH_STAGED, PATH_WAYS };

struct ways_wish {
    const struct ground *ground;
    const struct net *net;
    const struct directory *directory;
    const struct neighbours *near;   /* what is here must outlive the ways */
    const struct path_regions *mine; /* num 0: I have no cache */
    const struct path *path;         /* by the numbers above; those before PATH_WAYS */
    struct staged *staged;           /* what path[PATH_STAGED] is of */
};

/** NULL: no memory. */
struct ways *ways_create(const struct ways_wish *wish);
/** NULL is ignored. */
void ways_destroy(struct ways *w);

/** The path to a rank, PATH_...: to read from it, or to write. */
unsigned ways_to(const struct ways *w, uint32_t peer, bool write);
/** Its kind; where there are several, that of the slowest. */
baton_path_t ways_kind(const struct ways *w, uint32_t peer, bool write);

/** The table of core/path.h, for ranks that several paths lead to. It hands out no events: its paths do. */
void ways_path(struct ways *w, struct path *out);

/** By which paths pairs of regions are read of each rank that several lead to (`to`, by rank: PATH_WAYS). */
void ways_describe(const struct ways *w, const uint8_t *to, struct textbuf *out);

#endif
