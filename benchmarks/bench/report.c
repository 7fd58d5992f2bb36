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
#define ROW_MAX 1024
#define CELLS_MAX 24
#define BETWEEN_CELLS "\x1f"

struct cell {
    char *column, *text;
};

void report_open(struct report *r, const struct options *o, bool active)
{
    *r = (struct report){.active = active,
                         .op = options_op_name(o),
                         .format = o->format,
                         .shows_progress = active && output_has_terminal()};
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

/* Cells, or with `names` their columns. */
static void print_line(const struct report *r, const struct cell *cells, unsigned count, bool names)
{
    for (unsigned i = 0; i < count; i++) {
        const char *text = names ? cells[i].column : cells[i].text;
        if (r->format == FORMAT_CSV)
            printf("%s%s", i ? "," : "", text);
        else if (i == 0)
            printf("%-*s", FIRST_WIDTH, text);
        else
            printf(" %*s", COLUMN_WIDTH, text);
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

/* Takes the cells of a row apart, in place. Returns how many there are. */
static unsigned find_cells(char *row, struct cell cells[CELLS_MAX])
{
    unsigned count = 0;
    for (char *next = row; next != NULL && count < CELLS_MAX; count++) {
        cells[count].column = strsep(&next, BETWEEN_CELLS);
        cells[count].text = strchr(cells[count].column, '=') + 1;
        cells[count].text[-1] = '\0';
    }
    return count;
}

/* What lies between the cells is nothing that a value may have. */
static void form(const struct report *r, char row[ROW_MAX], const char *format, va_list args)
{
    char apart[ROW_MAX];
    if (strncmp(format, "op=", 3) == 0)
        snprintf(apart, sizeof apart, "%s", format);
    else
        snprintf(apart, sizeof apart, "op=%s|%s", r->op, format);
    for (char *at = apart; (at = strchr(at, '|')) != NULL;)
        *at = *BETWEEN_CELLS;
    vsnprintf(row, ROW_MAX, apart, args);
}

void report_row(struct report *r, const char *format, ...)
{
    char row[ROW_MAX];
    struct cell cells[CELLS_MAX];
    va_list args;
    if (!r->active)
        return;
    va_start(args, format);
    form(r, row, format, args);
    va_end(args);
    const unsigned count = find_cells(row, cells);
    clear_progress(r);
    if (r->format != FORMAT_OSU) {
        if (!r->header_done)
            print_line(r, cells, count, true);
        r->header_done = true;
        print_line(r, cells, count, false);
    }
    if (!r->json)
        return;
    json_t *object = json_object();
    for (unsigned i = 0; i < count; i++)
        json_object_set_new(object, cells[i].column, cell_value(cells[i].text));
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
