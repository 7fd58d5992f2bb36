/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics: see metrics.h. */
#include "observe/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(METRICS_PATHS + METRICS_PEERS + 1 <= 32, "a bit for each part");
_Static_assert(METRICS_PATHS <= BATON_PATHS, "the paths here are paths of the library");
_Static_assert(sizeof(struct metrics_body) % sizeof(uint64_t) == 0, "other processes read whole words");

struct metrics {
    struct metrics_body body;
    uint32_t changes;
    uint32_t num_engines;
    struct {
        uint64_t life; /* of the engine that had the number last; 0: none */
        unsigned row;
    } last[]; /* by the engine's number */
};

struct metrics *metrics_create(uint32_t num_engines)
{
    struct metrics *m = calloc(1, sizeof *m + num_engines * sizeof m->last[0]);
    if (m == NULL)
        return NULL;
    m->num_engines = num_engines;
    m->changes = UINT32_MAX;
    snprintf(m->body.peer[METRICS_PEERS].engine, sizeof m->body.peer->engine, "%s", METRICS_OTHERS);
    return m;
}

void metrics_destroy(struct metrics *m)
{
    free(m);
}

struct metrics_body *metrics_body(struct metrics *m)
{
    return &m->body;
}

static unsigned path_index(baton_path_t path)
{
    return (unsigned)path < METRICS_PATHS ? (unsigned)path : BATON_PATH_NONE;
}

/* That of its name, made if there is room for one more. */
static unsigned row_named(struct metrics *m, const char *name)
{
    unsigned row = 0;
    while (row < m->body.num_peers && strcmp(m->body.peer[row].engine, name) != 0)
        row++;
    if (row == m->body.num_peers && row < METRICS_PEERS) {
        snprintf(m->body.peer[row].engine, sizeof m->body.peer->engine, "%s", name);
        m->body.num_peers++;
    }
    return row;
}

static struct metrics_peer *row_of(struct metrics *m, struct metrics_engine peer)
{
    const bool is_known = peer.number < m->num_engines && peer.life != 0;
    const bool is_last = is_known && m->last[peer.number].life == peer.life;
    const unsigned row = is_last ? m->last[peer.number].row : row_named(m, peer.name);
    if (is_known && !is_last) {
        m->last[peer.number].life = peer.life;
        m->last[peer.number].row = row;
    }
    m->changes |= UINT32_C(1) << (METRICS_PATHS + row);
    return &m->body.peer[row];
}

void metrics_transfer(struct metrics *m, struct metrics_engine peer, baton_path_t path, bool out, uint64_t bytes,
                      uint64_t ns)
{
    if (m == NULL)
        return;
    const unsigned at = path_index(path);
    struct metrics_peer *row = row_of(m, peer);
    row->bytes[at][out] += bytes;
    row->transfers[at][out]++;
    histogram_add(&row->transfer_ns, ns);
    histogram_add(&m->body.path[at].transfer_ns, ns);
    histogram_add(&m->body.path[at].transfer_bytes, bytes);
    m->changes |= UINT32_C(1) << at;
}

void metrics_want(struct metrics *m, const uint64_t path_bytes[BATON_PATHS], uint64_t ns)
{
    if (m == NULL)
        return;
    unsigned most = BATON_PATH_NONE;
    for (unsigned i = 0; i < BATON_PATHS; i++)
        if (path_bytes[i] > path_bytes[most])
            most = i;
    const unsigned at = path_index((baton_path_t)most);
    histogram_add(&m->body.path[at].want_ns, ns);
    m->changes |= UINT32_C(1) << at;
}

void metrics_failure(struct metrics *m, struct metrics_engine peer, int error)
{
    if (m == NULL)
        return;
    row_of(m, peer)->failures[error <= 0 && error > -BATON_REASONS ? -error : 0]++;
}

void metrics_set_stats(struct metrics *m, const baton_stats_t *stats)
{
    struct metrics_body *b = &m->body;
#define METRICS_STAT(field, type, family, labels, help) b->stats[METRICS_##field] = stats->field;
    METRICS_STATS_MAP(METRICS_STAT)
#undef METRICS_STAT
    memset(b->received, 0, sizeof b->received);
    memset(b->peers, 0, sizeof b->peers);
    for (unsigned i = 0; i < BATON_PATHS; i++) {
        b->received[path_index((baton_path_t)i)] += stats->bytes[i];
        b->peers[path_index((baton_path_t)i)] += stats->peers[i];
    }
    memcpy(b->reasons, stats->reasons, sizeof b->reasons);
}

uint32_t metrics_take_changes(struct metrics *m)
{
    const uint32_t changes = m->changes;
    m->changes = 0;
    return changes;
}
