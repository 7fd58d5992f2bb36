/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * llama: answers are the same, bit for bit, for every TP and PP and every size of chunks and blocks; attention, and the
 * whole model, are what their definitions give in double; a page that nobody filled changes the answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attention.h"
#include "engine/digest.h"
#include "engine/undivided.h"
#include "engine/with_crew.h"

#define PROMPT 53
#define OUTPUT 9

static const struct shape shapes[] = {
    {.layers = 3, .heads = 12, .kv_heads = 12, .head_size = 4, .ffn = 50, .vocab = 97, .seed = 1},
    {.layers = 2, .heads = 12, .kv_heads = 2, .head_size = 8, .ffn = 64, .vocab = 64, .seed = 2},
    {.layers = 4, .heads = 6, .kv_heads = 3, .head_size = 2, .ffn = 17, .vocab = 33, .seed = 3},
};

/* One rank's run of one request, with the last stage's answers. */
struct run {
    const struct shape *shape;
    uint32_t chunk, block_tokens;
    struct digest digest;
    uint16_t tokens[PROMPT + OUTPUT];
    uint32_t unfilled; /* a token whose keys and values are poisoned behind the prompt; 0: none */
};

/* Each rank is told the answers beforehand, so that stages need not tell each other. */
static void run_request(struct run *run, struct llama *m, const uint32_t *blocks, const uint16_t *known)
{
    struct batch b;
    uint32_t computed = 0;
    assert_int_equal(batch_init(&b, PROMPT), 0);
    for (uint32_t n = 0; n < OUTPUT; n++) {
        const uint32_t to = PROMPT + n;
        while (computed < to) {
            batch_clear(&b);
            for (; computed < to && b.count < run->chunk; computed++)
                batch_add(&b, (struct batch_token){known[computed], computed, blocks, computed == to - 1});
            assert_int_equal(llama_step(m, &b, NULL, NULL), 0);
        }
        if (n == 0 && run->unfilled > 0)
            pages_poison(m->pages, blocks[run->unfilled / run->block_tokens]);
        if (m->slice.last) {
            digest_add(&run->digest, b.answers[0]);
            run->tokens[to] = (uint16_t)b.answers[0].token;
        }
    }
    batch_fini(&b);
}

struct job {
    struct run run;
    const uint16_t *known; /* prompt and answers */
};

static void *rank_main(void *member)
{
    struct crew_member *me = member;
    struct job *job = me->user;
    struct slice slice;
    struct pages pages;
    struct llama m;
    struct why why;
    const uint32_t num_blocks = (PROMPT + OUTPUT) / job->run.block_tokens + 1;
    uint32_t blocks[PROMPT + OUTPUT + 1];
    for (uint32_t i = 0; i < num_blocks; i++)
        blocks[i] = num_blocks - 1 - i;
    assert_int_equal(shape_slice(job->run.shape, me->team.seat, &slice, &why), 0);
    assert_int_equal(pages_init(&pages, job->run.shape, &slice, job->run.block_tokens, num_blocks), 0);
    assert_int_equal(llama_init(&m, job->run.shape, &slice, &pages, &me->team, PROMPT, PROMPT + OUTPUT), 0);
    for (uint32_t i = 0; i < num_blocks; i++)
        pages_poison(&pages, i);
    run_request(&job->run, &m, blocks, job->known);
    llama_fini(&m);
    pages_fini(&pages);
    return NULL;
}

