/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmetrics: see openmetrics.h. A histogram's bounds are the tops of buckets of ours, one an octave, so its counts
 * are exact: the bucket that begins at 4096 bytes ends at 4351. Series that have never counted anything are left out,
 * but for the statistics. The two forms differ in the lines about a family alone; "# EOF" is a comment in the old one.
 */
#include "metrics/openmetrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "baton.h"

#define NS_OCTAVE_FIRST 10 /* 1 us */
#define BYTES_OCTAVE_FIRST 9
#define BYTES_OCTAVE_LAST 33 /* 8 GiB */
#define LABELS_BYTES 512

struct world {
    struct pages_rank *const *ranks;
    uint32_t num;
    enum openmetrics_form form;
    FILE *out;
};

enum type { COUNTER, GAUGE, SECONDS, SECONDS_GAUGE };

/* Of a family, and what the old form makes of it: there, its name is that of its samples, and infos are gauges. */
struct kind {
    const char *name, *suffix, *old_name;
};

static const struct kind a_counter = {"counter", "_total", "counter"}, a_gauge = {"gauge", "", "gauge"},
                         an_info = {"info", "_info", "gauge"}, a_histogram = {"histogram", "", "histogram"};

const char *openmetrics_path(unsigned path)
{
    static const char *const names[METRICS_PATHS] = {"none", "shm", "rma", "cma", "staged"};
    return path < METRICS_PATHS ? names[path] : "none";
}

/* ---- parts of a line --------------------------------------------------------------------------------------------- */

static void head(const struct world *w, const char *family, const struct kind *kind, const char *unit, const char *help)
{
    const bool is_old = w->form == OPENMETRICS_FILE;
    const char *suffix = is_old ? kind->suffix : "";
    fprintf(w->out, "# TYPE baton_%s%s %s\n", family, suffix, is_old ? kind->old_name : kind->name);
    if (unit[0] != '\0' && !is_old)
        fprintf(w->out, "# UNIT baton_%s %s\n", family, unit);
    fprintf(w->out, "# HELP baton_%s%s %s\n", family, suffix, help);
}

#define ESCAPED_BYTES 256 /* of a name of an engine or a host */

/* What another process wrote, as a label's value: it may hold anything. */
static const char *escaped(const char *text, char out[ESCAPED_BYTES])
{
    size_t n = 0;
    for (; *text != '\0' && n + 2 < ESCAPED_BYTES; text++) {
        if (*text == '\\' || *text == '"')
            out[n++] = '\\';
        out[n++] = *text;
    }
    out[n] = '\0';
    return out;
}

#define SECONDS_TEXT "%" PRIu64 ".%09" PRIu64
#define SECONDS_OF(ns) (ns) / UINT64_C(1000000000), (ns) % UINT64_C(1000000000)

/*
 * The name, the labels of the rank, and the value. What belongs to one sample alone is in `more`, already escaped.
 * `is_ns`: the value is in nanoseconds, and is told in seconds.
 */
static void sample(const struct world *w, const struct pages_rank *r, const char *family, const char *suffix,
                   const char *more, uint64_t value, bool is_ns)
{
    char engine[ESCAPED_BYTES], host[ESCAPED_BYTES];
    fprintf(w->out, "baton_%s%s{rank=\"%" PRIu32 "\",engine=\"%s\",host=\"%s\",run=\"%s\"", family, suffix, r->number,
            escaped(r->view.body.engine, engine), escaped(r->view.body.host, host), r->job);
    if (r->context > 0)
        fprintf(w->out, ",context=\"%" PRIu32 "\"", r->context);
    fprintf(w->out, "%s%s} ", more[0] != '\0' ? "," : "", more);
    if (is_ns)
        fprintf(w->out, SECONDS_TEXT "\n", SECONDS_OF(value));
    else
        fprintf(w->out, "%" PRIu64 "\n", value);
}

