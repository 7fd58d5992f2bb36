/* SPDX-License-Identifier: BSD-3-Clause */
/* failure: see failure.h. */
#include "observe/failure.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 160

/* Cuts the middle out of a text that is too long: keys often differ in their last bytes alone. */
static const char *quotable(const char *text, char out[TEXT_MAX])
{
    const size_t length = text != NULL ? strlen(text) : 0;
    if (length < TEXT_MAX)
        snprintf(out, TEXT_MAX, "%s", length > 0 ? text : "");
    else
        snprintf(out, TEXT_MAX, "%.*s...%s", TEXT_MAX / 2, text, text + length - (TEXT_MAX / 2 - 4));
    for (char *at = out; (at = strpbrk(at, "\"\\")) != NULL;)
        *at = '\'';
    return out;
}

static const char *or_none(const char *word)
{
    return word != NULL ? word : "-";
}

void failure_log(const struct logger *l, const struct failure *what)
{
    char key[TEXT_MAX], detail[TEXT_MAX], peer[BATON_ENGINE_NAME_MAX + 16] = "-";
    if (what->peer_engine != NULL && what->peer_engine[0] != '\0')
        snprintf(peer, sizeof peer, "%s:%u", what->peer_engine, what->peer_rank);
    log_line_of(l, what->reason, LOG_WARN,
                "failure what=%s reason=%s key=\"%s\" peer=%s leg=%s state=%s age_ms=%.1f detail=\"%s\"", what->what,
                what->reason, quotable(what->key, key), peer, or_none(what->leg), or_none(what->state),
                (double)what->age_ns / 1e6, quotable(what->detail, detail));
}
