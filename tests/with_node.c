/* SPDX-License-Identifier: BSD-3-Clause */
/* node: see the header. */
#include "with_node.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/textbuf.h"

#define HUGE (UINT64_C(2) << 20)
#define INBOX_MOST 64 /* events that wait, before messages are refused */

static uint32_t node_of(const struct node_member *m)
{
    return m->self / m->node->a_node;
}

/* Of a net's functions, those that would call MPI. */
static struct node_member *outside_of_lent_turns(void *self)
{
    struct node_member *m = self;
    if (m->b != NULL && turns_are_lent(&m->b->loop.turns))
        abort();
    return m;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Waits for all members; `all` gets what each brought. */
static void gather(struct node_member *m, const void *mine, size_t bytes, void *all)
{
    struct node *n = m->node;
    if (bytes > NODE_ROW_BYTES)
        abort();
    pthread_mutex_lock(&n->lock);
    const uint32_t round = n->rounds;
    memcpy(n->brought[m->self], mine, bytes);
    if (++n->came == n->num) {
        memcpy(n->all, n->brought, sizeof n->all);
        n->came = 0;
        n->rounds++;
        pthread_cond_broadcast(&n->all_came);
    }
    while (n->rounds == round)
        pthread_cond_wait(&n->all_came, &n->lock);
    for (uint32_t i = 0; i < n->num; i++)
        memcpy((uint8_t *)all + i * bytes, n->all[i], bytes);
    pthread_mutex_unlock(&n->lock);
}

struct result {
    int rc;
    char sentence[256];
};

static int agree(void *self, const char *step, int local)
{
    struct result mine = {.rc = local}, all[NODE_MEMBERS];
    uint32_t worst = 0;
    (void)step;
    if (local != 0)
        snprintf(mine.sentence, sizeof mine.sentence, "%s", baton_errmsg());
    struct node_member *m = self;
    gather(m, &mine, sizeof mine, all);
    for (uint32_t i = 1; i < m->node->num; i++)
        if (all[i].rc < all[worst].rc)
            worst = i;
    return all[worst].rc != 0 ? error_set(all[worst].rc, "member %" PRIu32 ": %s", worst, all[worst].sentence) : 0;
}

static int least(void *self, const char *step, const int mine[2], int out[2])
{
    struct node_member *m = self;
    int all[NODE_MEMBERS][2];
    (void)step;
    gather(m, mine, sizeof all[0], all);
    memcpy(out, all[0], sizeof all[0]);
    for (uint32_t i = 1; i < m->node->num; i++)
        for (int k = 0; k < 2; k++)
            out[k] = all[i][k] < out[k] ? all[i][k] : out[k];
    return 0;
}

static int exchange(void *self, const void *row, uint32_t row_bytes, void *rows)
{
    gather(self, row, row_bytes, rows);
    return 0;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static int make_segment(struct node_member *m, const struct world_segment *wish)
{
    struct ground *g = &m->fakes.ground;
    g->pool_offset = (GROUND_META_OFFSET + wish->meta_bytes + HUGE - 1) / HUGE * HUGE;
    m->bytes = g->pool_offset + wish->pool_bytes;
    m->mapped_bytes = m->bytes + HUGE;
    m->mapping = mmap(NULL, m->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m->mapping == MAP_FAILED) {
        m->mapping = NULL;
        return error_set(BATON_ESHM, "no memory for a segment");
    }
    g->segment = (uint8_t *)m->mapping + (HUGE - (uintptr_t)m->mapping % HUGE) % HUGE;
    bell_init(ground_bell(g));
    m->pool = (struct path_region){(uintptr_t)g->segment + g->pool_offset, wish->pool_bytes, false};
    m->mine = (struct path_regions){.num = 1, .region = &m->pool};
    return 0;
}

static int start(void *self, const struct world_segment *wish)
{
    struct node_member *m = self;
    const int rc = agree(m, "segments", make_segment(m, wish));
    for (uint32_t i = 0; rc == 0 && i < m->node->num; i++) {
        const struct node_member *peer = &m->node->member[i];
        if (node_of(peer) == node_of(m))
            m->peers[i] =
                (struct ground_peer){peer->fakes.ground.segment, peer->bytes, peer->process, i % m->node->a_node};
    }
    return rc;
}

static int expose(void *self, const struct path_regions *mine)
{
    struct node_member *m = self;
    if (mine->num > 0)
        m->mine = *mine;
    m->fakes.net.exposes = true;
    return agree(m, "exposed", 0);
}

/* ---- caches that come late, and closing -------------------------------------------------------------------------- */

/* Whether all members have set that flag. */
static int barrier(struct node_member *m, bool *mine, size_t flag)
{
    bool all = true;
    pthread_mutex_lock(&m->node->lock);
    *mine = true;
    for (uint32_t i = 0; i < m->node->num; i++)
        all &= *(bool *)((char *)&m->node->member[i] + flag);
    pthread_mutex_unlock(&m->node->lock);
    return all ? 0 : BATON_EAGAIN;
}

static int meet(void *self, bool is_here)
{
    struct node_member *m = self;
    return is_here || m->is_here ? barrier(m, &m->is_here, offsetof(struct node_member, is_here)) : BATON_EAGAIN;
}

static int leave(void *self, bool late)
{
    struct node_member *m = self;
    const int rc = barrier(m, &m->has_left, offsetof(struct node_member, has_left));
    return rc == BATON_EAGAIN && late ? error_set(BATON_ETIMEDOUT, "not all members have left") : rc;
}

static void unmap(struct node_member *m)
{
    if (m->mapping != NULL)
        munmap(m->mapping, m->mapped_bytes);
    m->mapping = NULL;
}

static int close_member(void *self, int local)
{
    struct node_member *m = self;
    const int rc = agree(m, "close", local);
    if (rc == 0)
        unmap(m);
    return rc;
}

static void describe(const void *self, struct textbuf *out)
{
    const struct node_member *m = self;
    textbuf_print(out, "world: member %" PRIu32 " of %" PRIu32 ", made up\n", m->self, m->node->num);
}

/* ---- the net ----------------------------------------------------------------------------------------------------- */

struct node_item {
    struct node_item *next;
    struct port_event event;
    uint8_t data[];
};

/* Under the lock. */
static void free_list(struct node_item **list)
{
    for (struct node_item *i; (i = *list) != NULL; free(i))
        *list = i->next;
}

/* Behind all that waits for that member. Data is copied. */
static int put(struct node_member *to, struct port_event event, const void *data, bool is_message)
{
    struct node_item *item = malloc(sizeof *item + event.bytes), **last = &to->first;
    if (item == NULL || (is_message && atomic_load(&to->waiting) >= INBOX_MOST)) {
        free(item);
        return BATON_EAGAIN;
    }
    *item = (struct node_item){.event = event};
    if (data != NULL)
        memcpy(item->data, data, event.bytes);
    item->event.data = item->data;
    pthread_mutex_lock(&to->node->lock);
    while (*last != NULL)
        last = &(*last)->next;
    *last = item;
    atomic_fetch_add(&to->waiting, 1);
    pthread_mutex_unlock(&to->node->lock);
    return 0;
}

static int net_send(void *self, uint32_t peer, const void *message, uint32_t bytes)
{
    struct node_member *m = outside_of_lent_turns(self), *to = &m->node->member[peer];
    const struct port_event event = {.kind = PORT_MESSAGE, .peer = m->self, .bytes = bytes};
    const int rc = put(to, event, message, true);
    if (rc != 0)
        return rc;
    atomic_fetch_add(&m->sent, 1);
    bell_ring(ground_bell(&to->fakes.ground));
    return 0;
}

static int net_read(void *self, uint32_t peer, uint64_t offset, uint32_t bytes, uint64_t tag)
{
    struct node_member *m = outside_of_lent_turns(self);
    const struct node_member *of = &m->node->member[peer];
    if (offset > of->bytes || bytes > of->bytes - offset)
        return BATON_EMESSAGE;
    return put(m, (struct port_event){.kind = PORT_READ, .tag = tag, .bytes = bytes}, of->fakes.ground.segment + offset,
               false);
}

static const _Atomic uint64_t *word_of(const struct node_member *m, uint32_t peer, uint64_t offset)
{
    return (const void *)(m->node->member[peer].fakes.ground.segment + offset);
}

static int net_board(void *self, uint32_t peer, uint64_t offset, uint64_t tag)
{
    struct node_member *m = outside_of_lent_turns(self);
    const uint64_t generation = atomic_load(word_of(m, peer, offset));
    return put(m, (struct port_event){.kind = PORT_BOARD, .tag = tag, .generation = generation}, NULL, false);
}

static int net_room(void *self, uint32_t peer)
{
    (void)peer;
    outside_of_lent_turns(self);
    return NET_RUNS;
}

static int64_t net_move(void *self, const struct net_move *move)
{
    struct node_member *m = outside_of_lent_turns(self);
    const uint64_t base = move->theirs->is_wrapped ? 0 : (uintptr_t)m->node->member[move->peer].fakes.ground.segment;
    struct port_event event = {.kind = PORT_MOVED, .tag = move->tag, .runs = 1};
    for (const struct net_run *r = move->runs; r < move->runs + move->num_runs; r++) {
        const uint64_t mine = m->mine.region[move->write ? r->from_region : r->to_region].at;
        const uint64_t theirs = base + move->theirs->region[move->write ? r->to_region : r->from_region].at;
        const uint64_t from = (move->write ? mine : theirs) + r->from, to = (move->write ? theirs : mine) + r->to;
        for (uint32_t k = 0; k < r->count; k++)
            memcpy((char *)(uintptr_t)to + k * r->to_step, (const char *)(uintptr_t)from + k * r->from_step, r->bytes);
        event.moved += r->count * r->bytes;
    }
    if (move->board != 0)
        event.generation = atomic_load(word_of(m, move->peer, move->board));
    const uint64_t moved = event.moved;
    atomic_fetch_add(&m->moves, 1);
    return put(m, event, NULL, false) == 0 ? (int64_t)moved : BATON_ENOMEM;
}

static int net_settle(void *self, uint32_t peer, uint64_t tag)
{
    (void)peer;
    return put(outside_of_lent_turns(self), (struct port_event){.kind = PORT_SETTLED, .tag = tag}, NULL, false);
}

static enum path_park net_park(void *self, uint32_t peer, uint64_t tag)
{
    struct node_member *m = self;
    (void)peer;
    pthread_mutex_lock(&m->node->lock);
    for (struct node_item **at = &m->first, *item; (item = *at) != NULL;) {
        if (item->event.kind == PORT_MESSAGE || item->event.tag != tag) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        atomic_fetch_sub(&m->waiting, 1);
        free(item);
    }
    pthread_mutex_unlock(&m->node->lock);
    return PATH_PARK_QUIET;
}

static bool net_ended(void *self, uint32_t peer)
{
    (void)peer;
    outside_of_lent_turns(self);
    return false;
}

static void net_sync(void *self)
{
    outside_of_lent_turns(self);
    atomic_thread_fence(memory_order_seq_cst);
}

static int net_progress(void *self, struct port_event *events, int max)
{
    struct node_member *m = outside_of_lent_turns(self);
    struct node_item *item;
    int n = 0;
    pthread_mutex_lock(&m->node->lock);
    free_list(&m->given);
    for (; n < max && (item = m->first) != NULL; n++) {
        events[n] = item->event;
        m->first = item->next;
        item->next = m->given;
        m->given = item;
        atomic_fetch_sub(&m->waiting, 1);
    }
    pthread_mutex_unlock(&m->node->lock);
    return n;
}

static bool net_busy(const void *self)
{
    const struct node_member *m = self;
    return atomic_load(&m->waiting) > 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void fill(struct node_member *m)
{
    struct fakes *f = &m->fakes;
    fakes_init(f);
    f->says.is_rung = true; /* the net rings by itself */
    f->says.meet_close = BATON_ECLOSED;
    f->ground =
        (struct ground){.self = m->self, .num_peers = m->node->num, .places = m->node->a_node, .peers = m->peers};
    f->net.has_nodes = m->node->a_node < m->node->num;
    f->net.send = net_send;
    f->net.path.read = net_read;
    f->net.path.board = net_board;
    f->net.room = net_room;
    f->net.move = net_move;
    f->net.path.settle = net_settle;
    f->net.path.park = net_park;
    f->net.path.ended = net_ended;
    f->net.sync = net_sync;
    f->net.path.progress = net_progress;
    f->net.path.busy = net_busy;
    f->world.node = node_of(m);
    f->world.agree = agree;
    f->world.least = least;
    f->world.exchange = exchange;
    f->world.start = start;
    f->world.expose = expose;
    f->world.meet = meet;
    f->world.leave = leave;
    f->world.close = close_member;
    f->world.describe = describe;
}

void node_init(struct node *n, uint32_t num, uint32_t a_node)
{
    *n = (struct node){.num = num, .a_node = a_node};
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->all_came, NULL);
    for (uint32_t i = 0; i < num; i++) {
        n->member[i].node = n;
        n->member[i].self = i;
        n->member[i].mode = BATON_PROGRESS_THREAD;
        n->member[i].process = getpid();
        fill(&n->member[i]);
    }
}

void node_fini(struct node *n)
{
    for (uint32_t i = 0; i < n->num; i++) {
        free_list(&n->member[i].first);
        free_list(&n->member[i].given);
        unmap(&n->member[i]);
    }
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->all_came);
}

static int find(void *arg, const struct opening *o, struct footing *out)
{
    struct node_member *m = arg;
    const int rc = agree(m, "open", o->local);
    if (rc == 0)
        *out = (struct footing){&m->fakes.ground, &m->fakes.net, &m->fakes.world, m->mode};
    return rc;
}

int node_open(struct node_member *m, const baton_open_params_t *params, baton_t **out)
{
    const int rc = context_open_on(params, find, m, out);
    if (rc == 0)
        m->b = *out;
    return rc;
}

void node_alone(struct node *n)
{
    for (uint32_t i = 0; i < n->num; i++)
        n->member[i].b->on.world = NULL;
}
