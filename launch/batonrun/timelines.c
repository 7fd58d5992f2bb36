/* SPDX-License-Identifier: BSD-3-Clause */
/* timelines: see timelines.h. Files are read line by line, twice: for the clocks, then for what is written. */
#include "batonrun/timelines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/lockfile.h"
#include "batonrun/clocks.h"

#define LINE_BYTES 4096u           /* no line of a rank's is longer */
#define ARROWS_MAX (1u << 20)      /* that wait for their other end */
#define NS_MAX 1000000000000000000 /* of a clock's: 31 years */
#define BOOT_BYTES 64
#define TIME_AT "{\"ts\":"

/* The boot of a machine, since which its clock counts. */
struct machine {
    char boot[BOOT_BYTES];
    int64_t calendar_ns; /* the calendar clock less that clock */
    struct clock_place place;
    int64_t shift_ns; /* from its clock to the first machine's */
};

/* One end of a message, whose other end has not been met. */
struct arrow {
    UT_hash_handle hh;
    uint64_t id;
    uint32_t machine;
    bool is_begin;
    int64_t ns;
};

/* What is known of a rank's file. */
struct source {
    bool is_here;
    uint32_t machine;
};

struct timelines {
    const char *file;
    uid_t owner; /* of the file, and so of those that ranks made beside it */
    uint32_t ranks;
    struct source *sources; /* by rank */
    struct machine *machines;
    uint32_t num_machines;
    struct arrow *arrows;
    uint64_t num_arrows;
    struct timelines_result result;
};

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void name_of(const char *file, uint32_t rank, char name[TIMELINES_PATH_BYTES + 16])
{
    snprintf(name, TIMELINES_PATH_BYTES + 16, "%s.%" PRIu32, file, rank);
}

int timelines_pattern(const char *file, char pattern[TIMELINES_PATH_BYTES])
{
    char folder[TIMELINES_PATH_BYTES / 2] = "";
    bool is_absolute = file[0] == '/';
    if (strstr(file, "%r") != NULL || file[0] == '\0')
        return EINVAL;
    if (!is_absolute && getcwd(folder, sizeof folder) == NULL)
        return errno;
    int n = snprintf(pattern, TIMELINES_PATH_BYTES, "%s%s%s.%%r", folder, is_absolute ? "" : "/", file);
    return n >= TIMELINES_PATH_BYTES ? ENAMETOOLONG : 0;
}

int timelines_begin(const char *file, uint32_t ranks, struct why *why)
{
    char name[TIMELINES_PATH_BYTES + 16];
    struct stat there;
    int fd = lockfile_make_anyway(file);
    if (fd < 0)
        return why_set(why, "the timeline %.300s cannot be made: %s", file,
                       errno == EEXIST ? lockfile_why(file) : strerror(errno));
    close(fd);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        name_of(file, rank, name);
        if (!lockfile_remove(name) && lstat(name, &there) == 0)
            return why_set(why, "%.300s, an older timeline, cannot be removed: %s", name, lockfile_why(name));
    }
    return 0;
}

/*
 * A rank's file; NULL: there is none. Where other users may make files, a name that no rank took may be a link of
 * theirs, or a pipe that would be waited for.
 */
static FILE *open_source(const struct timelines *t, uint32_t rank)
{
    char name[TIMELINES_PATH_BYTES + 16];
    struct stat there;
    name_of(t->file, rank, name);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    bool is_good = fstat(fd, &there) == 0 && S_ISREG(there.st_mode) && there.st_uid == t->owner;
    FILE *in = is_good ? fdopen(fd, "r") : NULL;
    if (in == NULL)
        close(fd);
    return in;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

enum line_kind { LINE_NONE, LINE_EVENT, LINE_END, LINE_BAD };

/*
 * Takes the next line, without the comma behind it; *n: its bytes. A line that the end of the file cuts off is none:
 * its rank was killed as it wrote.
 */
static enum line_kind take_line(FILE *in, char line[LINE_BYTES], size_t *n)
{
    bool is_bad = false;
    int c;
    *n = 0;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        is_bad |= c == '\0' || *n + 1 == LINE_BYTES;
        if (!is_bad)
            line[(*n)++] = (char)c;
    }
    line[*n] = '\0';
    if (is_bad || c == EOF)
        return is_bad ? LINE_BAD : LINE_NONE;
    if (*n > 0 && line[*n - 1] == ',')
        line[--*n] = '\0';
    return strcmp(line, "]") == 0 ? LINE_END : LINE_EVENT;
}

/* The time at the beginning of an event's line, to the nanosecond. *end: what follows it there. */
static int64_t time_of(const char *line, const char **end)
{
    char *at;
    uint64_t us = strtoull(line + strlen(TIME_AT), &at, 10), unit = 100;
    int64_t ns = us < NS_MAX / 1000 ? (int64_t)us * 1000 : NS_MAX;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10)
            ns += (int64_t)((uint64_t)(*at - '0') * unit);
    *end = at;
    return ns;
}

