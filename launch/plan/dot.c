/* SPDX-License-Identifier: BSD-3-Clause */
/* dot: see dot.h. */
#include "dot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "batonrun/child.h"

#define PATIENCE_S 60

static const char no_memory[] = "no memory for a picture";

void dot_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if (*text == '&') /* else the letters behind it may be an entity's */
            fputs("&amp;", out);
        else
            fputc(*text < 0x20 || *text > 0x7e ? '_' : *text, out);
}

void dot_head(FILE *out, const char *name)
{
    fprintf(out,
            "digraph %s {\n"
            "rankdir=LR;\nranksep=1.2;\nnodesep=0.15;\nfontname=sans;\nfontsize=10;\nlabeljust=l;\n"
            "node [shape=box, fontname=sans, fontsize=9, height=0.2, margin=\"0.06,0.03\"];\n"
            "edge [fontname=sans, fontsize=8, arrowsize=0.5];\n",
            name);
}

static int save(const char *option, const char *path, const char *bytes, size_t length, struct why *why)
{
    errno = 0;
    FILE *file = fopen(path, "w");
    bool whole = file != NULL && fwrite(bytes, 1, length, file) == length;
    if (file != NULL && fclose(file) != 0)
        whole = false;
    return whole ? 0 : why_set(why, "%s \"%.200s\": %s", option, path, strerror(errno));
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* 0; -1 with *why. */
static int run(FILE *graph, FILE *picture, unsigned patience_s, struct why *why)
{
    char *argv[] = {"dot", "-Tsvg", NULL};
    const struct child_way way = {.input = fileno(graph), .output = fileno(picture), .last_signal = SIGKILL};
    const uint64_t deadline = clock_now_ns() + patience_s * UINT64_C(1000000000);
    struct child dot;
    child_hold(&dot);
    const int error = child_start(&dot, argv, &way);
    while (error == 0 && !child_ended(&dot) && dot.asked == 0 && clock_now_ns() < deadline)
        child_wait(&dot, deadline);
    const bool has_ended = dot.has_ended;
    if (error == 0)
        child_clear(&dot, SIGKILL, 0);
    child_release(&dot);
    if (error == ENOENT)
        return why_set(why, "--svg needs Graphviz's program dot, which is not in PATH: install it, as by \"apt install "
                            "graphviz\", or take --dot");
    if (error != 0)
        return why_set(why, "--svg: dot cannot be run: %s", strerror(error));
    if (!has_ended)
        return why_set(why,
                       "--svg: dot had not drawn the picture after %u s: take --dot, and draw fewer ranks or with "
                       "another program",
                       patience_s);
    return dot.status == 0 ? 0 : why_set(why, "--svg: dot ended with status %d", dot.status);
}

/* Takes what `dot` has drawn to its place. */
static int take(const char *path, FILE *picture, struct why *why)
{
    static const char end[] = "</svg>\n";
    char *svg = NULL;
    size_t room = 0;
    rewind(picture);
    const ssize_t length = getdelim(&svg, &room, '\0', picture);
    const bool is_whole = length >= (ssize_t)strlen(end) && strcmp(svg + length - strlen(end), end) == 0;
    int rc = is_whole ? save("--svg", path, svg, (size_t)length, why)
                      : why_set(why, "--svg: what dot has written is no whole picture");
    free(svg);
    return rc;
}

/* Files between this process and `dot` have room for all, where pipes might make both wait. */
static int draw(const struct dot_files *files, const char *graph, size_t length, struct why *why)
{
    const unsigned patience_s = files->patience_s > 0 ? files->patience_s : PATIENCE_S;
    FILE *input = tmpfile(), *output = tmpfile();
    int rc = -1;
    if (input == NULL || output == NULL || fwrite(graph, 1, length, input) != length || fseek(input, 0, SEEK_SET) != 0)
        why_set(why, "--svg: no temporary file: %s", strerror(errno));
    else if (run(input, output, patience_s, why) == 0)
        rc = take(files->svg, output, why);
    if (input != NULL)
        fclose(input);
    if (output != NULL)
        fclose(output);
    return rc;
}

/* ---- a graph ----------------------------------------------------------------------------------------------------- */

int dot_begin(struct dot *d, struct why *why)
{
    *d = (struct dot){0};
    d->out = open_memstream(&d->text, &d->length);
    return d->out != NULL ? 0 : why_set(why, "%s", no_memory);
}

int dot_end(struct dot *d, const struct dot_files *files, int rc, struct why *why)
{
    if (fclose(d->out) != 0 && rc == 0)
        rc = why_set(why, "%s", no_memory);
    if (rc == 0 && files->dot != NULL)
        rc = save("--dot", files->dot, d->text, d->length, why);
    if (rc == 0 && files->svg != NULL)
        rc = draw(files, d->text, d->length, why);
    free(d->text);
    return rc;
}
