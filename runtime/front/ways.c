/* SPDX-License-Identifier: BSD-3-Clause */
/* ways: see ways.h. */
#include "front/ways.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/textbuf.h"
#include "front/neighbours.h"
#include "front/runs.h"
#include "plan/plan.h"
#include "staged/staged.h"

#define WAYS_NAME "several ways"

struct ways {
    struct ways_wish wish;
    uint32_t devices; /* of my regions */
};

/* ---- pairs of regions -------------------------------------------------------------------------------------------- */

static bool is_near(const struct ways *w, uint32_t peer)
{
    return w->wish.ground->peers[peer].mapped != NULL;
}

static const struct memory_near *near_of(const struct ways *w, uint32_t peer)
{
    return neighbours_memory(w->wish.near, peer);
}

/* The path by which a peer's segment is read. */
static unsigned segment_way(const struct ways *w, uint32_t peer)
{
    return is_near(w, peer) ? PATH_SHM : PATH_NET;
}

/* From or to host memory of mine, where the peer's region is no device's. */
static unsigned host_way(const struct ways *w, uint32_t peer, bool write, uint32_t theirs)
{
    const struct memory_near *near = near_of(w, peer);
    bool is_wrapped = (w->wish.directory->rows[peer].features & WIRE_ROW_WRAPPED) != 0;
    if (peer == w->wish.ground->self)
        return PATH_SHM;
    if (!is_near(w, peer))
        return is_wrapped && !w->wish.net->exposes ? PATH_STAGED : PATH_NET;
    if (near->read.reach[theirs] == MEMORY_OUT_OF_REACH)
        return PATH_STAGED;
    return (write ? &near->write : &near->read)->reach[theirs] == MEMORY_ATTACHED ? PATH_ATTACH : PATH_SHM;
}

/* How many pairs there are by each path. Of a far rank's regions only their kinds are known: one counts for a kind. */
struct pairs {
    uint32_t by[PATH_WAYS];
};

static struct pairs pairs_with(const struct ways *w, uint32_t peer, bool write)
{
    const uint32_t features = w->wish.directory->rows[peer].features;
    const bool has_device = (features & WIRE_ROW_DEVICE) != 0, is_mixed = (features & WIRE_ROW_MIXED) != 0;
    const bool is_far = !is_near(w, peer);
    const struct path_region kinds[2] = {{.is_device = has_device}, {.is_device = false}};
    const struct path_regions far = {.num = is_mixed ? 2 : 1, .region = kinds};
    const struct path_regions *theirs = peer == w->wish.ground->self ? w->wish.mine
                                        : is_far                     ? &far
                                                                     : &near_of(w, peer)->regions;
    struct pairs pairs = {{0}};
    for (uint32_t i = 0; i < theirs->num; i++) {
        const bool is_device = theirs->region[i].is_device;
        pairs.by[is_device ? PATH_STAGED : host_way(w, peer, write, i)] += w->wish.mine->num - w->devices;
        pairs.by[PATH_STAGED] += w->devices;
    }
    return pairs;
}

/* The first and the last path of those that pairs go by: the last one is the slowest. */
static void range_of(const struct ways *w, uint32_t peer, bool write, unsigned *first, unsigned *last)
{
    const bool have_caches = w->wish.mine->num > 0 && w->wish.directory->rows[peer].num_boxes > 0;
    const struct pairs pairs = have_caches ? pairs_with(w, peer, write) : (struct pairs){{0}};
    *first = PATH_SHM;
    *last = PATH_STAGED;
    while (*first < PATH_STAGED && pairs.by[*first] == 0)
        ++*first;
    while (*last > *first && pairs.by[*last] == 0)
        --*last;
    if (pairs.by[*last] == 0) /* nothing moves */
        *first = *last = segment_way(w, peer);
}

unsigned ways_to(const struct ways *w, uint32_t peer, bool write)
{
    unsigned first, last;
    range_of(w, peer, write, &first, &last);
    return first == last ? first : PATH_WAYS;
}

baton_path_t ways_kind(const struct ways *w, uint32_t peer, bool write)
{
    unsigned first, last;
    range_of(w, peer, write, &first, &last);
    return w->wish.path[last].kind;
}

/* ---- the path ---------------------------------------------------------------------------------------------------- */

static const struct path *segment_path(const struct ways *w, uint32_t peer)
{
    return &w->wish.path[segment_way(w, peer)];
}

static int ways_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    const struct path *p = segment_path(self, peer);
    return p->read(p->self, peer, offset, bytes, tag);
}

static int ways_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    const struct path *p = segment_path(self, peer);
    return p->board(p->self, peer, offset, tag);
}

/* The way of a piece of a leg's plan. PATH_WAYS: there is none, since the peer has no such region. */
static unsigned way_of(const struct ways *w, const struct path_leg *leg, const struct plan_piece *piece)
{
    const uint32_t mine = leg->write ? piece->src_region : piece->dst_region,
                   theirs = leg->write ? piece->dst_region : piece->src_region;
    const bool is_known = theirs < leg->theirs->num && (!is_near(w, leg->peer) || leg->peer == w->wish.ground->self ||
                                                        theirs < near_of(w, leg->peer)->regions.num);
    if (!is_known || mine >= w->wish.mine->num)
        return PATH_WAYS;
    if (w->wish.mine->region[mine].is_device || leg->theirs->region[theirs].is_device)
        return PATH_STAGED;
    return host_way(w, leg->peer, leg->write, theirs);
}

