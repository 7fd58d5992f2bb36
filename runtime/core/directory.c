/* SPDX-License-Identifier: BSD-3-Clause */
/* directory: see directory.h. */
#include "core/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The ranks of a node, in a ring. */
struct directory_node {
    uint32_t node, last;
    UT_hash_handle hh;
};

uint32_t directory_find(const struct directory *d, const char *engine)
{
    struct directory_engine *found;
    HASH_FIND(by_name, d->named, engine, strnlen(engine, BATON_ENGINE_NAME_MAX), found);
    return found != NULL ? found->index : DIRECTORY_NONE;
}

unsigned directory_version(const struct directory *d, uint32_t rank, uint32_t peer)
{
    unsigned mine = d->rows[rank].version, theirs = d->rows[peer].version;
    return mine < theirs ? mine : theirs;
}

uint64_t directory_identity(const struct directory *d, uint32_t engine)
{
    const struct directory_engine *e = d->engines[engine];
    const uint64_t identity = XXH3_64bits_withSeed(e->name, strnlen(e->name, sizeof e->name), e->life);
    return identity != 0 ? identity : 1;
}

static const struct plan_member *member_of(const struct directory *d, uint32_t rank)
{
    return &d->engines[d->engine_of[rank]]->members[d->index_of[rank]];
}

baton_distance_t directory_distance(const struct directory *d, uint32_t from, uint32_t to)
{
    return from == to ? BATON_DISTANCE_SELF : plan_distance(member_of(d, from), member_of(d, to));
}

/* ---- numbers: chains of ranks, which take 12 bytes a member where uthash's handle takes 56 ----------------------- */

/* Where the chain of a number begins: by its low bits, since numbers are random. */
static uint32_t *chain_of(const struct directory *d, uint64_t number)
{
    return &d->by_number[(uint32_t)number & d->number_mask];
}

uint32_t directory_rank(const struct directory *d, uint64_t number)
{
    uint32_t at = *chain_of(d, number);
    while (at != 0 && d->rows[at - 1].number != number)
        at = d->next_by_number[at - 1];
    return at != 0 ? at - 1 : DIRECTORY_NONE;
}

static void number_add(struct directory *d, uint32_t rank)
{
    uint32_t *head = chain_of(d, d->rows[rank].number);
    d->next_by_number[rank] = *head;
    *head = rank + 1;
}

