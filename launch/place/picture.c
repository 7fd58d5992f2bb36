/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture: see picture.h. The boxes of nodes are drawn first, then flows, then all letters: on plates, or on the panels
 * of the legend and of the costs, so that no line crosses a text.
 */
#include "place/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "place/pairs.h"
#include "place/sketch.h"

#define MARGIN_PX 16
#define HEAD_PX 40
#define FLOWS_MAX 64 /* of each kind, that are drawn */
#define FLOW_PX_LEAST 0.8
#define FLOW_PX_MOST 2.5
#define END_PX 9       /* from the right side of two ranks, one above the other, to where their flows end */
#define ENGINES_MAX 60 /* of each side, in the legend */
#define ENGINES_A_ROW 6
#define ENGINE_PX 94
#define LEGEND_PX 640
#define KINDS_LINES 7 /* of the legend, above its engines */
#define COSTS_PX 760  /* of the page's costs, at most */
#define COSTS_LETTER_PX 5.5
#define WIDTH_PX 1420 /* of the page, unless a node is wider */
#define HEADLINE_PX 900
#define LINE_PX 16
#define RANK_LABEL_PX 9
#define DEVICE_LABEL_PX 8
#define LETTER 0.6            /* width of a letter over the height of its font, as drawing_text counts it */
#define GOLDEN_ANGLE 222.4922 /* of hues in turn: each differs from all before */
#define EQUAL 1e-9            /* bytes that differ by this part are equal */

static const char frame_style[] = "fill=\"#fff\" stroke=\"#444\"";
static const char package_style[] = "fill=\"#f2f2f2\" stroke=\"#999\"";
static const char numa_style[] = "fill=\"#fff\" stroke=\"#bbb\"";
static const char free_style[] = "fill=\"#fff\" stroke=\"#888\" stroke-width=\"0.6\"";
static const char sample_style[] = "fill=\"#ddd\" stroke=\"#444\" stroke-width=\"0.6\"";
static const char panel_style[] = "fill=\"#fff\"";
static const char nic_style[] = "fill=\"#ddd\" stroke=\"#888\"";
static const struct drawing_font plain = {10, NULL};
static const char hatch[] = "fill=\"url(#decode)\"";

/* ---- colours ----------------------------------------------------------------------------------------------------- */

/* One of red, green and blue, of a hue in degrees: light, so that black letters can be read on it. */
static unsigned channel(double hue, double lightness, double offset)
{
    double k = fmod(offset + hue / 30, 12), least = fmin(fmin(k - 3, 9 - k), 1);
    double value = lightness - 0.2 * fmax(least, -1);
    return (unsigned)(value * 255 + 0.5);
}

/* Engines of each side go round the circle of hues, prefill from blue on and decode from red on, darker and lighter. */
static unsigned color_of(enum job_side side, uint32_t engine)
{
    double hue = (side == JOB_PREFILL ? 195 : 15) + engine * GOLDEN_ANGLE, lightness = engine % 2 == 0 ? 0.68 : 0.8;
    return channel(hue, lightness, 0) << 16 | channel(hue, lightness, 8) << 8 | channel(hue, lightness, 4);
}

static const struct job_team *team_of(const struct explain *e, uint32_t rank)
{
    return &e->job->teams[e->job->team_of[rank]];
}

/* A box in the colour of an engine; those of decode are hatched too, for who does not see colours. */
static void put_coloured(FILE *out, const char *kind, const struct drawing_box *box, enum job_side side,
                         uint32_t engine, const char *tip)
{
    char style[64];
    snprintf(style, sizeof style, "fill=\"#%06x\" stroke=\"#444\" stroke-width=\"0.6\"", color_of(side, engine));
    drawing_rect(out, kind, box, style, tip);
    if (side == JOB_DECODE)
        drawing_rect(out, "hatch", box, hatch, tip);
}

/* ---- flows ------------------------------------------------------------------------------------------------------- */

