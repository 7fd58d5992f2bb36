/* SPDX-License-Identifier: BSD-3-Clause */
/* drawing: the elements of an SVG file, one a line. The file needs no other file, and has no scripts. */
#ifndef PLAN_TOOL_DRAWING_H
#define PLAN_TOOL_DRAWING_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct drawing_box {
    double x, y, width, height;
};

/** The head of the file, and a white page of that size. */
void drawing_begin(FILE *out, const struct drawing_box *page);
void drawing_end(FILE *out);

/** `kind`: its class, or NULL. `style`: further attributes. `tip`: a text that is shown at the pointer, or NULL. */
void drawing_rect(FILE *out, const char *kind, const struct drawing_box *box, const char *style, const char *tip);
void drawing_line(FILE *out, double x1, double y1, double x2, double y2);

/** A text in a file: what XML gives a meaning is escaped, and what is no printable ASCII becomes "_". */
void drawing_escaped(FILE *out, const char *text);

/** How a text looks. */
struct drawing_font {
    double px;
    const char *family; /* NULL: the file's, without serifs */
};

/** A text that begins at x, y and is cut, with "..." behind it, where it would be wider than `width`. */
void drawing_text(FILE *out, double x, double y, double width, struct drawing_font font, const char *text);

/**
 * Puts boxes, whose width and height are set, into rows from left to right, no wider than `width` if that can be, with
 * a gap between any two. The first is at 0, 0. Returns the size of all.
 */
struct drawing_box drawing_shelve(struct drawing_box *boxes, uint32_t num, double width, double gap);

#endif
