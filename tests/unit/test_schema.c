/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_schema: what the schema makes, against tables that are written by hand: the least and the most of each field,
 * and the rules about two fields. A change of the schema that other builds would not understand fails here, or in
 * test_frozen, which has the bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "with_messages.h"
#include "with_recognisable.h"

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

#define IN(name) WIRE_SENT_IN(WIRE_##name)

/* Numbers instead of names such as BATON_KEY_MAX: the bounds of other builds do not change with a name. */
static const struct bound {
    uint64_t types; /* all that have the field */
    const char *field;
    uint64_t least, most;
} bounds[] = {
    {IN(WANT), "name", 1, 255},
    {IN(WANT), "mode", 1, 2},
    {IN(WANT), "asks", 0, UINT32_MAX},
    {IN(WANT), "time_left_ms", 1, UINT32_MAX},
    {IN(WANT), "tokens", 1, UINT32_MAX},
    {IN(WANT), "readers", 1, 1024},
    {IN(WANT), "slot", 0, UINT32_MAX},
    {IN(WANT), "table_entries", 1, UINT32_MAX},
    {IN(WANT), "generation", 1, UINT64_MAX},
    {IN(WANT), "table_offset", 0, UINT64_MAX},
    {IN(WANT), "held", 0, UINT32_MAX - 1}, /* less than the tokens */
    {IN(GRANT), "asks", 0, UINT32_MAX},
    {IN(GRANT), "slot", 0, UINT32_MAX},
    {IN(GRANT), "table_entries", 0, UINT32_MAX},
    {IN(GRANT), "offered_tokens", 1, UINT32_MAX},
    {IN(GRANT), "generation", 1, UINT64_MAX},
    {IN(GRANT), "table_offset", 0, UINT64_MAX},
    {IN(GRANT), "partial", 0, 1},
    {IN(GRANT), "attach", 0, 256},
    {IN(GRANT), "table", 0, 1632},
    {IN(READY), "generation", 1, UINT64_MAX},
    {IN(READY), "tokens_done", 0, UINT32_MAX},
    {IN(READY), "tokens_next", 0, UINT32_MAX},
    {IN(READY), "layer_end", 0, UINT32_MAX},
    {IN(READY), "table_entries", 0, UINT32_MAX},
    {IN(READY), "table_offset", 0, UINT64_MAX},
    {IN(NACK), "asks", 0, UINT32_MAX},
    {IN(NACK), "error", (uint64_t)INT32_MIN, (uint64_t)-1},
    {IN(NACK), "detail", 0, 95},
    {IN(NACK), "generation", 0, UINT64_MAX},
    {IN(DONE) | IN(CANCEL) | IN(RELEASE), "name", 1, 255},
    {IN(DONE) | IN(RELEASE), "error", (uint64_t)INT32_MIN, 0},
    {IN(CANCEL), "error", (uint64_t)INT32_MIN, (uint64_t)-1},
    {IN(DONE) | IN(CANCEL), "generation", 0, UINT64_MAX},
    {IN(RELEASE), "time_left_ms", 0, UINT32_MAX},
    {IN(CLOSED), "quiet", 1, 2},
    {IN(WRITTEN), "asks", 0, UINT32_MAX},
    {IN(WRITTEN), "error", (uint64_t)INT32_MIN, 0},
    {IN(WRITTEN), "bytes", 0, UINT64_MAX},
    {IN(WRITTEN), "detail", 0, 95},
    {IN(WRITTEN), "generation", 1, UINT64_MAX},
    {IN(WRITTEN), "path", 1, 7},
    {IN(WRITTEN), "attach", 0, 256},
    {IN(BEAT), "ask", 0, 1},
    {IN(REPORT) | IN(VERDICT) | IN(ASK) | IN(STANDING), "name", 1, 255},
    {IN(REPORT) | IN(VERDICT) | IN(ASK) | IN(STANDING), "verb", 1, 2},
    {IN(REPORT) | IN(VERDICT) | IN(ASK) | IN(STANDING), "producer", 0, UINT64_MAX},
    {IN(REPORT) | IN(VERDICT), "status", 1, 4},
    {IN(REPORT) | IN(VERDICT), "error", (uint64_t)INT32_MIN, 0},
    {IN(VERDICT), "member", 0, UINT64_MAX},
    {IN(REPORT) | IN(VERDICT) | IN(STANDING), "detail", 0, 95},
    {IN(REPORT), "again", 0, 1},
    {IN(CHECK), "name", 1, 255},
    {IN(CHECK), "tokens", 1, UINT32_MAX},
    {IN(CHECK), "held", 0, UINT32_MAX - 1}, /* less than the tokens */
    {IN(SUMS), "error", (uint64_t)INT32_MIN, 0},
    {IN(SUMS), "first", 0, UINT32_MAX},
    {IN(SUMS), "hashes", 0, 192},
    {IN(ENDED), "wants", 1, 192},
    {IN(INQUIRY) | IN(WITNESS), "member", 1, UINT64_MAX},
    {IN(LEAVE), "member", 0, UINT64_MAX},
    {IN(WITNESS), "alive", 1, 3},
};

