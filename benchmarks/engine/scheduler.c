/* SPDX-License-Identifier: BSD-3-Clause */
/* scheduler: see scheduler.h. */
#include "engine/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "replay/random.h"

#define SPOKEN_MAX (REQUEST_ATTACH_MAX / sizeof(uint16_t)) /* answers that can go along with blocks */

/* ---- making ------------------------------------------------------------------------------------------------------ */

static const struct load_request *wish(const struct scheduler *s, const struct request *r)
{
    return &s->load->requests[r->index];
}

static uint32_t blocks_for(const struct scheduler *s, uint32_t tokens)
{
    return (tokens + s->rules.block_tokens - 1) / s->rules.block_tokens;
}

uint32_t scheduler_least_blocks(const struct load *load, uint32_t block_tokens)
{
    return (load_most_tokens(load) + block_tokens - 1) / block_tokens;
}

static int make_request(struct scheduler *s, struct request *r, uint32_t index)
{
    const struct load_request *w = &s->load->requests[index];
    const uint32_t all = w->prompt + w->output, most = blocks_for(s, all);
    *r = (struct request){.index = index, .goal = s->rules.prefill ? w->prompt - 1 : all - 1};
    r->tokens = calloc(all, sizeof *r->tokens);
    r->blocks = calloc(most, sizeof *r->blocks);
    r->in.aside = calloc(most, sizeof *r->in.aside);
    r->out.aside = calloc(most, sizeof *r->out.aside);
    return r->tokens && r->blocks && r->in.aside && r->out.aside ? 0 : -1;
}

int scheduler_init(struct scheduler *s, const struct scheduler_rules *rules, const struct load *load,
                   const struct carrier *carrier, uint32_t num_blocks, bool (*mine)(void *user, uint32_t index),
                   void *user)
{
    *s = (struct scheduler){.rules = *rules, .load = load, .carrier = *carrier};
    s->requests = calloc(load->count, sizeof *s->requests);
    s->parts = calloc(rules->step_tokens, sizeof *s->parts);
    s->spoken = calloc(load_most_tokens(load), sizeof *s->spoken);
    if (s->requests == NULL || s->parts == NULL || s->spoken == NULL || blocks_init(&s->blocks, num_blocks) != 0)
        return -1;
    for (uint32_t i = 0; i < load->count; i++) {
        if (!mine(user, i))
            continue;
        if (make_request(s, &s->requests[s->count++], i) != 0)
            return -1;
    }
    return 0;
}

void scheduler_fini(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        free(s->requests[i].tokens);
        free(s->requests[i].blocks);
        free(s->requests[i].in.aside);
        free(s->requests[i].out.aside);
    }
    free(s->spoken);
    free(s->requests);
    free(s->parts);
    if (s->blocks.all != NULL)
        blocks_fini(&s->blocks);
    *s = (struct scheduler){0};
}

static struct request *find(const struct scheduler *s, uint32_t index)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->requests[i].index == index)
            return &s->requests[i];
    return NULL;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static uint64_t next_name(const struct scheduler *s, const struct request *r, uint32_t block, uint64_t name)
{
    for (uint32_t i = 0; i < s->rules.block_tokens; i++)
        name = random_mix(name + r->tokens[block * s->rules.block_tokens + i] + 1);
    return name;
}

static void name_blocks(struct scheduler *s, struct request *r)
{
    while (s->rules.prefix && (r->named + 1) * s->rules.block_tokens <= r->computed) {
        r->name = next_name(s, r, r->named, r->name);
        blocks_name(&s->blocks, r->blocks[r->named++], r->name);
    }
}

/* Leading blocks of the request that are here already. At least one token is left to be computed. */
static void find_prefix(struct scheduler *s, struct request *r)
{
    const uint32_t end = s->rules.prefill ? r->goal : r->known;
    while (s->rules.prefix && (r->num_blocks + 1) * s->rules.block_tokens < end) {
        const uint64_t name = next_name(s, r, r->num_blocks, r->name);
        const uint32_t block = blocks_find(&s->blocks, name);
        if (block == BLOCKS_NONE)
            break;
        r->name = name;
        r->blocks[r->num_blocks++] = block;
        r->named = r->num_blocks;
    }
    r->computed = r->num_blocks * s->rules.block_tokens;
    s->counts.prefix_tokens += r->computed;
}

static bool grow(struct scheduler *s, struct request *r, uint32_t tokens)
{
    const uint32_t needed = blocks_for(s, tokens), has = r->num_blocks;
    if (needed <= has)
        return true;
    if (!blocks_take(&s->blocks, needed - has, r->blocks + has))
        return false;
    for (; r->num_blocks < needed; r->num_blocks++)
        s->carrier.renew(s->carrier.self, r->blocks[r->num_blocks]);
    return true;
}