/* The event of a line of that rank; NULL: it is none. Free it. */
static json_t *parse(const char *line, size_t n, uint32_t rank)
{
    json_t *event = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *pid = json_object_get(event, "pid");
    const char *phase = json_string_value(json_object_get(event, "ph")), *end;
    bool is_good = json_is_integer(pid) && json_integer_value(pid) == (json_int_t)rank + 1 && phase != NULL &&
                   phase[0] != '\0' && phase[1] == '\0' && strchr("MXbeni", phase[0]) != NULL;
    if (is_good && phase[0] != 'M')
        is_good = strncmp(line, TIME_AT, strlen(TIME_AT)) == 0 && line[strlen(TIME_AT)] >= '0' &&
                  line[strlen(TIME_AT)] <= '9' && time_of(line, &end) < NS_MAX && *end == ',';
    if (is_good)
        return event;
    json_decref(event);
    return NULL;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

/* The machine of a boot; a boot that is not known is a machine of its own. 0 where there is no room. */
static uint32_t machine_of(struct timelines *t, const char *boot, int64_t calendar_ns)
{
    for (uint32_t i = 0; i < t->num_machines && boot[0] != '\0'; i++)
        if (strcmp(t->machines[i].boot, boot) == 0)
            return i;
    if (t->num_machines == CLOCKS_MAX)
        return 0;
    struct machine *m = &t->machines[t->num_machines];
    snprintf(m->boot, sizeof m->boot, "%s", boot);
    m->calendar_ns = calendar_ns;
    return t->num_machines++;
}

/* The line that says which clock a rank's times are of. */
static void take_clock(struct timelines *t, uint32_t rank, const json_t *event)
{
    const json_t *args = json_object_get(event, "args");
    const char *boot = json_string_value(json_object_get(args, "boot"));
    int64_t ns = json_integer_value(json_object_get(args, "ns"));
    int64_t realtime_ns = json_integer_value(json_object_get(args, "realtime_ns"));
    bool is_good = ns >= 0 && ns < NS_MAX && realtime_ns >= 0 && realtime_ns < INT64_MAX / 2;
    if (boot != NULL && is_good)
        t->sources[rank].machine = machine_of(t, boot, realtime_ns - ns);
}

/* By the calendar clocks alone; a difference that makes no sense counts as none. */
static int64_t calendar_shift(const struct timelines *t, uint32_t machine)
{
    int64_t shift = t->machines[machine].calendar_ns - t->machines[0].calendar_ns;
    return shift > -NS_MAX && shift < NS_MAX ? shift : 0;
}

/* One end of a message between two machines. With the other end it says something of their clocks. */
static void take_arrow(struct timelines *t, struct clocks *clocks, uint32_t rank, const char *line, const json_t *event)
{
    const char *text = json_string_value(json_object_get(event, "bind_id")), *end;
    bool is_begin = json_is_true(json_object_get(event, "flow_out"));
    const json_t *args = json_object_get(event, "args");
    const json_t *peer = json_object_get(args, is_begin ? "to" : "from");
    uint32_t machine = t->sources[rank].machine;
    if (text == NULL || !json_is_integer(peer) || (uint64_t)json_integer_value(peer) >= t->ranks ||
        t->sources[json_integer_value(peer)].machine == machine)
        return;
    uint64_t id = strtoull(text, NULL, 16);
    int64_t ns = time_of(line, &end) + calendar_shift(t, machine);
    struct arrow *other;
    HASH_FIND(hh, t->arrows, &id, sizeof id, other);
    if (other != NULL && other->is_begin != is_begin) {
        if (is_begin)
            clocks_message(clocks, machine, other->machine, other->ns - ns);
        else
            clocks_message(clocks, other->machine, machine, ns - other->ns);
        HASH_DEL(t->arrows, other);
        t->num_arrows--;
        free(other);
    } else if (other == NULL && t->num_arrows < ARROWS_MAX && (other = calloc(1, sizeof *other)) != NULL) {
        *other = (struct arrow){.id = id, .machine = machine, .is_begin = is_begin, .ns = ns};
        HASH_ADD(hh, t->arrows, id, sizeof other->id, other);
        if (other->hh.tbl == NULL)
            free(other);
        else
            t->num_arrows++;
    }
}

static void arrows_free(struct timelines *t)
{
    struct arrow *a, *next;
    HASH_ITER(hh, t->arrows, a, next)
    {
        HASH_DEL(t->arrows, a);
        free(a);
    }
}

/* Looks at the lines of a rank that have this word in them: for the clock, or (with `clocks`) for messages. */
static void look(struct timelines *t, uint32_t rank, const char *word, struct clocks *clocks)
{
    char line[LINE_BYTES];
    enum line_kind kind;
    size_t n;
    FILE *in = open_source(t, rank);
    t->sources[rank].is_here = in != NULL;
    if (in == NULL)
        return;
    while ((kind = take_line(in, line, &n)) != LINE_NONE) {
        json_t *event = kind == LINE_EVENT && strstr(line, word) != NULL ? parse(line, n, rank) : NULL;
        if (event != NULL && clocks != NULL)
            take_arrow(t, clocks, rank, line, event);
        else if (event != NULL)
            take_clock(t, rank, event);
        json_decref(event);
        if (event != NULL && clocks == NULL) /* it is among the first lines */
            break;
    }
    fclose(in);
}

/* False: no memory. */
static bool find_clocks(struct timelines *t)
{
    struct clocks clocks;
    struct clock_place places[CLOCKS_MAX];
    for (uint32_t rank = 0; rank < t->ranks; rank++)
        look(t, rank, "\"baton_clock\"", NULL);
    if (!clocks_init(&clocks, t->num_machines))
        return false;
    for (uint32_t rank = 0; rank < t->ranks && t->num_machines > 1; rank++)
        if (t->sources[rank].is_here)
            look(t, rank, "\"bind_id\"", &clocks);
    clocks_place(&clocks, places);
    for (uint32_t i = 0; i < t->num_machines; i++) {
        t->machines[i].shift_ns = calendar_shift(t, i) - places[i].ahead_ns;
        t->result.unsure += !places[i].is_known;
        if (places[i].is_known && (uint64_t)places[i].within_ns > t->result.within_ns)
            t->result.within_ns = (uint64_t)places[i].within_ns;
    }
    t->result.machines = t->num_machines;
    clocks_fini(&clocks);
    arrows_free(t);
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_line(const struct timelines *t, uint32_t rank, const char *line, FILE *out)
{
    int64_t shift = t->num_machines > 0 ? t->machines[t->sources[rank].machine].shift_ns : 0;
    const char *rest = line;
    if (strncmp(line, TIME_AT, strlen(TIME_AT)) == 0) {
        int64_t ns = time_of(line, &rest) + shift;
        ns = ns > 0 ? ns : 0;
        fprintf(out, TIME_AT "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    }
    fprintf(out, "%s,\n", rest);
}

static void count(uint32_t *num, uint32_t *first, uint32_t rank)
{
    if ((*num)++ == 0)
        *first = rank;
}

static void copy(struct timelines *t, uint32_t rank, FILE *out)
{
    char line[LINE_BYTES];
    enum line_kind kind;
    uint64_t bad = 0;
    bool has_ended = false;
    size_t n;
    FILE *in = open_source(t, rank);
    if (in == NULL) {
        count(&t->result.missing, &t->result.first_missing, rank);
        return;
    }
    while ((kind = take_line(in, line, &n)) != LINE_NONE) {
        json_t *event = kind == LINE_EVENT && strcmp(line, "[") != 0 ? parse(line, n, rank) : NULL;
        if (event != NULL)
            write_line(t, rank, line, out);
        t->result.events += event != NULL;
        has_ended |= kind == LINE_END;
        bad += event == NULL && (kind == LINE_BAD || (kind == LINE_EVENT && strcmp(line, "[") != 0));
        json_decref(event);
    }
    fclose(in);
    if (!has_ended)
        count(&t->result.unfinished, &t->result.first_unfinished, rank);
    t->result.bad_lines += bad;
    t->sources[rank].is_here = bad == 0; /* nobody needs it any more */
}

static int write_all(struct timelines *t, FILE *out)
{
    fputs("[\n", out);
    for (uint32_t rank = 0; rank < t->ranks; rank++)
        copy(t, rank, out);
    fputs("{\"ph\":\"M\",\"pid\":0,\"name\":\"baton_job\",\"args\":{", out);
    fprintf(out, "\"ranks\":%" PRIu32 ",\"machines\":%" PRIu32 ",\"machines_by_calendar\":%" PRIu32, t->ranks,
            t->result.machines, t->result.unsure);
    fprintf(out, ",\"others_within_ns\":%" PRIu64 "}}\n]\n", t->result.within_ns);
    bool is_written = fflush(out) == 0 && ferror(out) == 0;
    return is_written ? 0 : errno;
}

/* The file, empty, of which no other process knows yet. NULL with errno. */
static FILE *make_file(struct timelines *t)
{
    struct stat made;
    int fd = lockfile_make_anyway(t->file);
    FILE *out = fd >= 0 && fstat(fd, &made) == 0 ? fdopen(fd, "w") : NULL;
    if (out != NULL)
        t->owner = made.st_uid;
    else if (fd >= 0)
        close(fd);
    return out;
}

static int make_one(struct timelines *t)
{
    FILE *out = make_file(t);
    if (out == NULL)
        return errno;
    int error = find_clocks(t) ? write_all(t, out) : ENOMEM;
    if (fclose(out) != 0 && error == 0)
        error = errno;
    return error;
}

struct timelines_result timelines_end(const char *file, uint32_t ranks)
{
    char name[TIMELINES_PATH_BYTES + 16];
    struct timelines t = {.file = file, .ranks = ranks};
    t.sources = calloc(ranks > 0 ? ranks : 1, sizeof *t.sources);
    t.machines = calloc(CLOCKS_MAX, sizeof *t.machines);
    t.result.error = t.sources != NULL && t.machines != NULL ? make_one(&t) : ENOMEM;
    for (uint32_t rank = 0; t.result.error == 0 && rank < ranks; rank++) {
        name_of(file, rank, name);
        if (t.sources[rank].is_here)
            unlink(name);
    }
    free(t.sources);
    free(t.machines);
    return t.result;
}