static void number_remove(struct directory *d, uint32_t rank)
{
    uint32_t *at = chain_of(d, d->rows[rank].number);
    while (*at != rank + 1)
        at = &d->next_by_number[*at - 1];
    *at = d->next_by_number[rank];
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* The last rank of a node leads to this one, and this one to the first. False: no memory. */
static bool node_add(struct directory *d, uint32_t rank, uint32_t node)
{
    struct directory_node *n;
    HASH_FIND(hh, d->nodes, &node, sizeof node, n);
    if (n != NULL) {
        d->next_on_node[rank] = d->next_on_node[n->last];
        d->next_on_node[n->last] = rank;
        n->last = rank;
        return true;
    }
    n = malloc(sizeof *n);
    if (n == NULL)
        return false;
    *n = (struct directory_node){.node = node, .last = rank};
    d->next_on_node[rank] = rank;
    HASH_ADD(hh, d->nodes, node, sizeof n->node, n);
    if (n->hh.tbl != NULL)
        return true;
    free(n);
    return false;
}

static void node_remove(struct directory *d, uint32_t rank)
{
    struct directory_node *n;
    uint32_t before = rank;
    HASH_FIND(hh, d->nodes, &d->rows[rank].node, sizeof n->node, n);
    while (d->next_on_node[before] != rank)
        before = d->next_on_node[before];
    d->next_on_node[before] = d->next_on_node[rank];
    if (before == rank) {
        HASH_DEL(d->nodes, n);
        free(n);
    } else if (n->last == rank) {
        n->last = before;
    }
}

/* ---- hosts: of an engine's ranks most have the same -------------------------------------------------------------- */

struct directory_host {
    struct directory_host *next;
    char name[];
};

/* The one of that name, made if there is none. NULL: no memory. */
static const char *host_of(struct directory_engine *e, const char *name)
{
    struct directory_host *h = e->hosts;
    while (h != NULL && strcmp(h->name, name) != 0)
        h = h->next;
    if (h != NULL)
        return h->name;
    const size_t bytes = strlen(name) + 1;
    h = malloc(sizeof *h + bytes);
    if (h == NULL)
        return NULL;
    memcpy(h->name, name, bytes);
    LL_PREPEND(e->hosts, h);
    return h->name;
}

static void hosts_free(struct directory_engine *e)
{
    struct directory_host *h, *next;
    LL_FOREACH_SAFE(e->hosts, h, next)
    {
        free(h);
    }
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

static void engine_free(struct directory_engine *e)
{
    hosts_free(e);
    free(e->ranks);
    free(e->members);
    free(e);
}

/* Takes a free slot: there are as many as members. */
static void engine_place(struct directory *d, struct directory_engine *e)
{
    e->index = d->num_free_engines > 0 ? 0 : d->num_engines;
    while (d->num_free_engines > 0 && d->engines[e->index] != NULL)
        e->index++;
    if (e->index < d->num_engines)
        d->num_free_engines--;
    else
        d->num_engines++;
    d->engines[e->index] = e;
}

/* Nobody finds it by its name any more. */
static void engine_unplace(struct directory *d, struct directory_engine *e)
{
    d->engines[e->index] = NULL;
    d->num_free_engines++;
    engine_free(e);
}

/* The engine that a row names, without a rank so far. NULL: no memory. */
static struct directory_engine *engine_create(struct directory *d, const struct wire_row *row)
{
    const uint32_t size = (uint32_t)row->tp * row->pp;
    struct directory_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->ranks = malloc(size * sizeof *e->ranks);
    e->members = calloc(size, sizeof *e->members);
    if (e->ranks == NULL || e->members == NULL) {
        engine_free(e);
        return NULL;
    }
    memcpy(e->name, row->engine, sizeof e->name);
    e->tp = row->tp;
    e->pp = row->pp;
    e->num_ranks = size;
    e->verdicts = (baton_verdicts_t)row->verdicts;
    e->told = DIRECTORY_NONE;
    e->told_life = e->life = row->life;
    e->state = DIRECTORY_FORMING;
    for (uint32_t i = 0; i < size; i++)
        e->ranks[i] = DIRECTORY_NONE;
    HASH_ADD_KEYPTR(by_name, d->named, e->name, strlen(e->name), e);
    if (e->by_name.tbl == NULL) {
        engine_free(e);
        return NULL;
    }
    engine_place(d, e);
    return e;
}

/* ---- a member comes ---------------------------------------------------------------------------------------------- */

/* Ranks without a cache tell nothing of the model. */
static int check_model(const struct directory *d, const struct directory_engine *e, uint32_t rank,
                       const struct wire_row *row, struct plan_why *why)
{
    if (row->model == 0 || e->told == DIRECTORY_NONE)
        return 0;
    const struct directory_row *other = &d->rows[e->told];
    if (other->model != row->model) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u differ in model, dtype, a size or a total",
                 row->engine, e->told, rank);
        return BATON_EGEOMETRY;
    }
    if (other->block_tokens != row->block_tokens) {
        snprintf(why->text, sizeof why->text, "engine %s: rank %u says block_tokens %u, rank %u says %u", row->engine,
                 e->told, other->block_tokens, rank, row->block_tokens);
        return BATON_EGEOMETRY;
    }
    return 0;
}

/* Whether a row agrees with those before it of its engine: 0, or BATON_EGEOMETRY with *why. */
static int check_same(const struct directory *d, const struct directory_engine *e, uint32_t rank,
                      const struct wire_row *row, struct plan_why *why)
{
    uint32_t i = 0;
    while (e->ranks[i] == DIRECTORY_NONE)
        i++;
    const uint32_t other = e->ranks[i]; /* the first one met speaks for those before it */
    if (e->verdicts != row->verdicts) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u differ in whom verdicts are told to",
                 row->engine, other, rank);
        return BATON_EGEOMETRY;
    }
    if (e->told_life != row->life) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u are of different lives", row->engine, other,
                 rank);
        return BATON_EGEOMETRY;
    }
    if (e->tp != row->tp || e->pp != row->pp) {
        snprintf(why->text, sizeof why->text, "engine %s: rank %u says tp %u pp %u, rank %u says tp %u pp %u",
                 row->engine, other, e->tp, e->pp, rank, row->tp, row->pp);
        return BATON_EGEOMETRY;
    }
    const uint32_t there = e->ranks[(uint32_t)row->pp_rank * row->tp + row->tp_rank];
    if (there != DIRECTORY_NONE) {
        snprintf(why->text, sizeof why->text, "engine %s: ranks %u and %u both say tp_rank %u pp_rank %u", row->engine,
                 there, rank, row->tp_rank, row->pp_rank);
        return BATON_EGEOMETRY;
    }
    return check_model(d, e, rank, row, why);
}

