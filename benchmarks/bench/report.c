/* SPDX-License-Identifier: BSD-3-Clause */
/* report: see the header. */
#include "bench/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "baton.h"
#include "bench/fail.h"
#include "option/output.h"

#define COLUMN_WIDTH 13
#define FIRST_WIDTH 28
#define OSU_SIZE_WIDTH 10 /* as in the tables of OSU's micro-benchmarks */
#define OSU_VALUE_WIDTH 18
#define PROGRESS_WIDTH 60
#define PROGRESS_NS (UINT64_C(200) * CLOCK_NS_PER_MS)

void report_open(struct report *r, const struct options *o, bool active, const char *const *columns,
                 unsigned num_columns)
{
    *r = (struct report){.active = active,
                         .format = o->format,
                         .shows_progress = active && output_has_terminal(),
                         .num_columns = num_columns,
                         .columns = columns};
    if (!active || !o->json)
        return;
    r->json_path = o->json;
    r->json = json_pack("{s:i, s:s, s:s, s:s, s:[], s:[]}", "schema", 1, "program", "baton-bench", "version",
                        baton_version(), "operation", options_op_name(o), "conditions", "rows");
    if (!r->json)
        fail("out of memory");
}

static void clear_progress(struct report *r)
{
    if (r->progress_stands)
        fprintf(stderr, "\r%*s\r", PROGRESS_WIDTH, "");
    r->progress_stands = false;
}

void report_progress(struct report *r, const char *what, double share)
{
    const uint64_t now = clock_now_ns();
    if (!r->shows_progress || now - r->progress_ns < PROGRESS_NS)
        return;
    fprintf(stderr, "\r%-*.*s %3.0f %%", PROGRESS_WIDTH - 6, PROGRESS_WIDTH - 6, what, 100 * (share < 1 ? share : 1));
    fflush(stderr);
    r->progress_stands = true;
    r->progress_ns = now;
}

static FILE *notes(const struct report *r)
{
    return r->format == FORMAT_TABLE ? stdout : stderr;
}

static void note_line(struct report *r, const char *line, size_t len)
{
    clear_progress(r);
    fprintf(notes(r), "# %.*s\n", (int)len, line);
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
    fflush(notes(r));
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
        if (r->format == FORMAT_CSV)
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
    clear_progress(r);
    for (unsigned i = 0; i < row->count; i++)
        cells[i] = row->cell[i];
    if (r->format != FORMAT_OSU) {
        if (!r->header_done)
            print_line(r, r->columns);
        r->header_done = true;
        print_line(r, cells);
    }
    if (!r->json)
        return;
    json_t *object = json_object();
    for (unsigned i = 0; i < row->count; i++)
        json_object_set_new(object, r->columns[i], cell_value(cells[i]));
    json_array_append_new(json_object_get(r->json, "rows"), object);
}

void report_osu(struct report *r, const char *value_name, uint64_t size, double value)
{
    if (!r->active || r->format != FORMAT_OSU)
        return;
    if (!r->header_done)
        printf("%-*s%*s\n", OSU_SIZE_WIDTH, "# Size", OSU_VALUE_WIDTH, value_name);
    r->header_done = true;
    printf("%-*" PRIu64 "%*.2f\n", OSU_SIZE_WIDTH, size, OSU_VALUE_WIDTH, value);
    fflush(stdout);
}

int report_close(struct report *r)
{
    int rc = 0;
    clear_progress(r);
    errno = 0;
    if (r->json && json_dump_file(r->json, r->json_path, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0) {
        fprintf(stderr, "baton-bench: --json %s: %s\n", r->json_path, errno ? strerror(errno) : "cannot be written");
        rc = -1;
    }
    json_decref(r->json);
    *r = (struct report){0};
    return rc;
}