struct flow {
    uint32_t a, b;
    double bytes;
};

/* The heaviest of one kind, heaviest first. */
struct flows {
    struct flow list[FLOWS_MAX];
    uint32_t num, of; /* drawn; there are */
};

/* What flows are spread over, in this order: nodes, then TP groups, then ranks. */
enum spread { OVER_NODES, OVER_TEAMS, OVER_RANKS, SPREADS };

/* How many of the flows that are chosen so far end at each node, TP group and rank. */
struct ends {
    uint32_t *at[SPREADS];
};

static uint32_t *end_of(const struct sketch *s, const struct ends *n, unsigned over, uint32_t rank)
{
    const uint32_t number[SPREADS] = {s->explain->places[rank].node, s->explain->job->team_of[rank], rank};
    return &n->at[over][number[over]];
}

/* Of equal flows, the one is better whose ends have fewer so far. */
static bool is_better(const struct sketch *s, const struct ends *n, const struct flow *x, const struct flow *y)
{
    if (fabs(x->bytes - y->bytes) > EQUAL * fabs(y->bytes))
        return x->bytes > y->bytes;
    for (unsigned over = 0; over < SPREADS; over++) {
        uint32_t of_x = *end_of(s, n, over, x->a) + *end_of(s, n, over, x->b);
        uint32_t of_y = *end_of(s, n, over, y->a) + *end_of(s, n, over, y->b);
        if (of_x != of_y)
            return of_x < of_y;
    }
    return false;
}

/* The best of all, which is then no more among them. */
static struct flow take_best(const struct sketch *s, const struct ends *n, struct flow *all, uint32_t num)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < num; i++)
        if (is_better(s, n, &all[i], &all[best]))
            best = i;
    const struct flow taken = all[best];
    all[best].bytes = -1;
    for (unsigned over = 0; over < SPREADS; over++) {
        ++*end_of(s, n, over, taken.a);
        ++*end_of(s, n, over, taken.b);
    }
    return taken;
}

/* All flows between ranks that are drawn: from prefill to decode, or within engines. Returns their number. */
static uint32_t list_flows(const struct sketch *s, bool inside, struct flow *all)
{
    const struct job *j = s->explain->unweighted;
    uint32_t num = 0;
    for (uint32_t r = 0; r < j->num_ranks; r++)
        for (uint32_t f = j->first_flow[r]; f < j->first_flow[r + 1]; f++) {
            uint32_t peer = j->flows[f].peer;
            bool same = team_of(s->explain, r)->side == team_of(s->explain, peer)->side;
            if (peer > r && same == inside && s->ranks[r].width > 0 && s->ranks[peer].width > 0)
                all[num++] = (struct flow){r, peer, j->flows[f].bytes};
        }
    return num;
}

/* 0; -1: no memory. */
static int find_flows(const struct sketch *s, bool inside, struct flows *out)
{
    const struct job *j = s->explain->unweighted;
    const size_t num[SPREADS] = {s->explain->world->num_nodes, j->num_teams, j->num_ranks};
    struct flow *all = calloc((size_t)j->first_flow[j->num_ranks] + 1, sizeof *all);
    struct ends ends;
    int rc = all != NULL ? 0 : -1;
    for (unsigned over = 0; over < SPREADS; over++) {
        ends.at[over] = calloc(num[over], sizeof *ends.at[over]);
        rc = ends.at[over] != NULL ? rc : -1;
    }
    *out = (struct flows){.of = rc == 0 ? list_flows(s, inside, all) : 0};
    while (out->num < out->of && out->num < FLOWS_MAX)
        out->list[out->num++] = take_best(s, &ends, all, out->of);
    free(all);
    for (unsigned over = 0; over < SPREADS; over++)
        free(ends.at[over]);
    return rc;
}