static const struct bound *bound_of(enum wire_type type, const char *field)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if ((bounds[i].types & WIRE_SENT_IN(type)) != 0 && strcmp(bounds[i].field, field) == 0)
            return &bounds[i];
    return NULL;
}

/* Makes the other fields agree with one that was set, as the rules about two fields want it. */
static void agree(struct wire_message *m, const char *field)
{
    switch (m->type) {
    case WIRE_WANT:
        if (strcmp(field, "held") == 0)
            m->want.tokens = UINT32_MAX;
        else
            m->want.held = 0;
        break;
    case WIRE_CHECK:
        if (strcmp(field, "held") == 0)
            m->check.tokens = UINT32_MAX;
        else
            m->check.held = 0;
        break;
    case WIRE_READY:
        if (strcmp(field, "tokens_done") == 0)
            m->ready.tokens_next = UINT32_MAX;
        else
            m->ready.tokens_done = 0;
        break;
    case WIRE_REPORT:
    case WIRE_VERDICT:
        if (strcmp(field, "error") == 0)
            m->verdict.status = m->verdict.error == 0 ? BATON_STATUS_DONE : BATON_STATUS_FAILED;
        else
            m->verdict.error = m->verdict.status == BATON_STATUS_DONE ? 0 : BATON_EGONE;
        break;
    case WIRE_SUMS:
        if (strcmp(field, "error") == 0)
            m->sums.hashes.num = m->sums.error == 0;
        else
            m->sums.error = m->sums.hashes.num == 0 ? BATON_EGONE : 0;
        break;
    default:
        break;
    }
}

static bool is_accepted(const struct wire_message *m, struct wire_message *got, uint8_t bytes[WIRE_MESSAGE_MAX])
{
    int rc = wire_decode(bytes, wire_encode(m, bytes), got);
    assert_true(rc == 0 || rc == BATON_EMESSAGE);
    return rc == 0;
}

static void try_value(enum wire_type type, const struct wire_field *f, uint64_t value, bool good)
{
    struct wire_message m = recognisable(type), got;
    uint8_t bytes[WIRE_MESSAGE_MAX];
    field_set(f, &m, value);
    agree(&m, f->name);
    bool accepted = is_accepted(&m, &got, bytes);
    if (accepted != good || (accepted && !field_is_same(f, &m, &got)))
        fail_msg("%s: a %s of %lld is %s", wire_type_name(type), f->name, (long long)value,
                 !accepted ? "refused"
                 : good    ? "another when it is read"
                           : "accepted");
}

/* The values at the ends of what the field may be, and those just outside, where the field's kind has such values. */
static void try_bound(enum wire_type type, const struct wire_field *f, const struct bound *b)
{
    static const uint64_t tops[] = {
        [WIRE_KIND_U8] = UINT8_MAX,    [WIRE_KIND_U32] = UINT32_MAX, [WIRE_KIND_U64] = UINT64_MAX,
        [WIRE_KIND_I32] = INT32_MAX,   [WIRE_KIND_FLAG] = 1,         [WIRE_KIND_LIST] = UINT32_MAX,
        [WIRE_KIND_BYTES] = UINT16_MAX};
    bool fixed = f->kind == WIRE_KIND_TEXT || f->kind == WIRE_KIND_NAME || f->kind == WIRE_KIND_BITS;
    try_value(type, f, b->least, true);
    try_value(type, f, b->most, true);
    if (b->least != (f->kind == WIRE_KIND_I32 ? (uint64_t)INT32_MIN : 0))
        try_value(type, f, b->least - 1, false);
    if (!fixed && b->most != tops[f->kind]) /* the struct has no room for a longer one of a fixed size */
        try_value(type, f, b->most + 1, false);
}

