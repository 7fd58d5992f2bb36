/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api: the verbs, called by any thread. Each checks its arguments, copies what it was given into one `struct call`, and
 * puts that on the reactor's queue; none waits.
 */
#include "front/context.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "wire/table.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int check_state(const struct baton *b)
{
    int rc = context_check_started(b);
    if (rc == 0 && stall_is_on(b))
        return error_set(BATON_ESTALL, "one turn has lasted longer than stall_ms (BATON_TUNE): poll the events");
    return rc;
}

static bool key_is_good(const char *key)
{
    size_t n = key != NULL ? strnlen(key, BATON_KEY_MAX) : 0;
    return n > 0 && n < BATON_KEY_MAX;
}

static int check_keys(const char *key, const char *base_key)
{
    if (!key_is_good(key) || (base_key != NULL && !key_is_good(base_key)))
        return error_set(BATON_EKEY, "a request key must have 1 to %d bytes", BATON_KEY_MAX - 1);
    return 0;
}

/* A call's tables: of each group, or empty ones. */
static int tables_of(const struct baton *b, const baton_table_t *tables, uint32_t num_tables, struct plan_tables *out)
{
    if (b->cache == NULL)
        return error_set(BATON_ESTATE, "this rank declared no cache");
    uint32_t groups = b->cache->geometry.num_groups;
    if (num_tables != 0 && num_tables != groups)
        return error_set(BATON_EINVAL, "num_tables is %u: give a table for each of the cache's %u groups", num_tables,
                         groups);
    *out = (struct plan_tables){.num = groups};
    memcpy(out->table, tables, num_tables * sizeof *tables);
    return 0;
}

static uint32_t per_id(const baton_geometry_t *g, uint32_t group)
{
    uint32_t n = g->groups[group].blocks_per_id;
    return n > 0 ? n : 1;
}

/* A group as the caller counts it: in ids, which may stand for several blocks each. */
static baton_group_t group_of(const baton_geometry_t *g, uint32_t i)
{
    baton_group_t group = g->groups[i];
    group.block_tokens *= per_id(g, i);
    group.num_blocks /= per_id(g, i);
    return group;
}

/* Every id exists, and every token that this call moves has a block. An offer's table may begin after token 0. */
static int check_tables(const struct baton *b, const struct plan_tables *tables, bool offered, uint32_t held,
                        uint32_t num_tokens)
{
    const baton_geometry_t *g = &b->cache->geometry;
    for (uint32_t i = 0; i < g->num_groups; i++) {
        const baton_table_t *t = &tables->table[i];
        baton_group_t group = group_of(g, i);
        uint64_t reach = (uint64_t)t->num_blocks * group.block_tokens + t->first_token;
        uint32_t first, end;
        struct plan_why why;
        if (t->blocks == NULL && t->num_blocks > 0)
            return error_set(BATON_EINVAL, "blocks must not be NULL");
        if (reach > UINT32_MAX || (group.kind == BATON_KIND_STATE && t->first_token != 0))
            return error_set(BATON_EINVAL, "group %u: a table ends before token 2^32, and a state's begins at 0", i);
        int rc = plan_table_check(&group, t, t->first_token, (uint32_t)reach, &why);
        plan_wanted(&group, offered ? t->first_token : held, num_tokens, &first, &end);
        if (rc == 0)
            rc = plan_table_reaches(&group, t, first, end, &why);
        if (rc != 0)
            return error_set(rc, "group %u: %s", i, why.text);
    }
    return 0;
}

/* No block is written twice by one want. */
static int check_once(const struct baton *b, const struct plan_tables *tables, uint32_t held, uint32_t num_tokens)
{
    for (uint32_t i = 0; i < tables->num; i++) {
        baton_group_t group = group_of(&b->cache->geometry, i);
        uint32_t first, end;
        struct plan_why why;
        plan_wanted(&group, held, num_tokens, &first, &end);
        int rc = plan_table_once(&group, &tables->table[i], first, end, &why);
        if (rc != 0)
            return error_set(rc, "group %u: %s", i, why.text);
    }
    return 0;
}

static bool has_blocks(const struct plan_tables *tables)
{
    uint32_t i = 0;
    while (i < tables->num && tables->table[i].num_blocks == 0)
        i++;
    return i < tables->num;
}