/* The digest of an engine's answers, where each rank is told `known` tokens. */
static struct digest serve(const struct shape *shape, uint32_t tp, uint32_t pp, uint32_t chunk, uint32_t block_tokens,
                           uint32_t unfilled, const uint16_t *known, uint16_t *tokens)
{
    struct job *jobs = calloc(tp * pp, sizeof *jobs);
    void *users[CREW_MAX];
    for (uint32_t r = 0; r < tp * pp; r++) {
        jobs[r].run = (struct run){.shape = shape, .chunk = chunk, .block_tokens = block_tokens, .unfilled = unfilled};
        jobs[r].known = known;
        users[r] = &jobs[r];
    }
    crew_run(tp, pp, rank_main, users);
    for (uint32_t r = tp * (pp - 1); r < tp * pp; r++)
        assert_true(digest_equal(&jobs[r].run.digest, &jobs[tp * pp - 1].run.digest));
    const struct digest digest = jobs[tp * pp - 1].run.digest;
    if (tokens != NULL)
        memcpy(tokens + PROMPT, jobs[tp * pp - 1].run.tokens + PROMPT, OUTPUT * sizeof *tokens);
    free(jobs);
    return digest;
}

/* What one rank answers, token by token, each told to it as it comes. */
static struct digest reference(const struct shape *shape, uint16_t *known)
{
    struct load load = {.count = 1, .scale = 1, .vocab = shape->vocab};
    struct load_request request = {.prompt = PROMPT, .output = OUTPUT, .parent = LOAD_NONE, .child = LOAD_NONE};
    struct undivided u;
    struct digest digest;
    struct why why;
    load.requests = &request;
    assert_int_equal(undivided_init(&u, shape, &load, &why), 0);
    undivided_run(&u, 0, &digest);
    memcpy(known, u.tokens, (PROMPT + OUTPUT) * sizeof *known);
    undivided_fini(&u);
    return digest;
}

static void every_split_gives_the_same_bits(void **state)
{
    (void)state;
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        uint16_t known[PROMPT + OUTPUT], tokens[PROMPT + OUTPUT];
        const struct digest whole = reference(&shapes[s], known);
        for (uint32_t tp = 1; tp <= 4; tp++)
            for (uint32_t pp = 1; pp <= 2; pp++) {
                const struct digest d = serve(&shapes[s], tp, pp, 1 + 7 * tp * pp, 1 << tp, 0, known, tokens);
                assert_true(digest_equal(&d, &whole));
                assert_memory_equal(tokens + PROMPT, known + PROMPT, OUTPUT * sizeof *tokens);
            }
    }
}

static void chunks_and_blocks_change_nothing(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 3, 16, PROMPT};
    uint16_t known[PROMPT + OUTPUT];
    const struct digest whole = reference(&shapes[1], known);
    for (unsigned c = 0; c < 4; c++)
        for (unsigned b = 0; b < 4; b++) {
            const struct digest d = serve(&shapes[1], 1, 1, sizes[c], sizes[b], 0, known, NULL);
            assert_true(digest_equal(&d, &whole));
        }
}

static void an_unfilled_page_is_seen(void **state)
{
    (void)state;
    uint16_t known[PROMPT + OUTPUT];
    const struct digest whole = reference(&shapes[1], known);
    for (uint32_t token = 1; token < PROMPT; token += 17) {
        const struct digest d = serve(&shapes[1], 1, 1, 16, 1, token, known, NULL);
        assert_false(digest_equal(&d, &whole));
    }
}

