/* SPDX-License-Identifier: BSD-3-Clause */
/* timeline_text: see timeline_text.h. Numbers are put by hand: printf would take most of the writer's time. */
#include "observe/timeline_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "baton.h"

#define MESSAGE_NS 100   /* how long a message is drawn */
#define TIDS_A_RANK 128u /* numbers of threads: no two ranks have the same */
#define BATCH_TRACK (UINT64_C(1) << 63)

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static char *put(char *at, const char *text)
{
    size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}

static char *put_number(char *at, uint64_t n)
{
    char digits[20];
    size_t i = sizeof digits;
    do
        digits[--i] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    memcpy(at, digits + i, sizeof digits - i);
    return at + sizeof digits - i;
}

static char *put_hex(char *at, uint64_t n)
{
    int shift = 60;
    at = put(at, "\"0x");
    while (shift > 0 && (n >> shift) == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[(n >> shift) & 15];
    *at++ = '"';
    return at;
}

/* Microseconds, as the format has it, to the nanosecond. */
static char *put_time(char *at, uint64_t ns)
{
    at = put_number(at, ns / 1000);
    *at++ = '.';
    *at++ = (char)('0' + ns / 100 % 10);
    *at++ = (char)('0' + ns / 10 % 10);
    *at++ = (char)('0' + ns % 10);
    return at;
}

/* Escapes every byte that is no printable ASCII: keys may hold any bytes. */
static char *put_text(char *at, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    *at++ = '"';
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f) {
            at = put(at, "\\u00");
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        } else {
            if (c == '"' || c == '\\')
                *at++ = '\\';
            *at++ = (char)c;
        }
    }
    *at++ = '"';
    return at;
}

