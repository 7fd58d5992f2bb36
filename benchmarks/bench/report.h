/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: prints the figures. A row is printed as soon as it is measured. By default that is a table, with the
 * conditions above it in lines that begin with '#'. With --format csv, standard output has only the header and the
 * rows, and with --format osu only two columns; the conditions go to standard error then. --json FILE keeps conditions
 * and whole rows. A terminal sees what is being measured. One rank reports; on all others every call does nothing.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/options.h"

struct report {
    bool active, header_done;
    const char *op;
    bool shows_progress, progress_stands; /* on a terminal; a line of it */
    uint64_t progress_ns;                 /* when it was written */
    enum bench_format format;
    const char *json_path;
    json_t *json; /* NULL: no file */
};

void report_open(struct report *r, const struct options *o, bool active);

/** One line about the conditions. */
void report_note(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Each line of a text as a note. */
void report_text(struct report *r, const char *text);

/**
 * A row: `format` is "column=%s|column=%.1f|…", and the same for all rows of a report. The first column is "op": the
 * name of the operation, unless the format begins with another one. A cell that reads as a number is one in the JSON
 * file.
 */
void report_row(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The two columns of --format osu; `value` is named by the first call. In other formats this does nothing. */
void report_osu(struct report *r, const char *value_name, uint64_t size, double value);

/** Tells a terminal what is measured and how much of it is done, a few times a second. */
void report_progress(struct report *r, const char *what, double share);

/** Writes the JSON file, if one was asked for. 0, or -1 with a line on standard error. */
int report_close(struct report *r);

#endif