/* Attention over scattered blocks against the formula, in double. */
static void attention_is_what_it_should_be(void **state)
{
    (void)state;
    const struct shape shape = {.layers = 1, .heads = 2, .kv_heads = 2, .head_size = 6, .ffn = 2, .vocab = 2};
    const uint32_t tokens = 37, blocks[] = {4, 0, 7, 2, 9, 1, 3, 8};
    struct slice slice;
    struct pages pages;
    struct why why;
    float query[6], scores[37], out[6];
    uint64_t seed = 5;
    assert_int_equal(shape_slice(&shape, team_of_one().seat, &slice, &why), 0);
    assert_int_equal(pages_init(&pages, &shape, &slice, 5, 10), 0);
    for (uint32_t b = 0; b < 10; b++)
        pages_poison(&pages, b);
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t c = 0; c < 6; c++)
            for (unsigned plane = 0; plane < 2; plane++)
                pages_at(&pages, 0, plane, 1, blocks[t / 5], t % 5)[c] =
                    (float)random_below(&seed, 1000) / 300.0F - 1.5F;
    for (uint32_t c = 0; c < 6; c++)
        query[c] = (float)random_below(&seed, 1000) / 200.0F - 2.5F;
    attention(&pages, 0, 1, blocks, tokens - 1, query, scores, out);
    double weights[37], all = 0;
    for (uint32_t t = 0; t < tokens; t++) {
        double dot = 0;
        for (uint32_t c = 0; c < 6; c++)
            dot += (double)query[c] * (double)pages_at(&pages, 0, PLANE_KEY, 1, blocks[t / 5], t % 5)[c];
        weights[t] = exp(dot / sqrt(6));
        all += weights[t];
    }
    for (uint32_t c = 0; c < 6; c++) {
        double mean = 0;
        for (uint32_t t = 0; t < tokens; t++)
            mean += weights[t] / all * (double)pages_at(&pages, 0, PLANE_VALUE, 1, blocks[t / 5], t % 5)[c];
        assert_true(fabs(mean - (double)out[c]) < 1e-5);
    }
    pages_fini(&pages);
}

/* ---- the whole model in double, from the definition -------------------------------------------------------------- */

struct naive {
    const struct shape *shape;
    const struct weights *w;
    double hidden[PROMPT][64], key[4][PROMPT][64], value[4][PROMPT][64]; /* of each layer */
};