static void each_field_has_the_bounds_of_the_table(void **state)
{
    (void)state;
    int sent = 0, in_table = 0;
    for (enum wire_type type = WIRE_WANT; type <= WIRE_TYPE_LAST; type++) {
        struct wire_message m = recognisable(type);
        const struct wire_field *f;
        for (uint32_t num = wire_fields(type, &f); num > 0; num--, f++) {
            if (!wire_field_is_sent(f, &m, WIRE_VERSION))
                continue;
            const struct bound *b = bound_of(type, f->name);
            if (b == NULL)
                fail_msg("%s: the table has no row for %s", wire_type_name(type), f->name);
            try_bound(type, f, b);
            sent++;
        }
    }
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        in_table += __builtin_popcountll(bounds[i].types);
    assert_int_equal(sent, in_table);
}

/* ---- rules about two fields -------------------------------------------------------------------------------------- */

#define WITH(type_, change, good)                                                                                      \
    do {                                                                                                               \
        struct wire_message m = recognisable(WIRE_##type_), got;                                                       \
        uint8_t bytes[WIRE_MESSAGE_MAX];                                                                               \
        change;                                                                                                        \
        if (is_accepted(&m, &got, bytes) != (good))                                                                    \
            fail_msg("%s with %s is %s", #type_, #change, (good) ? "refused" : "accepted");                            \
    } while (0)
#define ACCEPTED(type, change) WITH(type, change, true)
#define REFUSED(type, change) WITH(type, change, false)

static void each_rule_about_two_fields_is_enforced(void **state)
{
    (void)state;
    ACCEPTED(WANT, m.want.held = m.want.tokens - 1);
    REFUSED(WANT, m.want.held = m.want.tokens);
    ACCEPTED(GRANT, m.grant.table_entries = 0);
    ACCEPTED(GRANT, m.grant.partial = false);
    REFUSED(GRANT, (m.grant.table_entries = 0, m.grant.partial = false));
    ACCEPTED(READY, m.ready.tokens_done = m.ready.tokens_next);
    REFUSED(READY, m.ready.tokens_done = m.ready.tokens_next + 1);
    ACCEPTED(DONE, m.end.error = 0);
    REFUSED(CANCEL, m.end.error = 0);
    ACCEPTED(CHECK, m.check.held = m.check.tokens - 1);
    REFUSED(CHECK, m.check.held = m.check.tokens);
    ACCEPTED(SUMS, (m.sums.error = BATON_EGONE, m.sums.hashes.num = 0));
    REFUSED(SUMS, m.sums.error = BATON_EGONE);
    REFUSED(SUMS, m.sums.hashes.num = 0);
}

static void each_rule_of_a_verdict_is_enforced(void **state)
{
    (void)state;
    REFUSED(REPORT, m.want_id = 0);
    ACCEPTED(VERDICT, m.want_id = 0);
    ACCEPTED(REPORT, (m.verdict.status = BATON_STATUS_DONE, m.verdict.error = 0));
    REFUSED(REPORT, m.verdict.status = BATON_STATUS_DONE);
    REFUSED(REPORT, m.verdict.error = 0);
    ACCEPTED(VERDICT, (m.verdict.status = BATON_STATUS_DONE, m.verdict.error = 0));
    REFUSED(VERDICT, m.verdict.status = BATON_STATUS_DONE);
    REFUSED(VERDICT, m.verdict.error = 0);
}

static void each_rule_of_a_subject_is_enforced(void **state)
{
    (void)state;
    REFUSED(INQUIRY, m.subject.member = 0);
    REFUSED(WITNESS, m.subject.member = 0);
    ACCEPTED(LEAVE, m.subject.member = 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_has_the_bounds_of_the_table),
        cmocka_unit_test(each_rule_about_two_fields_is_enforced),
        cmocka_unit_test(each_rule_of_a_verdict_is_enforced),
        cmocka_unit_test(each_rule_of_a_subject_is_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
