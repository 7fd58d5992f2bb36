/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture: in the SVG of a placement nothing overlaps, parts lie within what they are parts of, and letters fit their
 * boxes; every rank, device and node is there; names from outside are escaped.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "batonrun/placement.h"
#include "launch/plan/drawing.h"

#define LETTER 0.55 /* width over height: the mean of letters in usual fonts without serifs */
#define MONO 0.61   /* and where all are equally wide */

struct box {
    char kind[16]; /* empty: the page */
    double x, y, width, height;
};

struct picture {
    char *text;
    uint32_t num_boxes, num_labels, num_flows;
    struct box *boxes, *labels;
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Letters of a text in a file: an entity is one. */
static size_t letters(const char *text, const char *end)
{
    size_t n = 0;
    for (; text < end; n++) {
        const char *close = *text == '&' ? strchr(text, ';') : text;
        assert_non_null(close);
        text = close + 1;
    }
    return n;
}

static void read_label(struct picture *p, const char *line)
{
    double x, y, px;
    const char *open = strchr(line, '>'), *close = strstr(line, "</text>");
    assert_int_equal(sscanf(line, "<text x=\"%lf\" y=\"%lf\" font-size=\"%lf\"", &x, &y, &px), 3);
    assert_true(open != NULL && close != NULL);
    bool is_mono = strstr(line, "monospace") != NULL && strstr(line, "monospace") < open;
    double width = (double)letters(open + 1, close) * px * (is_mono ? MONO : LETTER);
    if (width > 0)
        p->labels[p->num_labels++] = (struct box){"text", x, y - 0.75 * px, width, px};
}

static void read_box(struct picture *p, const char *line)
{
    struct box b = {.kind = ""};
    const char *at = strstr(line, "x=\"");
    sscanf(line, "<rect class=\"%15[a-z]\"", b.kind);
    assert_non_null(at);
    assert_int_equal(sscanf(at, "x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &b.x, &b.y, &b.width, &b.height),
                     4);
    assert_true(b.width > 0 && b.height > 0);
    if (strcmp(b.kind, "hatch") != 0) /* it lies on the box before it */
        p->boxes[p->num_boxes++] = b;
}

static void picture_read(struct picture *p, char *text)
{
    size_t lines = 1;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    *p = (struct picture){
        .text = text, .boxes = calloc(lines, sizeof *p->boxes), .labels = calloc(lines, sizeof *p->labels)};
    assert_true(p->boxes != NULL && p->labels != NULL);
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        if (strncmp(line, "<rect", 5) == 0)
            read_box(p, line);
        else if (strncmp(line, "<text", 5) == 0)
            read_label(p, line);
        p->num_flows += strncmp(line, "<path class=\"flow\"", 18) == 0;
        *end = '\n';
    }
}

static void picture_fini(struct picture *p)
{
    free(p->text);
    free(p->boxes);
    free(p->labels);
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static bool overlap(const struct box *a, const struct box *b)
{
    const double most = 0.01; /* of rounding */
    return a->x + a->width > b->x + most && b->x + b->width > a->x + most && a->y + a->height > b->y + most &&
           b->y + b->height > a->y + most;
}

static bool is_within(const struct box *a, const struct box *b)
{
    const double most = 0.01;
    return a->x >= b->x - most && a->y >= b->y - most && a->x + a->width <= b->x + b->width + most &&
           a->y + a->height <= b->y + b->height + most;
}

/* Boxes and letters lie beside each other, or one within the other; of one kind, beside. */
static void check_apart(const struct picture *p)
{
    for (uint32_t i = 0; i < p->num_boxes; i++)
        for (uint32_t k = i + 1; k < p->num_boxes; k++) {
            const struct box *a = &p->boxes[i], *b = &p->boxes[k];
            if (overlap(a, b) && (strcmp(a->kind, b->kind) == 0 || (!is_within(a, b) && !is_within(b, a))))
                fail_msg("%s at %.0f, %.0f and %s at %.0f, %.0f overlap", a->kind, a->x, a->y, b->kind, b->x, b->y);
        }
    for (uint32_t i = 0; i < p->num_labels; i++) {
        const struct box *a = &p->labels[i];
        assert_true(is_within(a, &p->boxes[0]));
        for (uint32_t k = 0; k < p->num_boxes; k++)
            if (overlap(a, &p->boxes[k]) && !is_within(a, &p->boxes[k]))
                fail_msg("a text at %.0f, %.0f, %.0f wide, and %s at %.0f, %.0f overlap", a->x, a->y, a->width,
                         p->boxes[k].kind, p->boxes[k].x, p->boxes[k].y);
        for (uint32_t k = i + 1; k < p->num_labels; k++)
            if (overlap(a, &p->labels[k]))
                fail_msg("texts at %.0f, %.0f and %.0f, %.0f overlap", a->x, a->y, p->labels[k].x, p->labels[k].y);
    }
}

static uint32_t count(const struct picture *p, const char *kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->num_boxes; i++)
        n += strcmp(p->boxes[i].kind, kind) == 0;
    return n;
}

/* Each box of a kind lies within one of another. The legend's are below the nodes. */
static void check_nested(const struct picture *p, const char *kind, const char *outer, uint32_t in_legend)
{
    uint32_t inside = 0;
    for (uint32_t i = 0; i < p->num_boxes; i++)
        for (uint32_t k = 0; strcmp(p->boxes[i].kind, kind) == 0 && k < p->num_boxes; k++)
            inside += strcmp(p->boxes[k].kind, outer) == 0 && is_within(&p->boxes[i], &p->boxes[k]);
    assert_int_equal(inside, count(p, kind) - in_legend);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static char *drawn(const struct placement_options *options, const struct engine_size *sizes, struct placement *p)
{
    char path[] = "/tmp/test_picture.XXXXXX", *text = NULL;
    struct placement_options o = *options;
    struct why why = {""};
    int fd = mkstemp(path);
    size_t room = 0;
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "r");
    assert_non_null(f);
    o.svg = path;
    if (placement_find(p, &o, sizes, NULL, NULL, &why) != 0 || placement_write_svg(p, &why) != 0)
        fail_msg("%s", why.text);
    assert_true(getdelim(&text, &room, '\0', f) > 0);
    fclose(f);
    unlink(path);
    return text;
}

static void check(const char *topology, const char *hosts, const struct engine_size *sizes, uint32_t nodes)
{
    struct placement_options o = placement_defaults();
    struct placement p;
    struct picture picture;
    o.topologies[0] = topology;
    o.hosts = hosts;
    picture_read(&picture, drawn(&o, sizes, &p));
    const struct machine *m = &p.machines[0];
    bool all = nodes == p.world.num_nodes;
    check_apart(&picture);
    assert_int_equal(count(&picture, "node"), nodes);
    if (all)
        assert_int_equal(count(&picture, "rank"), p.job.num_ranks + 2); /* the legend has two */
    if (m->num_cores <= 64)
        assert_int_equal(count(&picture, "core"), nodes * m->num_cores + 1);
    assert_int_equal(count(&picture, "gpu"), nodes * m->num_gpus + 1);
    assert_int_equal(count(&picture, "nic"), nodes * m->num_nics + 1);
    check_nested(&picture, "package", "node", 0);
    check_nested(&picture, "numa", "package", 0);
    check_nested(&picture, "rank", "numa", 2);
    check_nested(&picture, "core", "numa", 1);
    check_nested(&picture, "gpu", "node", 1);
    assert_true(picture.num_flows > 2 && picture.num_flows <= 2 * 64 + 2);
    assert_null(strstr(picture.text, "script"));
    assert_null(strstr(picture.text, "nan"));
    picture_fini(&picture);
    placement_fini(&p);
}

/* "n0:8,…", or long names. */
static const char *hosts_of(uint32_t num, bool is_long, uint32_t slots)
{
    static char text[1 << 16];
    size_t at = 0;
    for (uint32_t i = 0; i < num; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%u%s:%u", i > 0 ? "," : "",
                               is_long ? "the-compute-node-of-a-cluster-with-a-rather-long-name-number-" : "n", i,
                               is_long ? ".rack-17.building-3.some-institute.example.org" : "", slots);
    assert_true(at < sizeof text);
    return text;
}

#define MACHINES TEST_DATA "/machines/"

static void test_64_ranks(void **state)
{
    (void)state;
    static const struct engine_size a[] = {{4, 8, 1}, {8, 4, 1}}, b[] = {{2, 8, 1}, {6, 8, 1}},
                                    c[] = {{2, 8, 2}, {4, 8, 1}}, d[] = {{32, 1, 1}, {32, 1, 1}};
    static const char *const topologies[] = {MACHINES "8gpu-8nic-8numa.xml", "pack:2 numa:1 l3:4 core:8 pu:2",
                                             MACHINES "28intel64-2p2g7c-CoDgroups.v1tov2.xml",
                                             MACHINES "24em64t-2n6c2t-pci.xml"};
    for (unsigned i = 0; i < sizeof topologies / sizeof topologies[0]; i++) {
        check(topologies[i], hosts_of(8, false, 8), a, 8);
        check(topologies[i], hosts_of(8, true, 8), b, 8);
        check(topologies[i], hosts_of(8, false, 8), c, 8);
        check(topologies[i], hosts_of(8, true, 8), d, 8);
    }
    check("pack:2 numa:1 l3:4 core:8 pu:2", "one", a, 1);
    check("pack:2 core:64 pu:1", "one", d, 1);
    check("core:256 pu:2", "one", b, 1);
}

static void test_many_nodes(void **state)
{
    (void)state;
    static const struct engine_size whole[] = {{32, 8, 1}, {32, 8, 1}}, wide[] = {{64, 8, 1}, {36, 8, 1}};
    check(MACHINES "8gpu-8nic-8numa.xml", hosts_of(64, true, 8), whole, 64);
    check(MACHINES "8gpu-8nic-8numa.xml", hosts_of(100, false, 8), wide, 64); /* the others are a sentence */
}

/* Beside few nodes there is what explains them, and not an empty page. */
static void test_room_is_used(void **state)
{
    (void)state;
    static const struct engine_size few[] = {{1, 2, 1}, {1, 2, 1}}, more[] = {{2, 4, 1}, {4, 2, 1}};
    static const struct engine_size *const sizes[] = {few, more};
    for (unsigned i = 0; i < 2; i++) {
        struct placement_options o = placement_defaults();
        struct placement p;
        struct picture picture;
        double right = 0;
        o.topologies[0] = "pack:2 numa:1 core:8 pu:1";
        o.hosts = "a,b";
        picture_read(&picture, drawn(&o, sizes[i], &p));
        const struct box *page = &picture.boxes[0];
        for (uint32_t k = 0; k < picture.num_labels; k++) {
            const struct box *b = &picture.labels[k];
            bool is_high = b->y > 0 && b->y < (page->y + page->height) / 2;
            right = is_high && b->x + b->width > right ? b->x + b->width : right;
        }
        assert_true(right > page->x + page->width * 2 / 3);
        picture_fini(&picture);
        placement_fini(&p);
    }
}

/* A flow: its ends, and between them the point that it bends to. */
struct curve {
    double x[3], y[3];
};

static struct curve read_curve(const char *line)
{
    struct curve c;
    const char *d = strstr(line, " d=\"M");
    assert_non_null(d);
    assert_int_equal(sscanf(d, " d=\"M%lf %lfQ%lf %lf %lf %lf", &c.x[0], &c.y[0], &c.x[1], &c.y[1], &c.x[2], &c.y[2]),
                     6);
    return c;
}

/* 0 to 1 along it. */
static struct box point_of(const struct curve *c, double along)
{
    double before = 1 - along;
    return (struct box){.x = before * before * c->x[0] + 2 * before * along * c->x[1] + along * along * c->x[2],
                        .y = before * before * c->y[0] + 2 * before * along * c->y[1] + along * along * c->y[2]};
}

static bool crosses(const struct curve *c, const struct box *b)
{
    for (unsigned i = 0; i <= 200; i++) {
        const struct box at = point_of(c, i / 200.0);
        if (is_within(&at, b))
            return true;
    }
    return false;
}

/* The box of a line of the file if that is one of these kinds. */
static bool is_cover(const char *line, struct box *out)
{
    struct picture p = {.boxes = out};
    if (strncmp(line, "<rect class=\"plate\"", 19) != 0 && strncmp(line, "<rect class=\"panel\"", 19) != 0)
        return false;
    read_box(&p, line);
    return true;
}

/* Each line comes before each text that it crosses, and something between the two covers it there. How many cross. */
static uint32_t check_covered(const char *text)
{
    static const char *lines[1 << 14];
    static struct curve flows[2 * 64 + 2];
    static struct box covers[1 << 14]; /* by line of the file; of width 0: none */
    uint32_t num = 0, num_flows = 0, crossings = 0;
    uint32_t at[2 * 64 + 2];
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_true(num < sizeof lines / sizeof lines[0]);
        covers[num].width = 0;
        is_cover(line, &covers[num]);
        if (strncmp(line, "<path class=\"flow\"", 18) == 0) {
            assert_true(num_flows < sizeof flows / sizeof flows[0]);
            at[num_flows] = num;
            flows[num_flows++] = read_curve(line);
        }
        lines[num++] = line;
    }
    for (uint32_t i = 0; i < num; i++) {
        struct box b;
        struct picture p = {.labels = &b};
        if (strncmp(lines[i], "<text", 5) != 0)
            continue;
        read_label(&p, lines[i]);
        for (uint32_t f = 0; p.num_labels > 0 && f < num_flows; f++) {
            bool is_covered = false;
            if (!crosses(&flows[f], &b))
                continue;
            for (uint32_t k = at[f]; k < i; k++)
                is_covered |= covers[k].width > 0 && is_within(&b, &covers[k]);
            if (!is_covered)
                fail_msg("a line crosses the text %.80s", strchr(lines[i], '>'));
            crossings++;
        }
    }
    return crossings;
}

