/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * print_svg: bytes from prefill ranks (rows) to decode ranks (columns), the darker the more. Where a side has more
 * ranks than a picture has room for, neighbours share a cell. The file needs no other file.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "drawing.h"
#include "print.h"

#define CELLS_MAX 256  /* a side */
#define PICTURE_PX 640 /* of the longer side, where its cells are not at their largest or smallest */
#define CELL_PX_MOST 24
#define CELL_PX_LEAST 2.5
#define TIP_CELLS_MAX 4096 /* each with a text that is shown at the pointer */
#define LABEL_PX 14        /* room of a line of letters */
#define MARGIN_PX 110
#define SHADES 16

/* One side of the matrix. */
struct axis {
    const struct engine *engine;
    uint32_t cells, ranks_a_cell;
    double px; /* of a rank */
};

struct picture {
    struct axis row, column;
    double cell;
    uint64_t *bytes; /* by cell, rows outer */
    uint64_t most;
};

static struct axis axis_of(const struct engine *e)
{
    uint32_t a_cell = (e->num_ranks + CELLS_MAX - 1) / CELLS_MAX;
    return (struct axis){.engine = e, .cells = (e->num_ranks + a_cell - 1) / a_cell, .ranks_a_cell = a_cell};
}

static int picture_init(struct picture *p, const struct exchange *x, struct why *why)
{
    *p = (struct picture){.row = axis_of(x->prefill), .column = axis_of(x->decode)};
    uint32_t longer = p->row.cells > p->column.cells ? p->row.cells : p->column.cells;
    p->cell = (double)PICTURE_PX / longer;
    p->cell = p->cell > CELL_PX_MOST ? CELL_PX_MOST : p->cell < CELL_PX_LEAST ? CELL_PX_LEAST : p->cell;
    p->row.px = p->cell / p->row.ranks_a_cell;
    p->column.px = p->cell / p->column.ranks_a_cell;
    p->bytes = calloc((size_t)p->row.cells * p->column.cells, sizeof *p->bytes);
    if (p->bytes == NULL)
        return why_set(why, "no memory for a picture");
    for (uint32_t i = 0; i < x->num_pairs; i++) {
        const struct pair *pair = &x->pairs[i];
        uint64_t *cell = &p->bytes[(size_t)(pair->producer / p->row.ranks_a_cell) * p->column.cells +
                                   pair->consumer / p->column.ranks_a_cell];
        *cell += pair->moves.bytes;
        p->most = *cell > p->most ? *cell : p->most;
    }
    return 0;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* From a light blue to a dark one; shade 1 to SHADES. */
static unsigned color(unsigned shade)
{
    static const unsigned light[] = {0xd6, 0xe6, 0xf4}, dark[] = {0x08, 0x30, 0x6b};
    unsigned rgb = 0;
    for (unsigned i = 0; i < 3; i++)
        rgb = rgb << 8 | (light[i] * (SHADES - shade) + dark[i] * (shade - 1)) / (SHADES - 1);
    return rgb;
}

static unsigned shade_of(uint64_t bytes, uint64_t most)
{
    unsigned shade = (unsigned)((double)bytes / (double)most * SHADES + 0.999999);
    return shade < 1 ? 1 : shade > SHADES ? SHADES : shade;
}

static const char *ranks_text(const struct axis *a, uint32_t cell, char text[64])
{
    uint32_t first = cell * a->ranks_a_cell, last = first + a->ranks_a_cell - 1;
    if (last >= a->engine->num_ranks)
        last = a->engine->num_ranks - 1;
    snprintf(text, 64, first == last ? "%.32s %u" : "%.32s %u-%u", a->engine->source.role, first, last);
    return text;
}

static void put_cell(FILE *out, const struct picture *p, uint32_t row, uint32_t column, uint64_t bytes)
{
    const struct drawing_box box = {column * p->cell, row * p->cell, p->cell, p->cell};
    char style[32], from[64], to[64], tip[192];
    snprintf(style, sizeof style, "fill=\"#%06x\"", color(shade_of(bytes, p->most)));
    snprintf(tip, sizeof tip, "%s to %s: %" PRIu64 " bytes", ranks_text(&p->row, row, from),
             ranks_text(&p->column, column, to), bytes);
    drawing_rect(out, NULL, &box, style, (uint64_t)p->row.cells * p->column.cells > TIP_CELLS_MAX ? NULL : tip);
}

static void put_cells(FILE *out, const struct picture *p)
{
    for (uint32_t row = 0; row < p->row.cells; row++)
        for (uint32_t column = 0; column < p->column.cells; column++) {
            uint64_t bytes = p->bytes[(size_t)row * p->column.cells + column];
            if (bytes > 0)
                put_cell(out, p, row, column, bytes);
        }
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static double length(const struct axis *a)
{
    return a->engine->num_ranks * a->px;
}

/* A label beside a row, or above a column where it stands upright. */
static void put_label(FILE *out, bool is_row, double at, double away, const char *what, uint32_t number)
{
    if (is_row)
        fprintf(out, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">%s%u</text>\n", -away, at + 3.5, what, number);
    else
        fprintf(out, "<text transform=\"translate(%.2f %.2f) rotate(-90)\">%s%u</text>\n", at + 3.5, -away, what,
                number);
}

/* Numbers of TP ranks, if each has room for one; numbers of stages, as many as there is room for. */
static void put_axis(FILE *out, const struct axis *a, bool is_row, double across)
{
    const uint32_t tp = a->engine->source.size.tp, pp = a->engine->source.size.pp;
    const double stage_px = tp * a->px;
    const bool each = a->px >= LABEL_PX - 3;
    uint32_t step = 1;
    while (step * stage_px < LABEL_PX)
        step++;
    for (uint32_t rank = 0; each && rank < a->engine->num_ranks; rank++)
        put_label(out, is_row, (rank + 0.5) * a->px, 4, "tp ", rank % tp);
    for (uint32_t stage = 0; stage < pp; stage += step) {
        put_label(out, is_row, (stage + 0.5) * stage_px, each ? 44 : 4, "pp ", stage);
        if (is_row && stage > 0)
            drawing_line(out, 0, stage * stage_px, across, stage * stage_px);
        else if (stage > 0)
            drawing_line(out, stage * stage_px, 0, stage * stage_px, across);
    }
}

static void put_legend(FILE *out, const struct picture *p, double y)
{
    for (unsigned i = 0; i <= SHADES; i++)
        fprintf(out, "<rect x=\"%u\" y=\"%.2f\" width=\"10\" height=\"10\" fill=\"#%06x\"/>\n", i * 10, y,
                i ? color(i) : 0xffffff);
    fprintf(out, "<rect x=\"0\" y=\"%.2f\" width=\"%u\" height=\"10\" fill=\"none\" stroke=\"#444\"/>\n", y,
            (SHADES + 1) * 10);
    fprintf(out, "<text x=\"0\" y=\"%.2f\">0</text>\n", y + 24);
    fprintf(out, "<text x=\"%u\" y=\"%.2f\" text-anchor=\"end\">%" PRIu64 " bytes</text>\n", (SHADES + 1) * 10, y + 24,
            p->most);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void put_side(FILE *out, const struct axis *a, const char *what)
{
    const struct engine_size *s = &a->engine->source.size;
    fprintf(out, "%s: %s ranks, tp %u, pp %u", what, a->engine->source.role, s->tp, s->pp);
    if (a->ranks_a_cell > 1)
        fprintf(out, ", %u ranks a cell", a->ranks_a_cell);
}

static void put_head(FILE *out, const struct picture *p, const char *model, const struct request *r)
{
    fprintf(out, "<text y=\"-98\" font-size=\"13\">");
    drawing_escaped(out, model);
    fprintf(out, ": bytes of %u tokens, %u of them held</text>\n<text y=\"-83\">", r->tokens, r->held);
    put_side(out, &p->row, "rows");
    fprintf(out, "; ");
    put_side(out, &p->column, "columns");
    fprintf(out, "</text>\n");
}

static void put_picture(FILE *out, const struct picture *p, const char *model, const struct request *r)
{
    const double width = length(&p->column), height = length(&p->row);
    const double all_width = (width > 420 ? width : 420) + MARGIN_PX + 24, all_height = height + MARGIN_PX + 64;
    drawing_begin(out, &(struct drawing_box){-MARGIN_PX, -MARGIN_PX - 4, all_width, all_height});
    put_head(out, p, model, r);
    put_cells(out, p);
    put_axis(out, &p->row, true, width);
    put_axis(out, &p->column, false, height);
    fprintf(out, "<rect width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#444\"/>\n", width, height);
    put_legend(out, p, height + 16);
    drawing_end(out);
}

int print_svg(const struct exchange *x, FILE *out, struct why *why)
{
    struct picture p;
    struct cache cache;
    if (engine_cache(x->decode, 0, &cache, why) != 0)
        return -1;
    int rc = picture_init(&p, x, why);
    if (rc == 0)
        put_picture(out, &p, cache.geometry->model, &x->request);
    free(p.bytes);
    cache_fini(&cache);
    return rc;
}