static void forget_blocks(struct request *r)
{
    r->num_blocks = r->named = r->computed = 0;
    r->name = 0;
}

static void leave_blocks(struct scheduler *s, struct request *r)
{
    blocks_leave(&s->blocks, r->blocks, r->num_blocks);
    forget_blocks(r);
}

static void put_aside(struct request *r, struct transfer *t)
{
    memcpy(t->aside, r->blocks, r->num_blocks * sizeof *r->blocks);
    t->num_aside = r->num_blocks;
    forget_blocks(r);
}

static void leave_aside(struct scheduler *s, struct transfer *t)
{
    blocks_leave(&s->blocks, t->aside, t->num_aside);
    t->num_aside = 0;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* Whether the engine that answers a request gives its blocks, with all answers so far, for the next turn. */
static bool flows_back(const struct load_request *w)
{
    return w->child != LOAD_NONE && w->spoken + w->output <= SPOKEN_MAX;
}

static void begin(struct transfer *t, uint32_t from, uint32_t until)
{
    *t = (struct transfer){.open = true, .from = from, .until = until, .aside = t->aside};
}

static void withdraw(struct scheduler *s, struct transfer *t)
{
    if (!t->withdrawn)
        s->carrier.withdraw(s->carrier.self, t);
    t->withdrawn = true;
}

static void take(struct scheduler *s, struct request *r, bool of_turn_before, uint32_t until)
{
    begin(&r->in, r->computed, until);
    r->phase = PHASE_LOADING;
    s->carrier.take(s->carrier.self, r, of_turn_before);
}

static void give(struct scheduler *s, struct request *r, bool to_turn_after, bool streamed, const void *attach,
                 uint32_t bytes)
{
    begin(&r->out, 0, r->goal);
    s->carrier.give(s->carrier.self, r, to_turn_after, streamed, attach, bytes);
}

static void refuse(struct scheduler *s, struct request *r)
{
    begin(&r->out, 0, r->goal);
    r->phase = PHASE_GIVING;
    s->carrier.refuse(s->carrier.self, r);
}

/* Prefill is about to go on with a request, from r->computed on. */
static void run(struct scheduler *s, struct request *r)
{
    const bool streamed = s->rules.prefill && s->rules.stream != STREAM_NONE;
    r->phase = PHASE_RUNNING;
    if (!streamed)
        return;
    give(s, r, false, true, NULL, 0);
    if (r->computed > 0 && (s->rules.stream & STREAM_CHUNKS) != 0)
        s->carrier.append(s->carrier.self, r, r->computed);
}

/* The blocks did not come. A prefill engine does not know what was answered, and so cannot compute the prompt. */
static void load_failed(struct scheduler *s, struct request *r)
{
    if (s->rules.prefill) {
        refuse(s, r);
        return;
    }
    r->phase = PHASE_WAITING;
    r->alone = true;
    s->counts.recomputed++;
}

static void load_done(struct scheduler *s, struct request *r)
{
    const struct load_request *w = wish(s, r);
    s->counts.loaded_tokens += r->in.until - r->in.from;
    if (s->rules.prefill) {
        if (r->in.num_attach != w->spoken * sizeof *s->spoken) {
            leave_blocks(s, r);
            load_failed(s, r);
            return;
        }
        memcpy(s->spoken, r->in.attach, r->in.num_attach);
        load_prompt(s->load, r->index, s->spoken, r->tokens);
        r->known = w->prompt;
    }
    r->computed = r->in.until;
    name_blocks(s, r);
    run(s, r);
}

static void hear_in(struct scheduler *s, struct request *r, enum outcome outcome)
{
    const bool loading = r->phase == PHASE_LOADING;
    if (outcome == OUTCOME_OPEN)
        return;
    if (loading && outcome == OUTCOME_GIVEN_UP)
        put_aside(r, &r->in);
    else if (loading && outcome == OUTCOME_FAILED)
        leave_blocks(s, r);
    r->in.open = outcome == OUTCOME_GIVEN_UP;
    if (!r->in.open)
        leave_aside(s, &r->in);
    if (loading && outcome == OUTCOME_DONE)
        load_done(s, r);
    else if (loading)
        load_failed(s, r);
}

static void hear_out(struct scheduler *s, struct request *r, enum outcome outcome)
{
    const bool gave_up = outcome == OUTCOME_GIVEN_UP;
    if (outcome == OUTCOME_OPEN || (gave_up && r->phase == PHASE_ENDED))
        return;
    if (outcome == OUTCOME_DONE && !s->rules.prefill)
        s->counts.returned_tokens += r->out.until;
    if (gave_up)
        put_aside(r, &r->out);
    else if (r->phase == PHASE_ENDED)
        leave_aside(s, &r->out);
    else
        leave_blocks(s, r);
    r->out.open = gave_up;
    r->phase = PHASE_ENDED;
}

uint32_t scheduler_outcomes(const struct scheduler *s, int64_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct request *r = &s->requests[i];
        if (r->in.open)
            out[n++] = r->in.mine;
        if (r->out.open)
            out[n++] = r->out.mine;
    }
    return n;
}

