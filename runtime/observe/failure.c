/* SPDX-License-Identifier: BSD-3-Clause */
/* failure: see failure.h. */
#include "observe/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define TEXT_MAX 160

static const char *quotable(const char *text, char out[TEXT_MAX])
{
    snprintf(out, TEXT_MAX, "%s", text != NULL ? text : "");
    for (char *at = out; (at = strpbrk(at, "\"\\")) != NULL;)
        *at = '\'';
    return out;
}

static const char *or_none(const char *word)
{
    return word != NULL ? word : "-";
}

void failure_log(struct failure_log *f, const struct logger *l, uint64_t now_ns, const struct failure *what)
{
    char key[TEXT_MAX], detail[TEXT_MAX], unlogged[48] = "";
    if (now_ns - f->since_ns >= SECOND_NS) {
        f->since_ns = now_ns;
        f->lines = 0;
    }
    if (f->lines == FAILURE_LINES_A_SECOND) {
        f->unlogged++;
        return;
    }
    f->lines++;
    if (f->unlogged > 0)
        snprintf(unlogged, sizeof unlogged, " unlogged=%" PRIu64, f->unlogged);
    f->unlogged = 0;
    log_line(l, LOG_WARN, "failure what=%s reason=%s key=\"%s\" peer=%d leg=%s state=%s age_ms=%.1f detail=\"%s\"%s",
             what->what, what->reason, quotable(what->key, key), what->peer, or_none(what->leg), or_none(what->state),
             (double)what->age_ns / 1e6, quotable(what->detail, detail), unlogged);
}