static void put_arc(FILE *out, double x1, double y1, double x2, double y2, double width, bool inside)
{
    double bend = 0.12;
    fprintf(out,
            "<path class=\"flow\" d=\"M%.2f %.2fQ%.2f %.2f %.2f %.2f\" fill=\"none\" stroke=\"%s\" "
            "stroke-opacity=\"0.4\" stroke-width=\"%.2f\"%s/>\n",
            x1, y1, (x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1), x2, y2,
            inside ? "#555" : "#b2182b", width, inside ? " stroke-dasharray=\"2 3\"" : "");
}

static double flow_px(double bytes, double most)
{
    return most > 0 ? FLOW_PX_LEAST + (FLOW_PX_MOST - FLOW_PX_LEAST) * bytes / most : FLOW_PX_LEAST;
}

/* Between the sides of two ranks that face each other; of ranks one above the other, on their right. */
static void put_flow(FILE *out, const struct drawing_box *a, const struct drawing_box *b, double width, bool inside)
{
    bool is_left = a->x + a->width <= b->x, is_right = b->x + b->width <= a->x;
    double x1 = is_right ? a->x : a->x + a->width - (is_left ? 0 : END_PX);
    double x2 = is_left ? b->x : b->x + b->width - (is_right ? 0 : END_PX);
    put_arc(out, x1, a->y + a->height / 2, x2, b->y + b->height / 2, width, inside);
}