void scheduler_hear(struct scheduler *s, const int64_t *outcomes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct request *r = &s->requests[i];
        const bool in = r->in.open, out = r->out.open;
        if (in)
            hear_in(s, r, (enum outcome)outcomes[n++]);
        if (out)
            hear_out(s, r, (enum outcome)outcomes[n++]);
    }
}

/* ---- admission --------------------------------------------------------------------------------------------------- */

/* Blocks that are kept for the next turn of a conversation go first where blocks are short: no more of them than make
   `needed` free, and those whose turn is the last before others. They are free when their offers have ended. */
static void withdraw_kept(struct scheduler *s, uint32_t needed)
{
    uint32_t coming = s->blocks.num_free;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->requests[i].phase == PHASE_GIVING && s->requests[i].out.withdrawn)
            coming += s->requests[i].num_blocks;
    while (!s->rules.prefill && coming < needed) {
        struct request *last = NULL;
        for (struct request *r = s->requests; r < s->requests + s->count; r++)
            if (r->phase == PHASE_GIVING && !r->out.withdrawn && (!last || wish(s, r)->child > wish(s, last)->child))
                last = r;
        if (last == NULL)
            return;
        withdraw(s, &last->out);
        coming += last->num_blocks;
        s->counts.taken_back++;
    }
}

/* What this engine answered in a turn and in all before it. */
static void recall(const struct scheduler *s, uint32_t index, uint16_t *spoken)
{
    for (const struct load_request *w; index != LOAD_NONE; index = w->parent) {
        w = &s->load->requests[index];
        memcpy(spoken + w->spoken, find(s, index)->tokens + w->prompt, w->output * sizeof *spoken);
    }
}

/* Gives the request blocks for all that is known of it. False: there are too few. */
static bool admit(struct scheduler *s, struct request *r)
{
    const struct load_request *w = wish(s, r);
    const bool turn = w->parent != LOAD_NONE;
    if (s->rules.prefill && turn) {
        const struct load_request *before = &s->load->requests[w->parent];
        if (!flows_back(before)) {
            refuse(s, r);
            return true;
        }
        if (!grow(s, r, r->goal))
            return false;
        take(s, r, true, before->prompt + before->output - 1);
        return true;
    }
    if (r->known == 0) {
        recall(s, w->parent, s->spoken);
        load_prompt(s->load, r->index, s->spoken, r->tokens);
        r->known = w->prompt;
    }
    find_prefix(s, r);
    if (!grow(s, r, s->rules.prefill ? r->goal : r->known)) {
        s->counts.prefix_tokens -= r->computed;
        leave_blocks(s, r);
        return false;
    }
    if (s->rules.prefill || r->alone)
        run(s, r);
    else
        take(s, r, false, w->prompt - 1);
    return true;
}

/* Whether the request may begin: it is there, and the turn before was answered. */
static bool may_begin(const struct scheduler *s, const struct request *r, uint64_t now_ms)
{
    const struct load_request *w = wish(s, r);
    if (w->arrival_ms > now_ms)
        return false;
    return s->rules.prefill || w->parent == LOAD_NONE || find(s, w->parent)->answered;
}

static void admit_all(struct scheduler *s, uint64_t now_ms)
{
    uint32_t running = 0, giving = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        running += s->requests[i].phase == PHASE_LOADING || s->requests[i].phase == PHASE_RUNNING;
        giving += s->requests[i].phase == PHASE_GIVING;
    }
    s->starves = false;
    for (uint32_t i = 0; i < s->count && running < s->rules.most_running; i++) {
        struct request *r = &s->requests[i];
        if (r->phase != PHASE_WAITING)
            continue;
        if (!may_begin(s, r, now_ms))
            return;
        if (!admit(s, r)) {
            withdraw_kept(s, blocks_for(s, r->known));
            s->starves = running + giving == 0;
            return;
        }
        running++;
    }
}

/* Some loads are called off, as those of users who went away; the request is then computed here. */
static void abort_some(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct request *r = &s->requests[i];
        const double draw = (double)(random_mix(r->index + s->load->seed + 77) >> 11) / 9007199254740992.0;
        if (s->rules.prefill || r->phase != PHASE_LOADING || r->aborted || draw >= s->rules.abort)
            continue;
        r->aborted = true;
        s->counts.aborted++;
        withdraw(s, &r->in);
    }
}