/* How many blocks each table needs room for: as many as it has, and at least as many as `tokens` tokens take. */
static int room_of(const struct baton *b, const struct plan_tables *tables, uint32_t tokens,
                   uint32_t room[BATON_GROUPS_MAX])
{
    const baton_geometry_t *g = &b->cache->geometry;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tables->num; i++) {
        baton_group_t group = group_of(g, i);
        uint32_t first = tables->table[i].first_token, behind = tokens > first ? tokens - first : 0;
        uint64_t most = group.kind == BATON_KIND_STATE
                            ? 1
                            : (behind + (uint64_t)group.block_tokens - 1) / group.block_tokens,
                 n = tables->table[i].num_blocks;
        if (tokens > 0 && most > n)
            n = most;
        sum += n * per_id(g, i);
        if (sum > WIRE_TABLE_ENTRIES_MAX)
            return error_set(BATON_EINVAL, "the tables have more than %u blocks", WIRE_TABLE_ENTRIES_MAX);
        room[i] = (uint32_t)n * per_id(g, i);
    }
    return 0;
}

static int check_arena(const struct baton *b, const struct plan_tables *tables, const uint32_t room[BATON_GROUPS_MAX])
{
    struct plan_tables all = *tables;
    for (uint32_t i = 0; i < all.num; i++)
        all.table[i].num_blocks = room[i];
    uint32_t entries = wire_table_entries(&all);
    if (entries > WIRE_TABLE_ENTRIES_MAX)
        return error_set(BATON_EINVAL, "the tables need %u entries, and may have %u", entries, WIRE_TABLE_ENTRIES_MAX);
    if (wire_table_bytes(entries) > b->settings.table_bytes)
        return error_set(BATON_EINVAL, "tables of %u entries do not fit the arena: raise BATON_TABLE_BYTES", entries);
    return 0;
}

/* NULL: no memory. `room`, if there are tables: as room_of fills it. */
static struct call *call_create(const struct baton *b, enum call_kind kind, const char *key, const char *base_key,
                                const struct plan_tables *tables, const uint32_t room[BATON_GROUPS_MAX])
{
    uint32_t num_blocks = 0, each[BATON_GROUPS_MAX];
    for (uint32_t i = 0; tables != NULL && i < tables->num; i++) {
        each[i] = per_id(&b->cache->geometry, i);
        num_blocks += room[i];
    }
    struct call *call = malloc(sizeof *call + (size_t)num_blocks * sizeof *call->blocks);
    if (call == NULL)
        return NULL;
    memset(call, 0, sizeof *call);
    call->kind = kind;
    bool ends = call_ends(call), hears = admission_hears(&b->admission) && ends;
    call->given_up = ends ? calloc(1, sizeof *call->given_up) : NULL;
    call->verdict = hears ? calloc(1, sizeof *call->verdict) : NULL;
    if ((ends && call->given_up == NULL) || (hears && call->verdict == NULL)) {
        call_free(call);
        return NULL;
    }
    if (base_key != NULL) {
        memcpy(call->key, base_key, strlen(base_key));
        memcpy(call->alias, key, strlen(key));
    } else if (key != NULL) {
        memcpy(call->key, key, strlen(key));
    }
    if (tables != NULL)
        call_set_tables(call, tables, each, room);
    return call;
}

static uint64_t blocks_of(const struct call *call)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < call->tables.num; i++)
        blocks += call->tables.table[i].num_blocks;
    return blocks;
}

/*
 * The bytes that this rank copies for a want, at most: from an engine of which a rank is of this node. Who pushes
 * copies for a want that comes to it.
 */
static uint64_t bytes_of(const struct baton *b, const struct call *want, baton_distance_t distance)
{
    uint64_t bytes = 0;
    if (want->want.mode == BATON_MODE_PUSH || distance > BATON_DISTANCE_NODE)
        return 0;
    for (uint32_t i = 0; i < want->tables.num; i++)
        bytes += want->tables.table[i].num_blocks * b->cache->block_bytes[i];
    return bytes;
}

static bool push_word(struct baton *b, struct call *word)
{
    const bool has_place = mpsc_reserve(&b->submits);
    if (has_place)
        mpsc_push(&b->submits, &word->item);
    return has_place;
}

/*
 * Hands a call over, or refuses it. `bytes`: that this rank copies for it, at most. The queue's release makes what the
 * caller stored before visible to the reactor.
 */
static int hand_over(struct baton *b, struct call *call, uint64_t bytes)
{
    const uint64_t blocks = blocks_of(call); /* it is the reactor's once it is handed over */
    const uint64_t now = call->submitted_ns = clock_now_ns();
    const uint64_t left_ns = call_ends(call) ? call_due_ns(call) - now : 0;
    const bool is_want = call->kind == CALL_WANT; /* the watchdog judges no others before a pause of its own */
    if (!(call_ends(call) ? calls_submit(b->calls, call, &b->submits) : push_word(b, call)))
        return admission_refuse(&b->admission, "the submission queue is full", "BATON_REQUESTS");
    if (is_want)
        stall_expect(b, now + left_ns);
    turns_call(b, now, blocks, bytes, left_ns);
    return 0;
}