static void put_flows(FILE *out, const struct sketch *s, const struct flows *flows, bool inside)
{
    for (uint32_t i = 0; i < flows->num; i++) {
        const struct flow *f = &flows->list[i];
        put_flow(out, &s->ranks[f->a], &s->ranks[f->b], flow_px(f->bytes, flows->list[0].bytes), inside);
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* The rank that has this core, or GPU; of several the lowest. CLUSTER_FREE: none. */
static uint32_t holder(const struct sketch *s, const struct sketch_node *n, bool of_gpu, uint32_t number)
{
    const struct cluster_group *g = &s->explain->world->cluster.groups[CLUSTER_NODE][n->number];
    uint32_t found = CLUSTER_FREE;
    for (uint32_t i = g->first; i < g->end; i++) {
        uint32_t rank = s->rank_at[i];
        if (rank == CLUSTER_FREE)
            continue;
        const struct machine_seat *seat = &s->explain->places[rank].seat;
        uint32_t first = of_gpu ? seat->first_gpu : seat->first_core;
        uint32_t end = of_gpu ? first + seat->num_gpus : seat->end_core;
        if (number >= first && number < end && rank < found)
            found = rank;
    }
    return found;
}

static void put_cores(FILE *out, const struct sketch *s, const struct sketch_node *n, const struct sketch_part *p)
{
    for (uint32_t core = p->first_core, k = 0; core < p->end_core; core += p->cores_a_px, k++) {
        struct drawing_box box = sketch_core(p, k);
        uint32_t rank = holder(s, n, false, core);
        if (rank == CLUSTER_FREE)
            drawing_rect(out, "core", &box, free_style, NULL);
        else
            put_coloured(out, "core", &box, team_of(s->explain, rank)->side, team_of(s->explain, rank)->engine, NULL);
    }
}

/* A text that begins at x, y, on a plate of its own, which lines pass behind. */
static void put_plated(FILE *out, double x, double y, double width, double px, const char *color, const char *text)
{
    char style[32];
    struct drawing_box plate = {x - 1, y - 0.8 * px, fmin(strlen(text) * px * LETTER, width) + 2, 1.1 * px};
    snprintf(style, sizeof style, "fill=\"%s\"", color);
    drawing_rect(out, "plate", &plate, style, NULL);
    drawing_text(out, x, y, width, (struct drawing_font){px, NULL}, text);
}

/* In the middle of a box of that colour. */
static void put_labelled(FILE *out, const struct drawing_box *box, double px, const char *color, const char *text)
{
    put_plated(out, box->x + 3, box->y + (box->height + px) / 2 - 1, box->width - 5, px, color, text);
}

static void put_coloured_label(FILE *out, const struct drawing_box *box, double px, enum job_side side, uint32_t engine,
                               const char *text)
{
    char color[16];
    snprintf(color, sizeof color, "#%06x", color_of(side, engine));
    put_labelled(out, box, px, color, text);
}

/* The tip says what the label has no room for. */
static void put_rank(FILE *out, const struct sketch *s, uint32_t rank)
{
    const struct explain *e = s->explain;
    const struct job_team *team = team_of(e, rank);
    const struct world_place *place = &e->places[rank];
    baton_open_params_t role;
    char tip[EXPLAIN_GPUS_BYTES + 320], gpus[EXPLAIN_GPUS_BYTES];
    explain_role(e, rank, &role);
    snprintf(tip, sizeof tip, "rank %u: %s, TP rank %u, stage %u; cores %u to %u%s%s%s%s", rank, role.engine,
             role.tp_rank, role.pp_rank, place->seat.first_core, place->seat.end_core - 1,
             place->seat.num_gpus > 0 ? "; GPU " : "", explain_gpus(e, rank, gpus), place->nic != NULL ? "; NIC " : "",
             place->nic != NULL ? place->nic->name : "");
    put_coloured(out, "rank", &s->ranks[rank], team->side, team->engine, tip);
}

/* "12 P0.1.3": the rank, its engine, its stage if there are several, its TP rank. */
static void label_rank(FILE *out, const struct sketch *s, uint32_t rank)
{
    const struct job_team *team = team_of(s->explain, rank);
    baton_open_params_t role;
    char label[64], stage[16] = "";
    explain_role(s->explain, rank, &role);
    if (s->explain->sizes[team->side].pp > 1)
        snprintf(stage, sizeof stage, "%u.", role.pp_rank);
    snprintf(label, sizeof label, "%u %c%u.%s%u", rank, team->side == JOB_PREFILL ? 'P' : 'D', team->engine, stage,
             role.tp_rank);
    put_coloured_label(out, &s->ranks[rank], RANK_LABEL_PX, team->side, team->engine, label);
}

static void put_device(FILE *out, const struct sketch *s, const struct sketch_node *n, bool is_gpu, uint32_t number,
                       const struct drawing_box *box)
{
    uint32_t rank = is_gpu ? holder(s, n, true, number) : CLUSTER_FREE;
    if (rank != CLUSTER_FREE)
        put_coloured(out, "gpu", box, team_of(s->explain, rank)->side, team_of(s->explain, rank)->engine, NULL);
    else
        drawing_rect(out, is_gpu ? "gpu" : "nic", box, is_gpu ? free_style : nic_style, NULL);
}

static void label_device(FILE *out, const struct sketch *s, const struct sketch_node *n, bool is_gpu, uint32_t number,
                         const struct drawing_box *box, const char *name)
{
    uint32_t rank = is_gpu ? holder(s, n, true, number) : CLUSTER_FREE;
    if (rank != CLUSTER_FREE)
        put_coloured_label(out, box, DEVICE_LABEL_PX, team_of(s->explain, rank)->side,
                           team_of(s->explain, rank)->engine, name);
    else
        put_labelled(out, box, DEVICE_LABEL_PX, is_gpu ? "#fff" : "#ddd", name);
}

/* GPUs, then NICs: their boxes, or their names. */
static void put_devices(FILE *out, const struct sketch *s, const struct sketch_node *n, const struct sketch_part *p,
                        bool names)
{
    const struct machine *m = s->explain->world->nodes[n->number].machine;
    uint32_t k = 0;
    for (uint32_t i = 0; i < m->num_gpus + m->num_nics; i++) {
        bool is_gpu = i < m->num_gpus;
        uint32_t number = is_gpu ? i : i - m->num_gpus;
        const struct machine_device *d = is_gpu ? &m->gpus[number] : &m->nics[number];
        if (!sketch_is_of(n, d, p))
            continue;
        struct drawing_box box = sketch_device(p, k++);
        if (names)
            label_device(out, s, n, is_gpu, number, &box, d->name);
        else
            put_device(out, s, n, is_gpu, number, &box);
    }
}

static void put_all_devices(FILE *out, const struct sketch *s, const struct sketch_node *n, bool names)
{
    put_devices(out, s, n, &n->whole, names);
    for (uint32_t i = 0; i < n->num_packages; i++)
        put_devices(out, s, n, &n->packages[i], names);
    for (uint32_t i = 0; i < n->num_numas; i++)
        put_devices(out, s, n, &n->numas[i], names);
}

static void put_boxes(FILE *out, const struct sketch *s, const struct sketch_node *n)
{
    drawing_rect(out, "node", &n->box, frame_style, NULL);
    for (uint32_t i = 0; i < n->num_packages; i++)
        drawing_rect(out, "package", &n->packages[i].box, package_style, NULL);
    for (uint32_t i = 0; i < n->num_numas; i++) {
        drawing_rect(out, "numa", &n->numas[i].box, numa_style, NULL);
        put_cores(out, s, n, &n->numas[i]);
    }
    put_all_devices(out, s, n, false);
}

static void put_title(FILE *out, const struct sketch_part *p, double px, const char *color, const char *text)
{
    put_plated(out, p->box.x + SKETCH_PAD_PX, p->box.y + SKETCH_TITLE_PX - 3, p->box.width - 2 * SKETCH_PAD_PX, px,
               color, text);
}

static void put_titles(FILE *out, const struct sketch *s, const struct sketch_node *n)
{
    const struct world_node *node = &s->explain->world->nodes[n->number];
    const struct machine *m = node->machine;
    char title[32];
    put_title(out, &n->whole, 10, "#fff", node->host);
    for (uint32_t i = 0; i < n->num_packages; i++) {
        snprintf(title, sizeof title, "package %u", m->cores[n->packages[i].first_core].package);
        put_title(out, &n->packages[i], 9, "#f2f2f2", title);
    }
    for (uint32_t i = 0; i < n->num_numas; i++) {
        snprintf(title, sizeof title, "NUMA node %u", m->cores[n->numas[i].first_core].numa);
        put_title(out, &n->numas[i], 9, "#fff", title);
    }
    put_all_devices(out, s, n, true);
}

static void put_switches(FILE *out, const struct sketch *s)
{
    const struct cluster *c = &s->explain->world->cluster;
    for (uint32_t i = 0, last = UINT32_MAX; c->num_groups[CLUSTER_NETWORK] > 1 && i < s->num_nodes; i++) {
        uint32_t above = c->group_of[CLUSTER_NETWORK][c->groups[CLUSTER_NODE][s->nodes[i].number].first];
        const char *name = s->explain->world->nodes[s->nodes[i].number].above;
        char title[128];
        snprintf(title, sizeof title, name != NULL ? "switch %s" : "no known switch", name);
        if (above != last)
            put_plated(out, s->nodes[i].box.x, s->nodes[i].box.y - 5, s->page.width, 10, "#fff", title);
        last = above;
    }
}

static void put_nodes(FILE *out, const struct sketch *s, const struct flows flows[2])
{
    uint32_t ranks = s->explain->job->num_ranks;
    for (uint32_t i = 0; i < s->num_nodes; i++)
        put_boxes(out, s, &s->nodes[i]);
    for (uint32_t r = 0; r < ranks; r++)
        if (s->ranks[r].width > 0)
            put_rank(out, s, r);
    put_flows(out, s, &flows[1], true);
    put_flows(out, s, &flows[0], false);
    put_switches(out, s);
    for (uint32_t i = 0; i < s->num_nodes; i++)
        put_titles(out, s, &s->nodes[i]);
    for (uint32_t r = 0; r < ranks; r++)
        if (s->ranks[r].width > 0)
            label_rank(out, s, r);
}

/* ---- legend ------------------------------------------------------------------------------------------------------ */

struct legend {
    FILE *out;
    double x, y;
};

static void put_entry(struct legend *l, const char *text)
{
    drawing_text(l->out, l->x + 106, l->y + 11, LEGEND_PX - 106, plain, text);
    l->y += LINE_PX;
}

static void put_sample(struct legend *l, bool inside, const struct flows *flows)
{
    char text[128], bytes[32];
    if (flows->num == 0)
        return;
    put_arc(l->out, l->x, l->y + 8, l->x + 92, l->y + 8, FLOW_PX_MOST, inside);
    snprintf(text, sizeof text, "%s, the heaviest %u of %u flows; as wide: %s a request",
             inside ? "within engines" : "from prefill to decode", flows->num, flows->of,
             explain_bytes(flows->list[0].bytes, bytes));
    put_entry(l, text);
}

/* A rank, a core, a GPU and a NIC as they are drawn. */
static void put_kinds(struct legend *l)
{
    static const struct {
        const char *kind, *label, *text;
        double width, height;
    } kinds[] = {
        {"rank", "R Pe.t", "rank R of the world: prefill engine e, TP rank t; with stages Pe.s.t: stage s", 92, 14},
        {"rank", "R De.t", "the same of a decode engine, whose boxes are hatched", 92, 14},
        {"core", "", "a core, in the colour of the rank that has it; white: of no rank", 9, 9},
        {"gpu", "cuda0", "a GPU, in the colour of the rank that has it", 44, 13},
        {"nic", "mlx5_0", "a network adapter", 44, 13},
    };
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct drawing_box box = {l->x, l->y + 1, kinds[i].width, kinds[i].height};
        drawing_rect(l->out, kinds[i].kind, &box, i < 2 ? sample_style : i == 4 ? nic_style : free_style, NULL);
        if (i == 1)
            drawing_rect(l->out, "hatch", &box, hatch, NULL);
        if (kinds[i].label[0] != '\0')
            put_labelled(l->out, &box, i < 2 ? RANK_LABEL_PX : DEVICE_LABEL_PX, i == 3 ? "#fff" : "#ddd",
                         kinds[i].label);
        put_entry(l, kinds[i].text);
    }
}

static void put_engines(struct legend *l, const struct explain *e)
{
    for (uint32_t side = 0; side < JOB_SIDES; side++) {
        uint32_t num = e->sizes[side].engines, shown = num < ENGINES_MAX ? num : ENGINES_MAX;
        char text[64];
        for (uint32_t i = 0; i < shown; i++) {
            struct drawing_box box = {l->x + i % ENGINES_A_ROW * ENGINE_PX,
                                      l->y + LINE_PX * floor((double)i / ENGINES_A_ROW) + 1, ENGINE_PX - 3, 14};
            snprintf(text, sizeof text, "%s%u", pairs_side_name((enum job_side)side), i);
            put_coloured(l->out, "engine", &box, (enum job_side)side, i, NULL);
            put_coloured_label(l->out, &box, RANK_LABEL_PX, (enum job_side)side, i, text);
        }
        l->y += LINE_PX * ceil((double)shown / ENGINES_A_ROW);
        if (num > shown) {
            snprintf(text, sizeof text, "and %u more %s engines", num - shown, pairs_side_name((enum job_side)side));
            drawing_text(l->out, l->x, l->y + 11, ENGINES_A_ROW * ENGINE_PX, plain, text);
            l->y += LINE_PX;
        }
    }
}

/* The text of the page's costs, a line of letters each. */
static void put_costs(struct legend *l, char *text)
{
    for (char *line = text, *end; *line != '\0'; line = end) {
        end = line + strcspn(line, "\n");
        bool more = *end != '\0';
        *end = '\0';
        drawing_text(l->out, l->x, l->y + 11, COSTS_PX, (struct drawing_font){9, "monospace"}, line);
        l->y += LINE_PX;
        end += more;
    }
}

static struct drawing_box size_legend(const struct explain *e)
{
    uint32_t lines = KINDS_LINES;
    for (uint32_t side = 0; side < JOB_SIDES; side++) {
        uint32_t num = e->sizes[side].engines, shown = num < ENGINES_MAX ? num : ENGINES_MAX;
        lines += (shown + ENGINES_A_ROW - 1) / ENGINES_A_ROW + (num > shown);
    }
    return (struct drawing_box){.width = LEGEND_PX, .height = lines * LINE_PX};
}

static struct drawing_box size_costs(const char *costs)
{
    uint32_t lines = 0;
    size_t widest = 0;
    for (const char *line = costs; *line != '\0'; lines++) {
        size_t length = strcspn(line, "\n");
        widest = length > widest ? length : widest;
        line += length + (line[length] != '\0');
    }
    return (struct drawing_box){.width = fmin(widest * COSTS_LETTER_PX, COSTS_PX) + 12, .height = lines * LINE_PX};
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void put_head(FILE *out, const struct sketch *s, double width)
{
    const struct explain *e = s->explain;
    char *text = NULL;
    size_t length;
    FILE *line = open_memstream(&text, &length);
    if (line == NULL)
        return;
    explain_headline(line, e);
    if (fclose(line) == 0)
        put_plated(out, 0, -24, width, 12, "#fff", text);
    free(text);
    uint32_t idle = e->world->num_nodes - s->num_nodes - s->left_out;
    char more[160] = "";
    if (s->left_out > 0)
        snprintf(more, sizeof more, "The first %u nodes that hold ranks are drawn, %u more are not. ", s->num_nodes,
                 s->left_out);
    if (idle > 0)
        snprintf(more + strlen(more), sizeof more - strlen(more), "Nodes without ranks, which are not drawn: %u.",
                 idle);
    if (more[0] != '\0')
        put_plated(out, 0, -8, width, 10, "#fff", more);
}

/* Of flows: those from prefill to decode, then those within engines. */
static void put_page(FILE *out, const struct sketch *s, const struct flows flows[2], char *costs)
{
    struct drawing_box parts[] = {s->page, size_legend(s->explain), size_costs(costs)};
    struct drawing_box all = drawing_shelve(parts, 3, fmax(s->page.width, WIDTH_PX), MARGIN_PX);
    double width = fmax(all.width, HEADLINE_PX);
    struct drawing_box page = {-MARGIN_PX, -HEAD_PX, width + 2 * MARGIN_PX, all.height + HEAD_PX + MARGIN_PX};
    struct legend legend = {out, parts[1].x, parts[1].y}, text = {out, parts[2].x, parts[2].y};
    drawing_begin(out, &page);
    fputs("<defs><pattern id=\"decode\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
          "<path d=\"M-1 1L1 -1M0 5L5 0M4 6L6 4\" stroke=\"#444\" stroke-width=\"0.5\"/></pattern></defs>\n",
          out);
    put_nodes(out, s, flows);
    put_head(out, s, width);
    drawing_rect(out, "panel", &parts[1], panel_style, NULL);
    drawing_rect(out, "panel", &parts[2], panel_style, NULL);
    put_kinds(&legend);
    put_sample(&legend, false, &flows[0]);
    put_sample(&legend, true, &flows[1]);
    put_engines(&legend, s->explain);
    put_costs(&text, costs);
    drawing_end(out);
}

int picture_draw(FILE *out, const struct explain *e)
{
    struct sketch s;
    struct flows flows[2];
    char *costs = NULL;
    size_t length;
    FILE *text = open_memstream(&costs, &length);
    int rc = text != NULL ? explain_costs(text, e) : -1;
    if (text != NULL && fclose(text) != 0)
        rc = -1;
    if (sketch_init(&s, e) != 0 || find_flows(&s, false, &flows[0]) != 0 || find_flows(&s, true, &flows[1]) != 0)
        rc = -1;
    if (rc == 0)
        put_page(out, &s, flows, costs);
    sketch_fini(&s);
    free(costs);
    return rc;
}