/* Each rank, sample of the legend and engine has a plate for its label, and those of nodes come after their lines. */
static void test_plates(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{2, 4, 1}, {4, 2, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct picture picture;
    uint32_t in_ranks = 0, in_engines = 0;
    o.topologies[0] = "pack:2 numa:1 core:8 pu:1";
    o.hosts = "a,b";
    picture_read(&picture, drawn(&o, sizes, &p));
    for (uint32_t i = 0; i < picture.num_boxes; i++)
        for (uint32_t k = 0; strcmp(picture.boxes[i].kind, "plate") == 0 && k < picture.num_boxes; k++) {
            const bool is_within_it = is_within(&picture.boxes[i], &picture.boxes[k]);
            in_ranks += is_within_it && strcmp(picture.boxes[k].kind, "rank") == 0;
            in_engines += is_within_it && strcmp(picture.boxes[k].kind, "engine") == 0;
        }
    assert_int_equal(in_ranks, 16 + 2);
    assert_int_equal(in_engines, 6);
    const char *at = strstr(picture.text, "class=\"plate\""), *first = strstr(picture.text, "class=\"flow\"");
    const char *legend = strstr(at, "class=\"flow\"");
    assert_true(first < at && legend > strstr(at, "class=\"panel\""));
    picture_fini(&picture);
    placement_fini(&p);
}

/* Lines pass behind all letters: those of nodes, their parts and devices, of ranks, of the heading and of the costs. */
static void test_lines_cross_no_label(void **state)
{
    (void)state;
    static const struct {
        const char *topology, *hosts;
        struct engine_size sizes[2];
    } worlds[] = {
        {"pack:2 numa:2 core:8 pu:2", "n[0-3]:16", {{7, 4, 1}, {5, 2, 1}}}, /* lines over the costs */
        {"pack:2 numa:2 core:8 pu:2", "n[0-3]:16", {{4, 8, 1}, {3, 1, 1}}}, /* and over the heading, if spread */
        {MACHINES "8gpu-8nic-8numa.xml", "n[0-1]:8,idle:8", {{1, 8, 1}, {2, 4, 1}}},
        {MACHINES "8gpu-8nic-8numa.xml", "n[0-3]:8", {{2, 8, 1}, {4, 4, 1}}},
        {MACHINES "8gpu-8nic-8numa.xml", "n[0-31]:8", {{16, 8, 1}, {32, 4, 1}}},
    };
    for (unsigned i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        struct placement_options o = placement_defaults();
        struct placement p;
        o.topologies[0] = worlds[i].topology;
        o.hosts = worlds[i].hosts;
        o.spread = worlds[i].sizes[JOB_DECODE].tp == 1;
        char *text = drawn(&o, worlds[i].sizes, &p);
        const uint32_t crossings = check_covered(text);
        if (crossings == 0)
            fail_msg("no line of %s %s crosses a text", worlds[i].topology, worlds[i].hosts);
        free(text);
        placement_fini(&p);
    }
}

/* Of many equal flows those that are drawn are of all nodes, of all engines there, and of many ranks of these. */
static void test_flows_are_spread(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{16, 8, 1}, {32, 4, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    struct picture picture;
    uint32_t of_node[32] = {0}, of_rank[256] = {0}, nodes = 0, ranks = 0;
    o.topologies[0] = MACHINES "8gpu-8nic-8numa.xml";
    o.hosts = "n[0-31]:8";
    picture_read(&picture, drawn(&o, sizes, &p));
    for (const char *at = picture.text; (at = strstr(at, "<path class=\"flow\"")) != NULL; at++)
        for (unsigned end = 0; end < 2 && strstr(at, "dasharray") > strchr(at, '\n'); end++) {
            const struct curve curve = read_curve(at);
            const struct box here = point_of(&curve, end);
            uint32_t node = 0, rank = 0;
            for (uint32_t i = 0; i < picture.num_boxes; i++) {
                const struct box *b = &picture.boxes[i];
                if (strcmp(b->kind, "node") == 0 && node++ < 32)
                    of_node[node - 1] += is_within(&here, b);
                if (strcmp(b->kind, "rank") == 0 && rank++ < 256)
                    of_rank[rank - 1] += is_within(&here, b);
            }
        }
    for (unsigned i = 0; i < 32; i++)
        nodes += of_node[i] == 4; /* two ends of each of 64 flows */
    for (unsigned i = 0; i < 256; i++)
        ranks += of_rank[i] > 0;
    assert_int_equal(nodes, 32);
    assert_true(ranks >= 96);
    picture_fini(&picture);
    placement_fini(&p);
}

/* How far two colours are apart to the eye, about: 0 to 765. */
static double color_distance(unsigned x, unsigned y)
{
    double red = (double)(x >> 16) - (y >> 16), green = (double)(x >> 8 & 255) - (y >> 8 & 255),
           blue = (double)(x & 255) - (y & 255), mean = ((x >> 16) + (y >> 16)) / 512.0;
    return sqrt((2 + mean) * red * red + 4 * green * green + (3 - mean) * blue * blue);
}

/* Each engine of a side is in the legend, in a colour of its own; neighbours differ much. The rest is a sentence. */
static void test_colors(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{3, 2, 1}, {32, 2, 1}}, many[] = {{1, 1, 1}, {70, 1, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    unsigned colors[3 + 32], num = 0;
    o.topologies[0] = "core:80 pu:2";
    o.hosts = "a";
    char *text = drawn(&o, sizes, &p);
    for (const char *at = text; (at = strstr(at, "<rect class=\"engine\"")) != NULL; at++) {
        assert_true(num < 3 + 32);
        assert_int_equal(sscanf(strstr(at, "fill=\"#"), "fill=\"#%6x\"", &colors[num++]), 1);
    }
    assert_int_equal(num, 3 + 32);
    for (unsigned i = 3; i < num; i++)
        for (unsigned k = 3; k < i; k++)
            if (color_distance(colors[i], colors[k]) < (i - k == 1 ? 150 : 30))
                fail_msg("decode%u is #%06x, and decode%u #%06x", i - 3, colors[i], k - 3, colors[k]);
    free(text);
    placement_fini(&p);
    text = drawn(&o, many, &p);
    assert_non_null(strstr(text, ">decode59<"));
    assert_non_null(strstr(text, ">and 10 more decode engines<"));
    free(text);
    placement_fini(&p);
}

/* Prefill and decode differ by more than colour. */
static void test_hatched(void **state)
{
    (void)state;
    static const struct engine_size sizes[] = {{1, 2, 1}, {1, 4, 1}};
    struct placement_options o = placement_defaults();
    struct placement p;
    o.topologies[0] = "core:8 pu:2";
    o.hosts = "a";
    char *text = drawn(&o, sizes, &p);
    uint32_t hatches = 0;
    for (const char *at = text; (at = strstr(at, "class=\"hatch\"")) != NULL; at++)
        hatches++;
    uint32_t cores = 0; /* of decode ranks */
    for (uint32_t r = 2; r < 6; r++)
        cores += p.places[r].seat.end_core - p.places[r].seat.first_core;
    assert_int_equal(hatches, 4 + cores + 2); /* ranks, cores, and two of the legend */
    assert_non_null(strstr(text, "<title>rank 2: decode0, TP rank 0, stage 0; cores "));
    free(text);
    placement_fini(&p);
}

static void check_text(const char *text, double width, const char *wanted)
{
    char *written = NULL;
    size_t length;
    FILE *out = open_memstream(&written, &length);
    assert_non_null(out);
    drawing_text(out, 1, 2, width, (struct drawing_font){10, NULL}, text);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(written, wanted));
    free(written);
}

static void test_names_from_outside(void **state)
{
    (void)state;
    check_text("<a href='x'>&\"", 999, ">&lt;a href=&apos;x&apos;&gt;&amp;&quot;</text>");
    check_text("caf\xc3\xa9\n", 999, ">caf___</text>");
    check_text("0123456789", 60, ">0123456789</text>");
    check_text("0123456789", 59, ">012345...</text>");
    check_text("012", 6, ">...</text>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_64_ranks),
        cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_room_is_used),
        cmocka_unit_test(test_plates),
        cmocka_unit_test(test_lines_cross_no_label),
        cmocka_unit_test(test_flows_are_spread),
        cmocka_unit_test(test_colors),
        cmocka_unit_test(test_hatched),
        cmocka_unit_test(test_names_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