/* How many of a leg's next bytes, of about `budget` at most, go by one way, and by which. */
static uint64_t stretch(const struct ways *w, const struct path_leg *leg, uint64_t budget, unsigned *way)
{
    const struct plan_transfer *t = leg->transfer;
    uint64_t bytes = 0;
    for (uint32_t i = leg->cursor->piece; i < plan_num_pieces(t->plan) && bytes < budget; i++) {
        const uint64_t left = plan_left(t, leg->cursor, i);
        const unsigned by = left > 0 ? way_of(w, leg, plan_piece_at(t->plan, i)) : *way;
        if (bytes > 0 && by != *way)
            break;
        *way = by;
        bytes += left;
    }
    return bytes;
}

static int64_t ways_move(void *self, const struct path_leg *leg, uint64_t budget)
{
    const struct ways *w = self;
    struct path_leg part = *leg;
    unsigned way = PATH_WAYS;
    const uint64_t bytes = stretch(w, leg, budget, &way), most = bytes < budget ? bytes : budget;
    part.board = 0;
    if (way == PATH_WAYS)
        return bytes > 0 ? BATON_EMESSAGE : 0;
    const struct path *p = &w->wish.path[way];
    return p->move != NULL ? p->move(p->self, &part, most) : runs_move(w->wish.net, &part, most);
}

/* What was staged has landed before its event came. */
static int ways_settle(void *self, uint32_t peer, uint64_t tag)
{
    const struct path *p = segment_path(self, peer);
    return p->settle(p->self, peer, tag);
}

static bool ways_answer(void *self, uint32_t peer, uint64_t tag, struct port_event *event)
{
    const struct path *p = segment_path(self, peer);
    return p->answer != NULL && p->answer(p->self, peer, tag, event);
}

/* Each path tells when it is quiet, where it is not yet. */
static enum path_park ways_park(void *self, uint32_t peer, uint64_t tag)
{
    const struct ways *w = self;
    const struct path *p = segment_path(w, peer);
    const enum path_park below = p->park(p->self, peer, tag);
    const bool waits = staged_give_up(w->wish.staged, tag);
    if (below == PATH_PARK_LATER && is_near(w, peer))
        return PATH_PARK_SOON;
    return below == PATH_PARK_QUIET && waits ? PATH_PARK_LATER : below;
}

static bool ways_ended(void *self, uint32_t peer)
{
    const struct ways *w = self;
    const struct path *p = segment_path(w, peer), *staged = &w->wish.path[PATH_STAGED];
    const bool has_ended = p->ended(p->self, peer);
    return staged->ended(staged->self, peer) && has_ended;
}

static int ways_progress(void *self, struct port_event *events, int max)
{
    (void)self, (void)events, (void)max;
    return 0;
}

static bool ways_busy(const void *self)
{
    (void)self;
    return false;
}

void ways_path(struct ways *w, struct path *out)
{
    *out = (struct path){.self = w,
                         .read = ways_read,
                         .board = ways_board,
                         .move = ways_move,
                         .settle = ways_settle,
                         .answer = ways_answer,
                         .park = ways_park,
                         .ended = ways_ended,
                         .progress = ways_progress,
                         .busy = ways_busy,
                         .kind = BATON_PATH_NONE,
                         .name = WAYS_NAME};
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

struct ways *ways_create(const struct ways_wish *wish)
{
    struct ways *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->wish = *wish;
    for (uint32_t i = 0; i < wish->mine->num; i++)
        w->devices += wish->mine->region[i].is_device;
    return w;
}

void ways_destroy(struct ways *w)
{
    free(w);
}

static bool are_alike(const struct ways *w, uint32_t a, uint32_t b)
{
    const struct pairs of_a = pairs_with(w, a, false), of_b = pairs_with(w, b, false);
    return is_near(w, a) == is_near(w, b) && memcmp(&of_a, &of_b, sizeof of_a) == 0;
}

static void describe_pairs(const struct ways *w, uint32_t peer, struct textbuf *out)
{
    const struct pairs pairs = pairs_with(w, peer, false);
    const char *between = "";
    for (unsigned i = 0; i < PATH_WAYS; i++) {
        if (pairs.by[i] == 0)
            continue;
        if (is_near(w, peer))
            textbuf_print(out, "%s%" PRIu32 " by %s", between, pairs.by[i], w->wish.path[i].name);
        else
            textbuf_print(out, "%sby %s", between, w->wish.path[i].name);
        between = ", ";
    }
}

/* A line for neighbours that are alike. */
void ways_describe(const struct ways *w, const uint8_t *to, struct textbuf *out)
{
    const uint32_t size = w->wish.ground->num_peers;
    for (uint32_t i = 0, next; i < size; i = next) {
        const char *why = near_of(w, i)->why;
        for (next = i + 1; next < size && to[next] == PATH_WAYS && are_alike(w, i, next);)
            next++;
        if (to[i] != PATH_WAYS)
            continue;
        textbuf_print(out, "by " WAYS_NAME ": rank%s %" PRIu32, next - i == 1 ? "" : "s", i);
        if (next - i > 1)
            textbuf_print(out, " to %" PRIu32, next - 1);
        textbuf_print(out, ": pairs of regions are read ");
        describe_pairs(w, i, out);
        textbuf_print(out, "%s%s\n", why[0] != '\0' ? ": " : "", why);
    }
}