/* Whether the life that a row names has lost a rank already. Without a life it is not known whose rank that was. */
static int check_life(const struct directory *d, const struct wire_row *row, struct plan_why *why)
{
    const struct directory_engine *e;
    DL_FOREACH(d->gone, e)
    {
        if (row->life != 0 && e->life == row->life && strcmp(e->name, row->engine) == 0) {
            snprintf(why->text, sizeof why->text, "engine %s: this life of it has lost a rank", row->engine);
            return BATON_EGONE;
        }
    }
    return 0;
}

static int check_row(const struct directory *d, uint32_t rank, const struct wire_row *row, struct plan_why *why)
{
    const uint32_t same = directory_rank(d, row->number);
    if ((uint32_t)row->tp * row->pp > BATON_ENGINE_RANKS_MAX) {
        snprintf(why->text, sizeof why->text, "engine %s: tp %u x pp %u is more than %d ranks", row->engine, row->tp,
                 row->pp, BATON_ENGINE_RANKS_MAX);
        return BATON_EGEOMETRY;
    }
    if (same != DIRECTORY_NONE) {
        snprintf(why->text, sizeof why->text, "ranks %u and %u have the same number", same, rank);
        return BATON_EEXIST;
    }
    const uint32_t engine = directory_find(d, row->engine);
    const int rc = check_life(d, row, why);
    return rc != 0 || engine == DIRECTORY_NONE ? rc : check_same(d, d->engines[engine], rank, row, why);
}

/* Its engine has it now. */
static void enter(struct directory *d, struct directory_engine *e, uint32_t rank, const struct wire_row *row,
                  const char *host)
{
    const uint32_t index = (uint32_t)row->pp_rank * row->tp + row->tp_rank;
    struct plan_member *m = &e->members[index];
    *m = (struct plan_member){
        .num_boxes = row->num_boxes, .node = row->node, .package = row->package, .numa = row->numa};
    memcpy(m->box, row->box, sizeof m->box);
    d->rows[rank] = (struct directory_row){.number = row->number,
                                           .card_offset = row->card_offset,
                                           .host = host,
                                           .card_bytes = row->card_bytes,
                                           .model = row->model,
                                           .block_tokens = row->block_tokens,
                                           .features = row->features,
                                           .node = row->node,
                                           .version = row->version,
                                           .role = row->role,
                                           .rules = row->rules,
                                           .num_boxes = (uint8_t)row->num_boxes};
    number_add(d, rank);
    e->ranks[index] = rank;
    d->engine_of[rank] = e->index;
    d->index_of[rank] = index;
    if (row->model != 0 && e->told == DIRECTORY_NONE)
        e->told = rank;
    if (++e->num_joined < e->num_ranks)
        return;
    e->state = DIRECTORY_WHOLE;
    if (e->life == 0)
        e->life = d->rows[e->ranks[0]].number;
}

int directory_join(struct directory *d, const uint8_t bytes[WIRE_ROW_BYTES], uint32_t *out, struct plan_why *why)
{
    const bool is_again = d->num_free_ranks > 0;
    const uint32_t rank = is_again ? d->free_ranks[d->num_free_ranks - 1] : d->num_ranks;
    struct wire_row row;
    if (rank == d->most) {
        snprintf(why->text, sizeof why->text, "%u members are there, and no more may be", d->most);
        return BATON_EBUSY;
    }
    int rc = wire_row_decode(bytes, &row);
    if (rc != 0)
        snprintf(why->text, sizeof why->text, "rank %u's directory row is malformed", rank);
    else
        rc = check_row(d, rank, &row, why);
    if (rc != 0)
        return rc;
    const uint32_t known = directory_find(d, row.engine);
    struct directory_engine *e = known != DIRECTORY_NONE ? d->engines[known] : engine_create(d, &row);
    const char *host = e != NULL ? host_of(e, row.host) : NULL;
    if (host == NULL || !node_add(d, rank, row.node)) {
        snprintf(why->text, sizeof why->text, "no memory for rank %u", rank);
        if (e != NULL && e->num_joined == 0) {
            HASH_DELETE(by_name, d->named, e);
            engine_unplace(d, e);
        }
        return BATON_ENOMEM;
    }
    d->num_free_ranks -= is_again;
    d->num_ranks += !is_again;
    enter(d, e, rank, &row, host);
    *out = rank;
    return 0;
}