/* ---- the batch --------------------------------------------------------------------------------------------------- */

static void preempt(struct scheduler *s, struct request *r)
{
    leave_blocks(s, r);
    r->phase = PHASE_WAITING;
    r->alone = true;
    s->counts.preempted++;
}

/* The youngest request that is computed here and was not begun before `r`. */
static struct request *youngest(struct scheduler *s, struct request *r)
{
    for (struct request *y = s->requests + s->count - 1; y > r; y--)
        if (y->phase == PHASE_RUNNING)
            return y;
    return r;
}

/* Room for the request's next tokens; younger ones lose theirs for it. False: it has lost its own. */
static bool make_room(struct scheduler *s, struct request *r, uint32_t tokens)
{
    while (!grow(s, r, tokens)) {
        struct request *victim = youngest(s, r);
        withdraw_kept(s, blocks_for(s, tokens) - r->num_blocks);
        preempt(s, victim);
        if (victim == r)
            return false;
    }
    return true;
}

static void plan_request(struct scheduler *s, struct request *r, struct batch *batch)
{
    const uint32_t left = (s->rules.prefill ? r->goal : r->known) - r->computed;
    const uint32_t room = batch->room - batch->count, count = left < room ? left : room;
    if (count == 0 || !make_room(s, r, r->computed + count))
        return;
    struct scheduler_part part = {.request = r, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = r->computed + i;
        part.asks = !s->rules.prefill && at + 1 == r->known;
        batch_add(batch,
                  (struct batch_token){.token = r->tokens[at], .position = at, .blocks = r->blocks, .asks = part.asks});
    }
    s->parts[s->num_parts++] = part;
    if (s->rules.prefill && s->rules.stream == STREAM_BOTH)
        s->carrier.append(s->carrier.self, r, r->computed + count);
}

void scheduler_plan(struct scheduler *s, uint64_t now_ms, struct batch *batch)
{
    batch_clear(batch);
    s->num_parts = 0;
    abort_some(s);
    admit_all(s, now_ms);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->requests[i].phase == PHASE_RUNNING)
            plan_request(s, &s->requests[i], batch);
}

/* ---- what a step has brought ------------------------------------------------------------------------------------- */

static void finish_prefill(struct scheduler *s, struct request *r, uint64_t now_ns)
{
    r->phase = PHASE_GIVING;
    if (s->rules.stream == STREAM_NONE)
        give(s, r, false, false, &now_ns, sizeof now_ns);
}

/* The blocks of the turn before are needed no longer: whoever was to take them has done so, or will not. */
static void withdraw_parent(struct scheduler *s, const struct request *r)
{
    struct request *parent = wish(s, r)->parent == LOAD_NONE ? NULL : find(s, wish(s, r)->parent);
    if (parent != NULL && parent->phase == PHASE_GIVING)
        withdraw(s, &parent->out);
}

static void finish_answer(struct scheduler *s, struct request *r)
{
    const struct load_request *w = wish(s, r);
    r->answered = true;
    withdraw_parent(s, r);
    if (!flows_back(w)) {
        leave_blocks(s, r);
        r->phase = PHASE_ENDED;
        return;
    }
    recall(s, r->index, s->spoken);
    r->phase = PHASE_GIVING;
    give(s, r, true, false, s->spoken, (uint32_t)((w->spoken + w->output) * sizeof *s->spoken));
}

static void add_answer(struct scheduler *s, struct request *r, struct batch_answer answer, uint64_t now_ns)
{
    digest_add(&r->digest, answer);
    r->first_ns = r->digest.answers == 1 ? now_ns : r->first_ns;
    r->last_ns = now_ns;
    r->tokens[r->known++] = (uint16_t)answer.token;
    if (r->known > r->goal)
        finish_answer(s, r);
}

void scheduler_commit(struct scheduler *s, const struct batch *batch, uint64_t now_ns)
{
    uint32_t answers = 0;
    for (uint32_t i = 0; i < s->num_parts; i++) {
        const struct scheduler_part *part = &s->parts[i];
        struct request *r = part->request;
        r->computed += part->count;
        name_blocks(s, r);
        if (s->rules.prefill && s->rules.stream == STREAM_CHUNKS)
            s->carrier.append(s->carrier.self, r, r->computed);
        if (s->rules.prefill && r->computed == r->goal)
            finish_prefill(s, r, now_ns);
        if (part->asks)
            add_answer(s, r, batch->answers[answers++], now_ns);
    }
}

bool scheduler_finished(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct request *r = &s->requests[i];
        if (r->phase != PHASE_ENDED)
            return false;
    }
    return true;
}