/* Labels whose values need no escaping, or are escaped already. */
static const char *labels(char text[LABELS_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *labels(char text[LABELS_BYTES], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, LABELS_BYTES, format, args);
    va_end(args);
    return text;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

struct stat_row {
    const char *family, *labels, *help;
    enum type type;
};

static const struct stat_row stat_rows[METRICS_STATS] = {
#define ROW(field, type, family, labels, help) {family, labels, help, type},
    METRICS_STATS_MAP(ROW)
#undef ROW
};

static void print_stats(const struct world *w)
{
    for (unsigned first = 0, end; first < METRICS_STATS; first = end) {
        const struct stat_row *row = &stat_rows[first];
        const bool is_ns = row->type == SECONDS || row->type == SECONDS_GAUGE;
        const struct kind *kind = row->type == COUNTER || row->type == SECONDS ? &a_counter : &a_gauge;
        for (end = first + 1; end < METRICS_STATS && strcmp(stat_rows[end].family, row->family) == 0; end++)
            continue;
        head(w, row->family, kind, is_ns ? "seconds" : "", row->help);
        for (uint32_t r = 0; r < w->num; r++)
            for (unsigned i = first; i < end; i++)
                sample(w, w->ranks[r], row->family, kind->suffix, stat_rows[i].labels, w->ranks[r]->view.body.stats[i],
                       is_ns);
    }
}

/* ---- who and how it is ------------------------------------------------------------------------------------------- */

static const struct {
    const char *family;
    const struct kind *kind;
    const char *unit, *help;
} rank_rows[] = {
    {"up", &a_gauge, "", "1 while the rank's context is open and its process is alive."},
    {"closed", &a_gauge, "", "1 once the rank has closed its context."},
    {"stalled", &a_gauge, "", "1 while the rank is stuck inside MPI (the tunable stall_ms)."},
    {"stalls", &a_counter, "", "Times that the rank was stuck inside MPI."},
    {"started_timestamp_seconds", &a_gauge, "seconds", "When the rank started."},
    {"renewed_timestamp_seconds", &a_gauge, "seconds",
     "When the rank last told something: a rank to which nothing happens does not."},
};

/* Of such a row, of a rank. */
static uint64_t rank_value(const struct metrics_view *v, unsigned row)
{
    const struct metrics_body *b = &v->body;
    const uint64_t values[] = {v->is_alive && !b->is_closed,
                               b->is_closed != 0,
                               v->is_alive && v->stalled_ns != 0,
                               b->stalls,
                               b->began_ns,
                               b->renewed_ns};
    return values[row];
}

static void print_ranks(const struct world *w)
{
    char text[LABELS_BYTES];
    head(w, "rank", &an_info, "",
         "The ranks of the job: the index and the life of each in its engine, and its version of Baton.");
    for (uint32_t r = 0; r < w->num; r++) {
        const char *version = w->ranks[r]->view.body.version;
        const int length = (int)strspn(version, "0123456789.abcdefghijklmnopqrstuvwxyz-");
        sample(w, w->ranks[r], "rank", "_info",
               labels(text, "index=\"%" PRIu64 "\",life=\"%016" PRIx64 "\",version=\"%.*s\"",
                      w->ranks[r]->view.body.index, w->ranks[r]->view.body.life, length, version),
               1, false);
    }
    for (unsigned i = 0; i < sizeof rank_rows / sizeof rank_rows[0]; i++) {
        head(w, rank_rows[i].family, rank_rows[i].kind, rank_rows[i].unit, rank_rows[i].help);
        for (uint32_t r = 0; r < w->num; r++)
            sample(w, w->ranks[r], rank_rows[i].family, rank_rows[i].kind->suffix, "",
                   rank_value(&w->ranks[r]->view, i), rank_rows[i].unit[0] != '\0');
    }
}

/* ---- by path, by reason, by peer --------------------------------------------------------------------------------- */

/* `field`: where a rank's numbers by path are. */
static void print_by_path(const struct world *w, const char *family, const struct kind *kind, size_t field)
{
    char text[LABELS_BYTES];
    for (uint32_t r = 0; r < w->num; r++) {
        const uint64_t *values = (const void *)((const char *)&w->ranks[r]->view.body + field);
        for (unsigned i = 0; i < METRICS_PATHS; i++)
            if (values[i] > 0)
                sample(w, w->ranks[r], family, kind->suffix, labels(text, "path=\"%s\"", openmetrics_path(i)),
                       values[i], false);
    }
}

#define UNKNOWN "BATON_UNKNOWN"

static const char *reason_name(unsigned i)
{
    return i > 0 ? baton_errname(-(int)i) : UNKNOWN;
}

static bool is_unknown(unsigned i)
{
    return strcmp(reason_name(i), UNKNOWN) == 0;
}

/* How many failures have reason i. What a later version counts, this one does not know: reason 0 has all of these. */
static uint64_t reason_count(const uint64_t reasons[BATON_REASONS], unsigned i)
{
    uint64_t sum = 0;
    for (unsigned other = 0; other < BATON_REASONS; other++)
        if (other == i ? i == 0 || !is_unknown(i) : i == 0 && is_unknown(other))
            sum += reasons[other];
    return sum;
}

static void print_reasons(const struct world *w)
{
    char text[LABELS_BYTES];
    head(w, "failures", &a_counter, "", "Calls that failed, by reason.");
    for (uint32_t r = 0; r < w->num; r++)
        for (unsigned i = 0; i < BATON_REASONS; i++)
            if (reason_count(w->ranks[r]->view.body.reasons, i) > 0)
                sample(w, w->ranks[r], "failures", "_total", labels(text, "reason=\"%s\"", reason_name(i)),
                       reason_count(w->ranks[r]->view.body.reasons, i), false);
}

/* Rows in use, and the one that all further engines share, if it is. */
static bool has_row(const struct metrics_body *b, unsigned i)
{
    if (i < METRICS_PEERS)
        return i < b->num_peers;
    const struct metrics_peer *others = &b->peer[METRICS_PEERS];
    bool is_used = others->transfer_ns.count > 0;
    for (unsigned reason = 0; reason < BATON_REASONS; reason++)
        is_used |= others->failures[reason] > 0;
    return is_used;
}

static void print_moved(const struct world *w, const char *family, size_t field)
{
    static const char *const ways[METRICS_DIRECTIONS] = {"in", "out"};
    char text[LABELS_BYTES], name[ESCAPED_BYTES];
    for (uint32_t r = 0; r < w->num; r++)
        for (unsigned p = 0; p <= METRICS_PEERS; p++)
            for (unsigned i = 0; i < METRICS_PATHS * METRICS_DIRECTIONS; i++) {
                const struct metrics_peer *peer = &w->ranks[r]->view.body.peer[p];
                const unsigned path = i / METRICS_DIRECTIONS, way = i % METRICS_DIRECTIONS;
                if (!has_row(&w->ranks[r]->view.body, p) || peer->transfers[path][way] == 0)
                    continue;
                sample(w, w->ranks[r], family, "_total",
                       labels(text, "peer=\"%s\",path=\"%s\",direction=\"%s\"", escaped(peer->engine, name),
                              openmetrics_path(path), ways[way]),
                       *(const uint64_t *)(const void *)((const char *)peer + field + i * sizeof(uint64_t)), false);
            }
}

static void print_peer_failures(const struct world *w)
{
    char text[LABELS_BYTES], name[ESCAPED_BYTES];
    head(w, "peer_failures", &a_counter, "", "Calls that failed at a rank of that engine.");
    for (uint32_t r = 0; r < w->num; r++)
        for (unsigned p = 0; p <= METRICS_PEERS; p++)
            for (unsigned i = 0; i < BATON_REASONS; i++) {
                const struct metrics_peer *peer = &w->ranks[r]->view.body.peer[p];
                if (!has_row(&w->ranks[r]->view.body, p) || reason_count(peer->failures, i) == 0)
                    continue;
                sample(w, w->ranks[r], "peer_failures", "_total",
                       labels(text, "peer=\"%s\",reason=\"%s\"", escaped(peer->engine, name), reason_name(i)),
                       reason_count(peer->failures, i), false);
            }
}

/* ---- histograms -------------------------------------------------------------------------------------------------- */

/* What a histogram's values are. */
struct scale {
    unsigned first, last; /* octaves */
    bool is_time;
};

static const struct scale of_time = {NS_OCTAVE_FIRST, OPENMETRICS_NS_OCTAVE_LAST, true};
static const struct scale of_bytes = {BYTES_OCTAVE_FIRST, BYTES_OCTAVE_LAST, false};

static void print_histogram(const struct world *w, const struct pages_rank *r, const char *family, const char *own,
                            const struct scale *scale, const struct histogram *h)
{
    char text[LABELS_BYTES];
    const uint64_t count = histogram_up_to(h, UINT64_MAX);
    if (count == 0)
        return;
    for (unsigned octave = scale->first; octave <= scale->last; octave++) {
        const uint64_t top = histogram_top(UINT64_C(1) << octave);
        sample(w, r, family, "_bucket",
               scale->is_time ? labels(text, "%s,le=\"" SECONDS_TEXT "\"", own, SECONDS_OF(top))
                              : labels(text, "%s,le=\"%" PRIu64 ".0\"", own, top),
               histogram_up_to(h, top), false);
    }
    sample(w, r, family, "_bucket", labels(text, "%s,le=\"+Inf\"", own), count, false);
    sample(w, r, family, "_count", own, count, false);
    sample(w, r, family, "_sum", own, h->sum, scale->is_time);
}

static void print_histograms_by_path(const struct world *w)
{
    static const struct {
        const char *family, *help;
        size_t field;
        const struct scale *scale;
    } kinds[] = {
        {"want_duration_seconds", "From baton_want to the event of wants that were done, by the path of most bytes.",
         offsetof(struct metrics_path, want_ns), &of_time},
        {"transfer_duration_seconds",
         "From the grant to the last byte of a transfer between two ranks, with its waits for layers and chunks.",
         offsetof(struct metrics_path, transfer_ns), &of_time},
        {"transfer_size_bytes", "Bytes of a transfer between two ranks.", offsetof(struct metrics_path, transfer_bytes),
         &of_bytes},
    };
    char own[64];
    for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        head(w, kinds[k].family, &a_histogram, kinds[k].scale->is_time ? "seconds" : "bytes", kinds[k].help);
        for (uint32_t r = 0; r < w->num; r++)
            for (unsigned i = 0; i < METRICS_PATHS; i++) {
                const char *path = (const char *)&w->ranks[r]->view.body.path[i];
                snprintf(own, sizeof own, "path=\"%s\"", openmetrics_path(i));
                print_histogram(w, w->ranks[r], kinds[k].family, own, kinds[k].scale,
                                (const struct histogram *)(const void *)(path + kinds[k].field));
            }
    }
}

static void print_histograms_by_peer(const struct world *w)
{
    char own[LABELS_BYTES], name[ESCAPED_BYTES];
    head(w, "peer_transfer_duration_seconds", &a_histogram, "seconds",
         "From the grant to the last byte of a transfer with a rank of that engine.");
    for (uint32_t r = 0; r < w->num; r++)
        for (unsigned p = 0; p <= METRICS_PEERS; p++) {
            const struct metrics_peer *peer = &w->ranks[r]->view.body.peer[p];
            if (has_row(&w->ranks[r]->view.body, p))
                print_histogram(w, w->ranks[r], "peer_transfer_duration_seconds",
                                labels(own, "peer=\"%s\"", escaped(peer->engine, name)), &of_time, &peer->transfer_ns);
        }
}

void openmetrics_print(struct pages_rank *const *ranks, uint32_t num, enum openmetrics_form form, FILE *out)
{
    const struct world w = {ranks, num, form, out};
    print_ranks(&w);
    print_stats(&w);
    head(&w, "received_bytes", &a_counter, "bytes", "Bytes of wants that were done.");
    print_by_path(&w, "received_bytes", &a_counter, offsetof(struct metrics_body, received));
    head(&w, "ranks_by_path", &a_gauge, "", "Ranks of the world by the path to them.");
    print_by_path(&w, "ranks_by_path", &a_gauge, offsetof(struct metrics_body, peers));
    print_reasons(&w);
    head(&w, "moved_bytes", &a_counter, "bytes", "Bytes of transfers that are complete: read here, or written there.");
    print_moved(&w, "moved_bytes", offsetof(struct metrics_peer, bytes));
    head(&w, "transfers", &a_counter, "", "Transfers between two ranks that are complete.");
    print_moved(&w, "transfers", offsetof(struct metrics_peer, transfers));
    print_peer_failures(&w);
    print_histograms_by_path(&w);
    print_histograms_by_peer(&w);
    fputs("# EOF\n", out);
}