/* ---- a member goes ----------------------------------------------------------------------------------------------- */

void directory_leave(struct directory *d, uint32_t rank)
{
    struct directory_engine *e = d->engines[d->engine_of[rank]];
    e->num_left++;
    if (e->state == DIRECTORY_GONE)
        return;
    HASH_DELETE(by_name, d->named, e);
    DL_APPEND(d->gone, e);
    e->state = DIRECTORY_GONE;
}

void directory_forget(struct directory *d, uint32_t engine)
{
    struct directory_engine *e = d->engines[engine];
    for (uint32_t i = e->num_ranks; i-- > 0;) { /* so that ranks that come next are given in order */
        const uint32_t rank = e->ranks[i];
        if (rank == DIRECTORY_NONE)
            continue;
        number_remove(d, rank);
        node_remove(d, rank);
        d->engine_of[rank] = DIRECTORY_NONE;
        d->free_ranks[d->num_free_ranks++] = rank;
    }
    DL_DELETE(d->gone, e);
    engine_unplace(d, e);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

int directory_create(uint32_t most, struct directory **out)
{
    struct directory *d = calloc(1, sizeof *d);
    if (d == NULL)
        return BATON_ENOMEM;
    d->most = most;
    while (d->number_mask < most)
        d->number_mask = 2 * d->number_mask + 1;
    d->rows = calloc(most, sizeof *d->rows);
    d->engine_of = calloc(most, sizeof *d->engine_of);
    d->index_of = calloc(most, sizeof *d->index_of);
    d->next_on_node = calloc(most, sizeof *d->next_on_node);
    d->free_ranks = calloc(most, sizeof *d->free_ranks);
    d->by_number = calloc((size_t)d->number_mask + 1, sizeof *d->by_number);
    d->next_by_number = calloc(most, sizeof *d->next_by_number);
    d->engines = calloc(most, sizeof *d->engines);
    if (d->rows == NULL || d->engine_of == NULL || d->index_of == NULL || d->next_on_node == NULL ||
        d->free_ranks == NULL || d->by_number == NULL || d->next_by_number == NULL || d->engines == NULL) {
        directory_destroy(d);
        return BATON_ENOMEM;
    }
    *out = d;
    return 0;
}

/* Each engine has all of its ranks. */
static int check_whole(const struct directory *d, struct plan_why *why)
{
    for (uint32_t i = 0; i < d->num_engines; i++) {
        const struct directory_engine *e = d->engines[i];
        for (uint32_t k = 0; k < e->num_ranks; k++)
            if (e->ranks[k] == DIRECTORY_NONE) {
                snprintf(why->text, sizeof why->text,
                         "engine %s has %u ranks by its tp and pp, but its rank %u is missing", e->name, e->num_ranks,
                         k);
                return BATON_EGEOMETRY;
            }
    }
    return 0;
}

int directory_of_world(const uint8_t *rows, uint32_t num_ranks, struct directory **out, struct plan_why *why)
{
    struct directory *d;
    int rc = directory_create(num_ranks, &d);
    if (rc != 0) {
        snprintf(why->text, sizeof why->text, "no memory for %u ranks", num_ranks);
        return rc;
    }
    for (uint32_t i = 0, rank; rc == 0 && i < num_ranks; i++)
        rc = directory_join(d, rows + (size_t)i * WIRE_ROW_BYTES, &rank, why);
    if (rc == 0)
        rc = check_whole(d, why);
    if (rc != 0) {
        directory_destroy(d);
        return rc;
    }
    *out = d;
    return 0;
}

void directory_destroy(struct directory *d)
{
    struct directory_node *n, *next;
    if (d == NULL)
        return;
    HASH_CLEAR(by_name, d->named);
    HASH_ITER(hh, d->nodes, n, next)
    {
        HASH_DEL(d->nodes, n);
        free(n);
    }
    for (uint32_t i = 0; d->engines != NULL && i < d->num_engines; i++)
        if (d->engines[i] != NULL)
            engine_free(d->engines[i]);
    free(d->engines);
    free(d->rows);
    free(d->engine_of);
    free(d->index_of);
    free(d->next_on_node);
    free(d->free_ranks);
    free(d->by_number);
    free(d->next_by_number);
    free(d);
}
