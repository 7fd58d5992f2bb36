/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scheduler: a prefill and a decode engine in one process, with a carrier that is late, fails and gives up at random,
 * and a model that only chains hashes. What a token computes depends on all tokens before it, which the model reads
 * from the request's blocks: so a block that is reused, shared or read too early shows. Blocks whose transfer was
 * given up are scribbled over, or must stay as they are, until the carrier says that they are quiet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler.h"
#include "replay/random.h"

#define REQUESTS 40
#define VOCAB 300
#define STEPS_MAX 40000

struct engine {
    struct world *world;
    struct scheduler scheduler;
    struct batch batch;
    uint64_t *memory; /* a hash for each token of each block; 0: nobody filled it */
};

/* Where offer and want of one key meet. */
struct meeting {
    struct request *giver, *taker;
    bool refused, whole;
    uint32_t filled;                  /* tokens of the giver, as it said */
    uint32_t scribbling;              /* steps for which a transfer that was given up still writes */
    uint32_t blocks[512], num_blocks; /* of the taker */
    uint32_t reading;                 /* steps for which one that was given up is still read */
    uint32_t given[512], num_given;   /* of the giver then */
    uint64_t was;                     /* what they hold */
};

struct world {
    struct load load;
    struct engine engines[2];             /* prefill, decode */
    struct meeting meetings[2][REQUESTS]; /* of prompts, of turns */
    uint64_t random;
    uint32_t failures; /* of 100 transfers that meet */
    unsigned takes_given_up, gives_given_up, without_attached, starved;
};

static uint32_t tokens_of(const struct engine *e)
{
    return e->scheduler.rules.block_tokens;
}

static uint64_t *place(const struct engine *e, const uint32_t *blocks, uint32_t token)
{
    return &e->memory[(size_t)blocks[token / tokens_of(e)] * tokens_of(e) + token % tokens_of(e)];
}

/* ---- the carrier ------------------------------------------------------------------------------------------------- */

static struct meeting *meeting_of(struct engine *e, const struct request *r, bool turn)
{
    return &e->world->meetings[turn][r->index];
}

static void take(void *self, struct request *r, bool of_turn_before)
{
    struct engine *e = self;
    const uint32_t index = of_turn_before ? e->world->load.requests[r->index].parent : r->index;
    struct meeting *m = &e->world->meetings[of_turn_before][index];
    m->taker = r;
    m->num_blocks = r->num_blocks;
    memcpy(m->blocks, r->blocks, r->num_blocks * sizeof *r->blocks);
}

static void give(void *self, struct request *r, bool to_turn_after, bool streamed, const void *attach, uint32_t bytes)
{
    struct engine *e = self;
    struct meeting *m = meeting_of(e, r, to_turn_after);
    m->giver = r;
    m->whole = !streamed || e->scheduler.rules.stream == STREAM_LAYERS; /* then nothing is appended */
    assert_in_range(bytes, 0, REQUEST_ATTACH_MAX);
    if (bytes > 0)
        memcpy(r->out.attach, attach, bytes);
    r->out.num_attach = bytes;
}

static void append(void *self, struct request *r, uint32_t tokens)
{
    struct meeting *m = meeting_of(self, r, false);
    assert_true(tokens > m->filled && tokens <= r->out.until);
    m->filled = tokens;
    m->whole = tokens == r->out.until;
}

static void refuse(void *self, struct request *r)
{
    struct meeting *m = meeting_of(self, r, false);
    m->giver = r;
    m->refused = true;
}

static void withdraw(void *self, struct transfer *t)
{
    (void)self;
    assert_true(t->withdrawn || t->open);
}

static void renew(void *self, uint32_t block)
{
    const struct engine *e = self;
    memset(e->memory + (size_t)block * tokens_of(e), 0, tokens_of(e) * sizeof *e->memory);
}

static void end(struct request *r, bool in, enum outcome outcome)
{
    struct transfer *t = in ? &r->in : &r->out;
    if (t->mine == OUTCOME_OPEN)
        t->mine = outcome;
}

static void scribble(struct world *w, const struct engine *taker, struct meeting *m)
{
    for (uint32_t b = m->taker->in.from / tokens_of(taker); b < m->num_blocks; b++) /* those before were held */
        if (random_below(&w->random, 2) == 0)
            taker->memory[(size_t)m->blocks[b] * tokens_of(taker)] = random_next(&w->random);
    if (--m->scribbling == 0)
        m->taker->in.mine = OUTCOME_FAILED;
}

static uint64_t hash_of(const struct engine *e, const uint32_t *blocks, uint32_t count)
{
    uint64_t hash = 0;
    for (uint32_t t = 0; t < count * tokens_of(e); t++)
        hash = random_mix(hash + *place(e, blocks, t));
    return hash;
}