static int check_id(const struct baton *b, baton_id_t id)
{
    if (!admission_gave(&b->admission, id))
        return error_set(BATON_EINVAL, "no call was given that id");
    return 0;
}

static int check_flags(uint32_t flags, uint32_t known, uint32_t reserved)
{
    if ((flags & ~known) != 0)
        return error_set(BATON_EINVAL, "flags has bits that are not known: 0x%x", flags & ~known);
    if (reserved != 0)
        return error_set(BATON_EINVAL, "reserved is %u, and must be 0: is the struct cleared?", reserved);
    return 0;
}

/* Hands over a word about an earlier call. It has no event of its own. */
static int hand_word(struct baton *b, struct call *word)
{
    int rc = hand_over(b, word, 0);
    if (rc != 0)
        call_free(word);
    return rc;
}

/* ---- offer ------------------------------------------------------------------------------------------------------- */

static int offer_seats(const struct baton *b, const baton_offer_params_t *p, struct call *call)
{
    struct call_offer *offer = &call->offer;
    offer->num_seats = p->num_consumers ? p->num_consumers : 1;
    if (p->consumers != NULL && p->num_consumers == 0)
        return error_set(BATON_EINVAL, "consumers are given, and their number is 0");
    for (uint32_t i = 0; i < offer->num_seats; i++) {
        if (p->consumers == NULL)
            continue;
        if (p->consumers[i] == NULL)
            return error_set(BATON_EINVAL, "consumers[%u] is NULL", i);
        uint64_t life;
        baton_distance_t distance;
        if (fleet_find(b->fleet, p->consumers[i], &life, &distance) == DIRECTORY_NONE)
            return error_set(BATON_EENGINE, "no engine is called %.63s", p->consumers[i]);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(offer->seats[k], p->consumers[i]) == 0)
                return error_set(BATON_EINVAL, "engine %.63s is named twice", p->consumers[i]);
        snprintf(offer->seats[i], sizeof offer->seats[i], "%s", p->consumers[i]);
    }
    return 0;
}

static int offer_check(const struct baton *b, const baton_offer_params_t *p, struct plan_tables *tables,
                       uint32_t room[BATON_GROUPS_MAX])
{
    int rc = check_state(b);
    if (rc != 0)
        return rc;
    if (p->num_attach > BATON_ATTACH_MAX || (p->attach == NULL && p->num_attach > 0))
        return error_set(BATON_EINVAL, "attach must not be NULL, num_attach at most %d", BATON_ATTACH_MAX);
    if (p->num_consumers > BATON_CONSUMERS_MAX)
        return error_set(BATON_EINVAL, "num_consumers is %u, and at most %d", p->num_consumers, BATON_CONSUMERS_MAX);
    rc = check_flags(p->flags, BATON_OFFER_LAYERS | BATON_OFFER_CHUNKS, p->reserved);
    if (rc == 0)
        rc = check_keys(p->key, p->base_key);
    if (rc != 0)
        return rc;
    if (p->num_tokens == 0)
        return error_set(BATON_ETOKENS, "an offer has at least one token");
    bool in_chunks = (p->flags & BATON_OFFER_CHUNKS) != 0;
    rc = tables_of(b, p->tables, p->num_tables, tables);
    if (rc == 0)
        rc = check_tables(b, tables, true, 0, in_chunks ? 0 : p->num_tokens);
    if (rc == 0)
        rc = room_of(b, tables, in_chunks ? p->num_tokens : 0, room);
    return rc != 0 ? rc : check_arena(b, tables, room);
}

/* Makes the caller's stores into the blocks, streaming stores too, visible before anything that tells of them. */
static void stores_first(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
    atomic_thread_fence(memory_order_release);
}