static void naive_norm(const double *x, const float *gain, uint32_t count, double *out)
{
    double squares = 0;
    for (uint32_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    for (uint32_t i = 0; i < count; i++)
        out[i] = x[i] / sqrt(squares / count + 1e-6) * (double)gain[i];
}

static void naive_multiply(const struct matrix *m, const double *x, double *y)
{
    for (uint32_t o = 0; o < m->out; o++) {
        y[o] = 0;
        for (uint32_t i = 0; i < m->in; i++)
            y[o] += (double)m->w[(size_t)i * m->stride + o] * x[i];
    }
}

static void naive_turn(double *head, uint32_t size, uint32_t position)
{
    for (uint32_t i = 0; i < size; i += 2) {
        const double angle = position / pow(10000, (double)i / size), x = head[i], y = head[i + 1];
        head[i] = x * cos(angle) - y * sin(angle);
        head[i + 1] = x * sin(angle) + y * cos(angle);
    }
}

static void naive_attend(const struct naive *n, uint32_t layer, uint32_t position, uint32_t head, const double *query,
                         double *out)
{
    const uint32_t size = n->shape->head_size, kv = head / (n->shape->heads / n->shape->kv_heads) * size;
    double all = 0;
    memset(out, 0, size * sizeof *out);
    for (uint32_t t = 0; t <= position; t++) {
        double score = 0;
        for (uint32_t c = 0; c < size; c++)
            score += query[c] * n->key[layer][t][kv + c];
        const double weight = exp(score / sqrt(size));
        all += weight;
        for (uint32_t c = 0; c < size; c++)
            out[c] += weight * n->value[layer][t][kv + c];
    }
    for (uint32_t c = 0; c < size; c++)
        out[c] /= all;
}

static void naive_layer(struct naive *n, uint32_t layer, uint32_t t)
{
    const struct weights_layer *w = &n->w->layers[layer];
    const uint32_t size = n->shape->head_size, hidden = shape_hidden(n->shape);
    double normed[64], query[64], mixed[64], out[64], gate[64], up[64];
    naive_norm(n->hidden[t], w->norm[0], hidden, normed);
    naive_multiply(&w->query, normed, query);
    naive_multiply(&w->key, normed, n->key[layer][t]);
    naive_multiply(&w->value, normed, n->value[layer][t]);
    for (uint32_t h = 0; h < n->shape->kv_heads; h++)
        naive_turn(n->key[layer][t] + (size_t)h * size, size, t);
    for (uint32_t h = 0; h < n->shape->heads; h++) {
        naive_turn(query + (size_t)h * size, size, t);
        naive_attend(n, layer, t, h, query + (size_t)h * size, mixed + (size_t)h * size);
    }
    naive_multiply(&w->out, mixed, out);
    for (uint32_t i = 0; i < hidden; i++)
        n->hidden[t][i] += out[i];
    naive_norm(n->hidden[t], w->norm[1], hidden, normed);
    naive_multiply(&w->gate, normed, gate);
    naive_multiply(&w->up, normed, up);
    for (uint32_t i = 0; i < n->shape->ffn; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    naive_multiply(&w->down, gate, out);
    for (uint32_t i = 0; i < hidden; i++)
        n->hidden[t][i] += out[i];
}

static void the_model_is_a_llama(void **state)
{
    (void)state;
    const struct shape *shape = &shapes[2];
    struct load_request request = {.prompt = PROMPT, .output = 1, .parent = LOAD_NONE, .child = LOAD_NONE};
    const struct load load = {.count = 1, .requests = &request, .scale = 1, .vocab = shape->vocab};
    struct naive *n = calloc(1, sizeof *n);
    struct undivided u;
    struct digest digest;
    struct why why;
    double normed[64], logits[64];
    assert_non_null(n);
    assert_int_equal(undivided_init(&u, shape, &load, &why), 0);
    undivided_run(&u, 0, &digest);
    n->shape = shape;
    n->w = &u.llama.weights;
    for (uint32_t t = 0; t < PROMPT; t++) {
        for (uint32_t i = 0; i < shape_hidden(shape); i++)
            n->hidden[t][i] = (double)n->w->embedding[(size_t)u.tokens[t] * shape_hidden(shape) + i];
        for (uint32_t l = 0; l < shape->layers; l++)
            naive_layer(n, l, t);
    }
    naive_norm(n->hidden[PROMPT - 1], n->w->norm, shape_hidden(shape), normed);
    naive_multiply(&n->w->logits, normed, logits);
    for (uint32_t i = 0; i < shape->vocab; i++)
        assert_true(fabs(logits[i] - (double)u.llama.rows.logits[i]) < 1e-4);
    undivided_fini(&u);
    free(n);
}

static void slices_cover_the_model(void **state)
{
    (void)state;
    for (uint32_t kv = 1; kv <= 12; kv++)
        for (uint32_t tp = 1; 12 % kv == 0 && tp <= 12; tp++) {
            const struct shape s = {.layers = 5, .heads = 12, .kv_heads = kv, .head_size = 2, .ffn = 31, .vocab = 2};
            uint32_t heads = 0, ffn = 0, layers = 0;
            for (uint32_t r = 0; r < tp; r++) {
                struct slice slice;
                struct why why;
                assert_int_equal(shape_slice(&s, (struct seat){tp, r, tp > 5 ? 5 : tp, r % 5}, &slice, &why), 0);
                assert_int_equal(slice.head_first, heads);
                assert_int_equal(slice.ffn_first, ffn);
                heads += slice.head_count;
                ffn += slice.ffn_count;
                layers += r < 5 ? slice.layer_count : 0;
                for (uint32_t h = slice.head_first; h < heads; h++)
                    assert_in_range(h / (12 / kv), slice.kv_first, slice.kv_first + slice.kv_count - 1);
            }
            assert_int_equal(heads, 12);
            assert_int_equal(ffn, 31);
            assert_int_equal(layers, 5);
        }
    struct slice slice;
    struct why why;
    assert_int_equal(shape_slice(&shapes[0], (struct seat){13, 0, 1, 0}, &slice, &why), -1);
    assert_int_equal(shape_slice(&shapes[0], (struct seat){1, 0, 4, 0}, &slice, &why), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same_bits), cmocka_unit_test(chunks_and_blocks_change_nothing),
        cmocka_unit_test(an_unfilled_page_is_seen),        cmocka_unit_test(attention_is_what_it_should_be),
        cmocka_unit_test(slices_cover_the_model),          cmocka_unit_test(the_model_is_a_llama),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