static void give_up(struct world *w, const struct engine *from, struct meeting *m)
{
    const struct request *r = m->giver;
    m->num_given = r->num_blocks;
    memcpy(m->given, r->blocks, r->num_blocks * sizeof *r->blocks);
    m->was = hash_of(from, m->given, m->num_given);
    m->reading = 1 + random_below(&w->random, 200);
    end(m->giver, false, OUTCOME_GIVEN_UP);
    w->gives_given_up++;
}

static void look_again(const struct engine *from, struct meeting *m)
{
    assert_true(hash_of(from, m->given, m->num_given) == m->was);
    if (--m->reading == 0)
        m->giver->out.mine = OUTCOME_FAILED;
}

static void move(struct world *w, const struct engine *from, const struct engine *to, struct meeting *m)
{
    struct transfer *in = &m->taker->in;
    for (uint32_t t = in->from; t < in->until; t++)
        *place(to, m->blocks, t) = *place(from, m->giver->blocks, t);
    memcpy(in->attach, m->giver->out.attach, m->giver->out.num_attach);
    in->num_attach = m->giver->out.num_attach;
    if (w->failures > 0 && in->num_attach > 0 && random_below(&w->random, 20) == 0) {
        in->num_attach = 0; /* as where the other engine attaches none */
        w->without_attached++;
    }
    end(m->taker, true, OUTCOME_DONE);
    end(m->giver, false, OUTCOME_DONE);
}