int baton_offer(baton_t *b, const baton_offer_params_t *params, baton_id_t *id)
{
    baton_offer_params_t own, *p = &own;
    struct plan_tables tables;
    uint32_t room[BATON_GROUPS_MAX];
    int rc = sized_take(params, "baton_offer_params_t", p, sizeof *p);
    if (rc == 0)
        rc = offer_check(b, p, &tables, room);
    if (rc != 0)
        return rc;
    stores_first();
    rc = admission_take(&b->admission, true);
    if (rc != 0)
        return rc;
    struct call *call = call_create(b, CALL_OFFER, p->key, p->base_key, &tables, room);
    rc = call == NULL ? error_set(BATON_ENOMEM, "no memory for an offer") : offer_seats(b, p, call);
    if (rc != 0)
        goto undo;
    call->id = admission_id(&b->admission);
    call->attempt = p->attempt;
    call->user = p->user;
    call->offer.num_tokens = p->num_tokens;
    call->offer.ttl_ms = p->ttl_ms ? p->ttl_ms : (uint32_t)b->settings.ttl_ms;
    call->offer.in_layers = (p->flags & BATON_OFFER_LAYERS) != 0;
    call->offer.in_chunks = (p->flags & BATON_OFFER_CHUNKS) != 0;
    call->offer.num_attach = p->num_attach;
    if (p->num_attach > 0)
        memcpy(call->offer.attach, p->attach, p->num_attach);
    baton_id_t given = call->id; /* the call is the reactor's once it is handed over */
    rc = hand_over(b, call, 0);
    if (rc != 0)
        goto undo;
    if (id != NULL)
        *id = given;
    return 0;

undo:
    call_free(call);
    admission_undo(&b->admission, true);
    return rc;
}

static int append_check(const struct baton *b, baton_id_t offer, const baton_append_params_t *p,
                        struct plan_tables *tables)
{
    int rc = check_state(b);
    if (rc == 0)
        rc = check_id(b, offer);
    if (rc == 0 && p->num_tokens == 0)
        rc = error_set(BATON_ETOKENS, "a chunk has at least one token");
    if (rc == 0)
        rc = tables_of(b, p->tables, p->num_tables, tables);
    for (uint32_t i = 0; rc == 0 && i < tables->num; i++)
        if (tables->table[i].first_token != 0)
            rc = error_set(BATON_EINVAL, "group %u: first_token must be 0, the blocks follow those before", i);
    return rc != 0 ? rc : check_tables(b, tables, true, 0, 0);
}

int baton_append(baton_t *b, baton_id_t offer, const baton_append_params_t *params)
{
    baton_append_params_t own, *p = &own;
    struct plan_tables tables;
    uint32_t room[BATON_GROUPS_MAX];
    int rc = sized_take(params, "baton_append_params_t", p, sizeof *p);
    if (rc == 0)
        rc = append_check(b, offer, p, &tables);
    if (rc == 0)
        rc = room_of(b, &tables, 0, room);
    if (rc == 0)
        rc = check_arena(b, &tables, room);
    if (rc != 0)
        return rc;
    stores_first();
    struct call *word = call_create(b, CALL_APPEND, NULL, NULL, &tables, room);
    if (word == NULL)
        return error_set(BATON_ENOMEM, "no memory for a chunk");
    word->id = offer;
    word->append.num_tokens = p->num_tokens;
    return hand_word(b, word);
}

int baton_ready(baton_t *b, baton_id_t offer, uint32_t layer_first, uint32_t layer_count, uint32_t num_tokens)
{
    int rc = check_state(b);
    if (rc == 0)
        rc = check_id(b, offer);
    if (rc != 0)
        return rc;
    if (b->cache == NULL || layer_count == 0 || layer_first >= b->cache->geometry.layers_total ||
        layer_count > b->cache->geometry.layers_total - layer_first)
        return error_set(BATON_EINVAL, "layers must lie within the model's");
    stores_first();
    struct call *word = call_create(b, CALL_READY, NULL, NULL, NULL, NULL);
    if (word == NULL)
        return error_set(BATON_ENOMEM, "no memory to say that layers are ready");
    word->id = offer;
    word->ready = (struct call_ready){layer_first, layer_count, num_tokens};
    return hand_word(b, word);
}

/* ---- want -------------------------------------------------------------------------------------------------------- */

/* Whom a want means: an engine that is there, or a name that is waited for. */
static int want_engine(const struct baton *b, const baton_want_params_t *p, struct call_want *whose,
                       baton_distance_t *distance)
{
    const size_t length = strnlen(p->engine, BATON_ENGINE_NAME_MAX);
    whose->engine = fleet_find(b->fleet, p->engine, &whose->life, distance);
    if (whose->engine == DIRECTORY_NONE && p->life == 0 && (p->flags & BATON_WANT_AWAIT_ENGINE) != 0) {
        if (length == 0 || length == BATON_ENGINE_NAME_MAX)
            return error_set(BATON_EENGINE, "an engine's name has 1 to %d bytes", BATON_ENGINE_NAME_MAX - 1);
        memcpy(whose->awaited, p->engine, length);
        return 0;
    }
    if (whose->engine == DIRECTORY_NONE)
        return error_set(p->life != 0 ? BATON_EGONE : BATON_EENGINE, "no engine is called %.63s", p->engine);
    if (p->life != 0 && p->life != whose->life)
        return error_set(BATON_EGONE, "engine %.63s has life %016" PRIx64 " now, and %016" PRIx64 " is wanted",
                         p->engine, whose->life, p->life);
    return 0;
}

