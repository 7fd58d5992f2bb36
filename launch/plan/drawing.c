/* SPDX-License-Identifier: BSD-3-Clause */
/* drawing: see drawing.h. */
#include "drawing.h"

#include <string.h>

#define LETTER 0.6 /* width of a letter over the height of its font: more than the mean of usual fonts */

void drawing_begin(FILE *out, const struct drawing_box *page)
{
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%.0f %.0f %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"10\" fill=\"#222\">\n",
            page->width, page->height, page->x, page->y, page->width, page->height);
    drawing_rect(out, NULL, page, "fill=\"#fff\"", NULL);
}

void drawing_end(FILE *out)
{
    fputs("</svg>\n", out);
}

void drawing_rect(FILE *out, const char *kind, const struct drawing_box *box, const char *style, const char *tip)
{
    fputs("<rect", out);
    if (kind != NULL)
        fprintf(out, " class=\"%s\"", kind);
    fprintf(out, " x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" %s", box->x, box->y, box->width, box->height,
            style);
    if (tip == NULL) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    drawing_escaped(out, tip);
    fputs("</title></rect>\n", out);
}

void drawing_line(FILE *out, double x1, double y1, double x2, double y2)
{
    fprintf(out, "<path d=\"M%.2f %.2fL%.2f %.2f\" stroke=\"#999\" stroke-width=\"0.5\"/>\n", x1, y1, x2, y2);
}

/* One letter. */
static void put(FILE *out, char letter)
{
    static const struct {
        char letter;
        const char *entity;
    } entities[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&apos;"}};
    for (unsigned i = 0; i < sizeof entities / sizeof entities[0]; i++)
        if (letter == entities[i].letter) {
            fputs(entities[i].entity, out);
            return;
        }
    fputc(letter < 0x20 || letter > 0x7e ? '_' : letter, out);
}

void drawing_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        put(out, *text);
}

void drawing_text(FILE *out, double x, double y, double width, struct drawing_font font, const char *text)
{
    size_t room = (size_t)(width / (font.px * LETTER)), length = strlen(text);
    fprintf(out, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%g\" xml:space=\"preserve\"", x, y, font.px);
    if (font.family != NULL)
        fprintf(out, " font-family=\"%s\"", font.family);
    fputs(">", out);
    for (size_t i = 0; i < length && (length <= room || i + 3 < room); i++)
        put(out, text[i]);
    fputs(length <= room ? "</text>\n" : "...</text>\n", out);
}

struct drawing_box drawing_shelve(struct drawing_box *boxes, uint32_t num, double width, double gap)
{
    struct drawing_box all = {0, 0, 0, 0};
    double x = 0, y = 0;
    for (uint32_t i = 0; i < num; i++) {
        if (x > 0 && x + boxes[i].width > width) {
            x = 0;
            y = all.height + gap;
        }
        boxes[i].x = x;
        boxes[i].y = y;
        x += boxes[i].width + gap;
        all.width = x - gap > all.width ? x - gap : all.width;
        all.height = y + boxes[i].height > all.height ? y + boxes[i].height : all.height;
    }
    return all;
}