static void carry(struct world *w, struct meeting *m, bool turn)
{
    const struct engine *from = &w->engines[turn], *to = &w->engines[!turn];
    if (m->reading > 0)
        look_again(from, m);
    if (m->scribbling > 0) {
        scribble(w, to, m);
        return;
    }
    const bool given = m->giver != NULL, taken = m->taker != NULL;
    const bool over = m->refused || (given && m->giver->out.withdrawn) || (taken && m->taker->in.withdrawn) ||
                      (given && (m->giver->out.mine == OUTCOME_FAILED || m->giver->out.mine == OUTCOME_GIVEN_UP));
    if (over) {
        if (given)
            end(m->giver, false, OUTCOME_FAILED);
        if (taken)
            end(m->taker, true, OUTCOME_FAILED);
        return;
    }
    if (!given || !taken || !m->whole || m->taker->in.mine != OUTCOME_OPEN || random_below(&w->random, 3) > 0)
        return;
    if (turn == false && w->engines[0].scheduler.rules.stream != STREAM_NONE && m->giver->phase == PHASE_RUNNING)
        return; /* appended, and not computed yet */
    if (random_below(&w->random, 100) >= w->failures) {
        move(w, from, to, m);
    } else if (random_below(&w->random, 2) == 0) {
        end(m->taker, true, OUTCOME_FAILED);
        end(m->giver, false, OUTCOME_FAILED);
    } else {
        end(m->taker, true, OUTCOME_GIVEN_UP);
        m->scribbling = 1 + random_below(&w->random, 200);
        w->takes_given_up++;
        if (random_below(&w->random, 2) == 0)
            give_up(w, from, m);
        else
            end(m->giver, false, OUTCOME_FAILED);
    }
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static uint64_t chain(uint64_t before, uint32_t token)
{
    return random_mix(before + token + 1) | 1;
}

static void compute(struct engine *e)
{
    uint32_t answers = 0;
    for (uint32_t i = 0; i < e->batch.count; i++) {
        const struct batch_token *t = &e->batch.tokens[i];
        const uint64_t before = t->position == 0 ? 1 : *place(e, t->blocks, t->position - 1);
        assert_true(before != 0);
        *place(e, t->blocks, t->position) = chain(before, t->token);
        if (t->asks) {
            uint64_t all = 1; /* attention reads every token */
            for (uint32_t p = 0; p <= t->position; p++)
                all = random_mix(all + *place(e, t->blocks, p));
            e->batch.answers[answers++] = (struct batch_answer){.token = (uint32_t)(all % VOCAB), .logits = all};
        }
    }
    assert_int_equal(answers, e->batch.num_answers);
}

/* What one request after another would be answered. */
static void reference(const struct load *l, uint32_t root, struct digest *digests)
{
    const uint32_t most = load_most_tokens(l);
    uint16_t *tokens = calloc(most, sizeof *tokens), *spoken = calloc(most, sizeof *spoken);
    for (uint32_t i = root; i != LOAD_NONE; i = l->requests[i].child) {
        const struct load_request *r = &l->requests[i];
        digests[i] = (struct digest){0};
        load_prompt(l, i, spoken, tokens);
        for (uint32_t n = 0; n < r->output; n++) {
            uint64_t hash = 1, all = 1;
            for (uint32_t p = 0; p < r->prompt + n; p++) {
                hash = chain(hash, tokens[p]);
                all = random_mix(all + hash);
            }
            digest_add(&digests[i], (struct batch_answer){.token = (uint32_t)(all % VOCAB), .logits = all});
            tokens[r->prompt + n] = spoken[r->spoken + n] = (uint16_t)(all % VOCAB);
        }
    }
    free(tokens);
    free(spoken);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static bool every(void *user, uint32_t index)
{
    (void)user;
    (void)index;
    return true;
}

static void engine_make(struct world *w, unsigned side, struct scheduler_rules rules, uint32_t num_blocks)
{
    struct engine *e = &w->engines[side];
    const struct carrier carrier = {e, take, give, append, refuse, withdraw, renew};
    rules.prefill = side == 0;
    e->world = w;
    e->memory = calloc((size_t)num_blocks * rules.block_tokens, sizeof *e->memory);
    assert_int_equal(batch_init(&e->batch, rules.step_tokens), 0);
    assert_int_equal(scheduler_init(&e->scheduler, &rules, &w->load, &carrier, num_blocks, every, NULL), 0);
}

static void engine_step(struct engine *e, uint64_t now)
{
    int64_t outcomes[2 * REQUESTS];
    scheduler_outcomes(&e->scheduler, outcomes);
    scheduler_hear(&e->scheduler, outcomes);
    scheduler_plan(&e->scheduler, now, &e->batch);
    e->world->starved += e->scheduler.starves;
    assert_false(e->scheduler.starves && e->batch.count > 0);
    if (e->batch.count == 0)
        return;
    compute(e);
    scheduler_commit(&e->scheduler, &e->batch, now);
}

static void run(struct world *w)
{
    for (uint64_t now = 0; now < STEPS_MAX; now++) {
        for (unsigned turn = 0; turn < 2; turn++)
            for (uint32_t i = 0; i < REQUESTS; i++)
                carry(w, &w->meetings[turn][i], turn != 0);
        for (unsigned side = 0; side < 2; side++)
            if (random_below(&w->random, 4) > 0)
                engine_step(&w->engines[side], now * 20);
        if (scheduler_finished(&w->engines[0].scheduler) && scheduler_finished(&w->engines[1].scheduler)) {
            bool quiet = true;
            for (unsigned turn = 0; turn < 2; turn++)
                for (uint32_t i = 0; i < REQUESTS; i++)
                    quiet = quiet && w->meetings[turn][i].scribbling == 0 && w->meetings[turn][i].reading == 0;
            if (quiet)
                return;
        }
    }
    fail_msg("the engines did not finish");
}

static struct scheduler_counts total; /* of all runs of a test */
static unsigned takes_given_up, gives_given_up, without_attached, starved;

static void check(struct world *w)
{
    struct digest digests[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (w->load.requests[i].root == i)
            reference(&w->load, i, digests);
    for (unsigned side = 0; side < 2; side++) {
        struct engine *e = &w->engines[side];
        engine_step(e, UINT64_MAX); /* hears what became quiet last */
        assert_int_equal(e->scheduler.blocks.num_free, e->scheduler.blocks.count);
        for (uint32_t i = 0; i < REQUESTS && side == 1; i++) {
            assert_true(e->scheduler.requests[i].answered);
            assert_true(digest_equal(&e->scheduler.requests[i].digest, &digests[i]));
        }
    }
    const struct scheduler_counts *c = &w->engines[1].scheduler.counts;
    total.preempted += c->preempted;
    total.recomputed += c->recomputed;
    total.aborted += c->aborted;
    total.prefix_tokens += c->prefix_tokens;
    total.loaded_tokens += w->engines[0].scheduler.counts.loaded_tokens; /* those that flowed back */
    takes_given_up += w->takes_given_up;
    gives_given_up += w->gives_given_up;
    without_attached += w->without_attached;
    starved += w->starved;
}

static void play(uint64_t seed, enum stream stream, uint32_t failures, bool few_blocks)
{
    struct world *w = calloc(1, sizeof *w);
    struct why why;
    assert_non_null(w);
    w->random = seed;
    w->failures = failures;
    assert_int_equal(load_make(&w->load, REQUESTS, 96, VOCAB, seed, &why), 0);
    for (unsigned side = 0; side < 2; side++) {
        const struct scheduler_rules rules = {.block_tokens = 1 + random_below(&w->random, 20),
                                              .step_tokens = 8 + random_below(&w->random, 60),
                                              .most_running = 2 + random_below(&w->random, 12),
                                              .prefix = random_below(&w->random, 4) > 0,
                                              .stream = stream,
                                              .abort = failures > 0 ? 0.1 : 0};
        const uint32_t least = scheduler_least_blocks(&w->load, rules.block_tokens);
        /* what is given up holds its blocks for long: without failures the least is enough */
        engine_make(w, side, rules, few_blocks ? least + (failures > 0 ? 2 * least : 0) : 8 * least);
    }
    run(w);
    check(w);
    for (unsigned side = 0; side < 2; side++) {
        scheduler_fini(&w->engines[side].scheduler);
        batch_fini(&w->engines[side].batch);
        free(w->engines[side].memory);
    }
    load_fini(&w->load);
    free(w);
}

static void all_is_well(void **state)
{
    (void)state;
    total = (struct scheduler_counts){0};
    for (uint64_t seed = 1; seed <= 30; seed++)
        play(seed, (enum stream)(seed % 4), 0, false);
    assert_true(total.loaded_tokens > 0 && total.prefix_tokens > 0);
}

static void blocks_are_few(void **state)
{
    (void)state;
    total = (struct scheduler_counts){0};
    for (uint64_t seed = 1; seed <= 60; seed++)
        play(seed, (enum stream)(seed % 4), 0, true);
    assert_true(total.preempted > 0);
    assert_int_equal(starved, 0);
}

static void transfers_fail(void **state)
{
    (void)state;
    total = (struct scheduler_counts){0};
    for (uint64_t seed = 1; seed <= 60; seed++)
        play(seed, (enum stream)(seed % 4), 30, seed % 2 == 0);
    assert_true(total.recomputed > 0 && total.aborted > 0);
    assert_true(takes_given_up > 20 && gives_given_up > 20 && without_attached > 5 && starved > 0);
}

/* The decode engine's transfers end so, and what it computes is answered somehow. */
static void step_by_hand(struct engine *e, uint64_t now_ms, enum outcome in)
{
    struct scheduler *s = &e->scheduler;
    int64_t outcomes[2 * REQUESTS];
    for (uint32_t i = 0; i < s->count; i++)
        end(&s->requests[i], true, in);
    scheduler_outcomes(s, outcomes);
    scheduler_hear(s, outcomes);
    scheduler_plan(s, now_ms, &e->batch);
    for (uint32_t i = 0; i < e->batch.num_answers; i++)
        e->batch.answers[i] = (struct batch_answer){.token = 1, .logits = 1};
    scheduler_commit(s, &e->batch, now_ms);
}

static void kept_blocks_go_as_needed(void **state)
{
    (void)state;
    /* Three conversations, another request between their turns, and the turns in the reverse order. */
    struct load_request requests[7] = {[3] = {500, 12, 2, LOAD_NONE, LOAD_NONE, 3, 0}};
    for (uint32_t i = 0; i < 3; i++) {
        requests[i] = (struct load_request){0, 4, 1, LOAD_NONE, 6 - i, i, 0};
        requests[6 - i] = (struct load_request){1000, 8, 1, i, LOAD_NONE, i, 1};
    }
    struct world w = {.load = {.count = 7, .requests = requests, .scale = 1, .vocab = VOCAB}};
    const struct scheduler_rules rules = {.block_tokens = 4, .step_tokens = 32, .most_running = 8};
    engine_make(&w, 1, rules, 5);
    struct scheduler *s = &w.engines[1].scheduler;
    step_by_hand(&w.engines[1], 0, OUTCOME_OPEN);
    step_by_hand(&w.engines[1], 1, OUTCOME_DONE);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(s->requests[i].phase, PHASE_GIVING);
    for (uint64_t now = 500; now < 503; now++) /* 3 blocks are needed, and 2 are free: one offer is enough */
        step_by_hand(&w.engines[1], now, OUTCOME_OPEN);
    assert_true(s->requests[0].out.withdrawn); /* its turn is the last */
    assert_false(s->requests[1].out.withdrawn || s->requests[2].out.withdrawn);
    assert_int_equal(s->counts.taken_back, 1);
    end(&s->requests[0], false, OUTCOME_FAILED);
    step_by_hand(&w.engines[1], 503, OUTCOME_OPEN);
    assert_int_equal(s->requests[3].phase, PHASE_LOADING);
    assert_int_equal(s->counts.taken_back, 1);
    scheduler_fini(s);
    batch_fini(&w.engines[1].batch);
    free(w.engines[1].memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_well), cmocka_unit_test(blocks_are_few),
                                       cmocka_unit_test(transfers_fail), cmocka_unit_test(kept_blocks_go_as_needed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
