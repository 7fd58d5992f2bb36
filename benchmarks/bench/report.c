/* SPDX-License-Identifier: BSD-3-Clause */
/* report: see the header. */
#include "bench/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "baton.h"
#include "bench/fail.h"

#define COLUMN_WIDTH 13
#define FIRST_WIDTH 28

void report_open(struct report *r, const struct options *o, bool active, const char *const *columns,
                 unsigned num_columns)
{
    *r = (struct report){.active = active, .csv = o->csv, .num_columns = num_columns, .columns = columns};
    if (!active || !o->json)
        return;
    r->json_path = o->json;
    r->json = json_pack("{s:i, s:s, s:s, s:s, s:[], s:[]}", "schema", 1, "program", "baton-bench", "version",
                        baton_version(), "operation", options_op_name(o), "conditions", "rows");
    if (!r->json)
        fail("out of memory");
}

static void note_line(struct report *r, const char *line, size_t len)
{
    fprintf(r->csv ? stderr : stdout, "# %.*s\n", (int)len, line);
    if (r->json)
        json_array_append_new(json_object_get(r->json, "conditions"), json_stringn(line, len));
}

void report_text(struct report *r, const char *text)
{
    if (!r->active)
        return;
    while (*text) {
        size_t len = strcspn(text, "\n");
        note_line(r, text, len);
        text += len + (text[len] == '\n');
    }
    fflush(r->csv ? stderr : stdout);
}

void report_note(struct report *r, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report_text(r, text);
}

void report_cell(struct report_row *row, const char *format, ...)
{
    va_list args;
    if (row->count == REPORT_COLUMNS_MAX)
        return;
    va_start(args, format);
    vsnprintf(row->cell[row->count++], REPORT_CELL_MAX, format, args);
    va_end(args);
}

static void print_line(const struct report *r, const char *const *cells)
{
    for (unsigned i = 0; i < r->num_columns; i++) {
        if (r->csv)
            printf("%s%s", i ? "," : "", cells[i]);
        else if (i == 0)
            printf("%-*s", FIRST_WIDTH, cells[i]);
        else
            printf(" %*s", COLUMN_WIDTH, cells[i]);
    }
    putchar('\n');
    fflush(stdout);
}

static json_t *cell_value(const char *cell)
{
    char *end;
    double value = strtod(cell, &end);
    if (end == cell || *end != '\0')
        return json_string(cell);
    if (strpbrk(cell, ".eEnN"))
        return json_real(value);
    return json_integer((json_int_t)strtoll(cell, NULL, 10));
}

void report_add(struct report *r, const struct report_row *row)
{
    const char *cells[REPORT_COLUMNS_MAX];
    if (!r->active)
        return;
    if (row->count != r->num_columns)
        fail("a row of %u cells in a table of %u columns", row->count, r->num_columns);
    if (!r->header_done)
        print_line(r, r->columns);
    r->header_done = true;
    for (unsigned i = 0; i < row->count; i++)
        cells[i] = row->cell[i];
    print_line(r, cells);
    if (!r->json)
        return;
    json_t *object = json_object();
    for (unsigned i = 0; i < row->count; i++)
        json_object_set_new(object, r->columns[i], cell_value(cells[i]));
    json_array_append_new(json_object_get(r->json, "rows"), object);
}

int report_close(struct report *r)
{
    int rc = 0;
    if (r->json && json_dump_file(r->json, r->json_path, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0) {
        fprintf(stderr, "baton-bench: cannot write %s\n", r->json_path);
        rc = -1;
    }
    json_decref(r->json);
    *r = (struct report){0};
    return rc;
}