static char *put_field(char *at, const char *name, uint64_t n)
{
    return put_number(put(at, name), n);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* An event up to its arguments, which put_end closes. `cat`, `name`: literals of this file or of Baton's tables. */
static char *put_event(char *at, const struct timeline_text *text, char phase, uint64_t ns, const char *cat,
                       const char *name)
{
    at = put_time(put(at, "{\"ts\":"), ns);
    at = put_field(at, ",\"pid\":", text->rank + UINT64_C(1));
    at = put(at, ",\"ph\":\"");
    *at++ = phase;
    at = put(put(at, "\",\"cat\":\""), cat);
    at = put(put(at, "\",\"name\":\""), name);
    *at++ = '"';
    return at;
}

static char *put_end(char *at)
{
    return put(at, "}},\n");
}

/* An event on a track of its own, up to the first of its arguments. */
static char *put_track(char *at, const struct timeline_text *text, char phase, uint64_t ns, const char *cat,
                       const char *name, uint64_t id)
{
    at = put_event(at, text, phase, ns, cat, name);
    at = put_hex(put(at, ",\"id2\":{\"local\":"), id);
    return put(at, "},\"args\":{");
}

/* An event on a thread. On that of the turns each begins where the former one has ended, or later. */
static char *put_slice(char *at, struct timeline_text *text, unsigned worker, uint64_t ns, uint64_t until_ns,
                       const char *cat, const char *name)
{
    if (worker == 0 && ns < text->edge_ns)
        ns = text->edge_ns;
    if (until_ns <= ns)
        until_ns = ns + 1;
    if (worker == 0)
        text->edge_ns = until_ns;
    at = put_event(at, text, 'X', ns, cat, name);
    at = put_time(put(at, ",\"dur\":"), until_ns - ns);
    return put_field(at, ",\"tid\":", (text->rank + UINT64_C(1)) * TIDS_A_RANK + worker);
}

static char *put_call(char *at, const struct timeline_text *text, const struct timeline_record *r)
{
    const char *name = r->kind == TIMELINE_WANT ? "want" : "offer";
    at = put_track(at, text, 'b', r->ns, name, name, r->id);
    at = put_field(at, "\"moment\":\"queued\",\"id\":", r->id);
    return put_end(put_text(put(at, ",\"key\":"), r->key));
}

static char *put_report(char *at, const struct timeline_text *text, const struct timeline_record *r)
{
    bool is_given_up = r->name[0] == 'g';
    at = put_track(at, text, is_given_up ? 'n' : 'e', r->ns, r->name, r->name, r->id);
    at = put_field(at, is_given_up ? "\"id\":" : "\"moment\":\"reported\",\"id\":", r->id);
    at = put(put(at, ",\"status\":\""), baton_status_name((baton_status_t)r->what));
    at = put(put(at, "\",\"error\":\""), r->error != 0 ? baton_errname(r->error) : "");
    return put_end(put_field(at, "\",\"bytes\":", r->bytes));
}

static char *put_message(char *at, struct timeline_text *text, const struct timeline_record *r)
{
    bool is_sent = r->kind == TIMELINE_SENT;
    at = put_slice(at, text, 0, r->ns, r->ns + MESSAGE_NS, "message", r->name);
    at = put_hex(put(at, ",\"bind_id\":"), r->id);
    at = put_field(at,
                   is_sent ? ",\"flow_out\":true,\"args\":{\"to\":" : ",\"flow_in\":true,\"args\":{\"from\":", r->peer);
    return put_end(put_field(at, ",\"want\":", r->want));
}

static char *put_match(char *at, const struct timeline_text *text, const struct timeline_record *r)
{
    bool by_words = (r->what & TIMELINE_BY_WORDS) != 0;
    at = put_track(at, text, 'n', r->ns, by_words ? "want" : "offer", "matched", r->id);
    at = put(put(at, "\"moment\":\"matched\",\"by\":"), by_words ? "\"words\"" : "\"message\"");
    return put_end(put_field(put_field(at, ",\"want\":", r->want), ",\"peer\":", r->peer));
}

static const char *direction(const struct timeline_record *r)
{
    return (r->what & TIMELINE_WRITES) != 0 ? "push" : "pull";
}

static char *put_leg(char *at, const struct timeline_text *text, const struct timeline_record *r)
{
    switch ((enum timeline_kind)r->kind) {
    case TIMELINE_LEASED:
        at = put_track(at, text, 'b', r->ns, "leg", direction(r), r->id);
        at = put_field(put(at, "\"moment\":\"leased\""), ",\"want\":", r->want);
        return put_end(put_field(at, ",\"peer\":", r->peer));
    case TIMELINE_FIRST:
        return put_end(put(put_track(at, text, 'b', r->ns, "leg", "bytes", r->id), "\"moment\":\"first byte\""));
    case TIMELINE_LAST:
        if (r->bytes == 0) /* there was no first one */
            return at;
        at = put_track(at, text, 'e', r->ns, "leg", "bytes", r->id);
        return put_end(put_field(at, "\"moment\":\"last byte\",\"bytes\":", r->bytes));
    case TIMELINE_FENCED:
        return put_end(put(put_track(at, text, 'e', r->ns, "leg", direction(r), r->id), "\"moment\":\"fenced\""));
    default:
        if ((r->what & TIMELINE_MOVES) != 0)
            at = put_end(put_track(at, text, 'e', r->ns, "leg", "bytes", r->id));
        return put_end(put(put_track(at, text, 'e', r->ns, "leg", direction(r), r->id), "\"moment\":\"stopped\""));
    }
}

static char *put_copy(char *at, struct timeline_text *text, const struct timeline_record *r)
{
    at = put_slice(at, text, r->what, r->ns, r->until_ns, "copy", r->name);
    at = put_hex(put(at, ",\"args\":{\"leg\":"), r->id);
    return put_end(put_field(at, ",\"bytes\":", r->bytes));
}

static char *put_batch(char *at, struct timeline_text *text, const struct timeline_record *r)
{
    uint64_t track = BATCH_TRACK | ++text->batches;
    at = put_hex(put(put_track(at, text, 'b', r->ns, "batch", "batch", track), "\"leg\":"), r->id);
    at = put_field(put_field(at, ",\"bytes\":", r->bytes), ",\"runs\":", r->runs);
    at = put_end(put_field(at, ",\"peer\":", r->peer));
    return put_end(put_track(at, text, 'e', r->until_ns, "batch", "batch", track));
}

/* A label of the process. */
static char *put_life(char *at, const struct timeline_text *text, const struct timeline_record *r)
{
    char label[32];
    snprintf(label, sizeof label, "life %016" PRIx64, r->id);
    at = put_field(put(at, "{\"ph\":\"M\""), ",\"pid\":", text->rank + UINT64_C(1));
    return put_end(put_text(put(at, ",\"name\":\"process_labels\",\"args\":{\"labels\":"), label));
}

size_t timeline_text_record(struct timeline_text *text, const struct timeline_record *r, char *out)
{
    switch ((enum timeline_kind)r->kind) {
    case TIMELINE_WANT:
    case TIMELINE_OFFER:
        return (size_t)(put_call(out, text, r) - out);
    case TIMELINE_REPORTED:
        return (size_t)(put_report(out, text, r) - out);
    case TIMELINE_SENT:
    case TIMELINE_HEARD:
        return (size_t)(put_message(out, text, r) - out);
    case TIMELINE_MATCHED:
        return (size_t)(put_match(out, text, r) - out);
    case TIMELINE_COPY:
        return (size_t)(put_copy(out, text, r) - out);
    case TIMELINE_BATCH:
        return (size_t)(put_batch(out, text, r) - out);
    case TIMELINE_LEASED:
    case TIMELINE_FIRST:
    case TIMELINE_LAST:
    case TIMELINE_FENCED:
    case TIMELINE_STOPPED:
        return (size_t)(put_leg(out, text, r) - out);
    case TIMELINE_LIFE:
        return (size_t)(put_life(out, text, r) - out);
    }
    return 0;
}

/* ---- the first lines and the last -------------------------------------------------------------------------------- */

static char *put_name(char *at, uint32_t rank, unsigned worker, const char *what, const char *name)
{
    at = put_field(put(at, "{\"ph\":\"M\""), ",\"pid\":", rank + UINT64_C(1));
    at = put_field(at, ",\"tid\":", (rank + UINT64_C(1)) * TIDS_A_RANK + worker);
    at = put(put(put(at, ",\"name\":\""), what), "\",\"args\":{\"name\":");
    return put_end(put_text(at, name));
}

size_t timeline_text_begin(const struct timeline_wish *wish, const char *boot, uint64_t ns, uint64_t realtime_ns,
                           char *out)
{
    char name[BATON_ENGINE_NAME_MAX + 96];
    uint32_t rank = wish->rank;
    snprintf(name, sizeof name, "rank %" PRIu32 " %s:%" PRIu32, rank, wish->engine, wish->index);
    char *at = put_name(put(out, "[\n"), rank, 0, "process_name", name);
    at = put_field(put(at, "{\"ph\":\"M\""), ",\"pid\":", rank + UINT64_C(1));
    at = put_field(at, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":", rank);
    at = put_name(put_end(at), rank, 0, "thread_name", "turns");
    for (unsigned i = 1; i <= wish->workers && i < TIDS_A_RANK; i++) {
        snprintf(name, sizeof name, "copy worker %u", i);
        at = put_name(at, rank, i, "thread_name", name);
    }
    at = put_field(put(at, "{\"ph\":\"M\""), ",\"pid\":", rank + UINT64_C(1));
    at = put_field(at, ",\"name\":\"baton_clock\",\"args\":{\"version\":1,\"rank\":", rank);
    at = put_text(put(at, ",\"host\":"), wish->host);
    at = put_text(put(at, ",\"boot\":"), boot);
    at = put_field(put_field(at, ",\"ns\":", ns), ",\"realtime_ns\":", realtime_ns);
    return (size_t)(put_end(at) - out);
}

size_t timeline_text_dropped(const struct timeline_text *text, uint64_t ns, uint64_t dropped, bool more, char *out)
{
    /* Where none were, viewers show nothing: it is metadata. */
    char *at = put_event(out, text, dropped > 0 ? 'i' : 'M', ns, "timeline", "records left out");
    at = put_field(put(at, ",\"s\":\"p\",\"args\":{"), "\"dropped\":", dropped);
    return (size_t)(put(at, more ? "}},\n" : "}}\n]\n") - out);
}