static int want_check(const struct baton *b, const baton_want_params_t *p, struct call_want *whose,
                      baton_distance_t *distance, struct plan_tables *tables, uint32_t room[BATON_GROUPS_MAX])
{
    int rc = check_state(b);
    if (rc != 0)
        return rc;
    if (p->engine == NULL)
        return error_set(BATON_EINVAL, "engine must not be NULL");
    if (p->mode < BATON_MODE_AUTO || p->mode > BATON_MODE_PUSH)
        return error_set(BATON_EINVAL, "mode %d is not known", (int)p->mode);
    rc = check_flags(p->flags, BATON_WANT_ZERO_TAIL | BATON_WANT_AWAIT_ENGINE, p->reserved);
    if (rc == 0)
        rc = check_keys(p->key, p->base_key);
    if (rc != 0)
        return rc;
    if (p->held_tokens > p->num_tokens)
        return error_set(BATON_ETOKENS, "%u tokens are held, and %u are wanted", p->held_tokens, p->num_tokens);
    rc = want_engine(b, p, whose, distance);
    if (rc != 0)
        return rc;
    rc = tables_of(b, p->tables, p->num_tables, tables);
    if (rc == 0)
        rc = check_tables(b, tables, false, p->held_tokens, p->num_tokens);
    if (rc == 0 && p->num_tokens == 0 && has_blocks(tables)) /* else a forgotten num_tokens would be done */
        rc = error_set(BATON_ETOKENS, "blocks are given, and num_tokens is 0");
    if (rc == 0)
        rc = check_once(b, tables, p->held_tokens, p->num_tokens);
    if (rc == 0 && p->held_tokens < p->num_tokens && b->cache->own != NULL && !b->cache->own->is_writable)
        rc = error_set(BATON_EINVAL, "the cache lies in memory that cannot be written: blocks can only be offered");
    if (rc == 0)
        rc = room_of(b, tables, 0, room);
    return rc != 0 || p->mode != BATON_MODE_PUSH ? rc : check_arena(b, tables, room);
}

int baton_want(baton_t *b, const baton_want_params_t *params, baton_id_t *id)
{
    baton_want_params_t own, *p = &own;
    struct call_want whose = {0};
    baton_distance_t distance = BATON_DISTANCE_WORLD; /* of an engine that is not there yet */
    struct plan_tables tables;
    uint32_t room[BATON_GROUPS_MAX];
    int rc = sized_take(params, "baton_want_params_t", p, sizeof *p);
    if (rc == 0)
        rc = want_check(b, p, &whose, &distance, &tables, room);
    if (rc != 0)
        return rc;
    bool leased = p->mode == BATON_MODE_PUSH;
    rc = admission_take(&b->admission, leased);
    if (rc != 0)
        return rc;
    struct call *call = call_create(b, CALL_WANT, p->key, p->base_key, &tables, room);
    if (call == NULL) {
        rc = error_set(BATON_ENOMEM, "no memory for a want");
        goto undo;
    }
    call->id = admission_id(&b->admission);
    call->attempt = p->attempt;
    call->user = p->user;
    call->want = whose;
    call->want.mode = p->mode == BATON_MODE_PUSH ? BATON_MODE_PUSH : BATON_MODE_PULL;
    call->want.num_tokens = p->num_tokens;
    call->want.held_tokens = p->held_tokens;
    call->want.zero_tail = (p->flags & BATON_WANT_ZERO_TAIL) != 0;
    call->want.timeout_ms = p->timeout_ms ? p->timeout_ms : (uint32_t)b->settings.want_ms;
    baton_id_t given = call->id;
    rc = hand_over(b, call, bytes_of(b, call, distance));
    if (rc != 0)
        goto undo;
    if (id != NULL)
        *id = given;
    return 0;

undo:
    call_free(call);
    admission_undo(&b->admission, leased);
    return rc;
}

int baton_cancel(baton_t *b, baton_id_t id)
{
    int rc = check_state(b);
    if (rc != 0)
        return rc;
    rc = check_id(b, id);
    if (rc != 0)
        return rc;
    struct call *word = call_create(b, CALL_CANCEL, NULL, NULL, NULL, NULL);
    if (word == NULL)
        return error_set(BATON_ENOMEM, "no memory to cancel a call");
    word->id = id;
    return hand_word(b, word);
}
