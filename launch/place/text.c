/* SPDX-License-Identifier: BSD-3-Clause */
/* text: see text.h. */
#include "place/text.h"

#include <stdlib.h>
#include <string.h>

int text_lines(const char *text, const char *of, text_take_fn take, void *arg, struct why *why)
{
    unsigned number = 1;
    for (const char *at = text; *at != '\0'; number++) {
        const size_t length = strcspn(at, "\n");
        struct why reason = {"no memory"};
        char *line = strndup(at, strcspn(at, "#\n"));
        const int rc = line != NULL ? take(arg, line, &reason) : -1;
        free(line);
        if (rc != 0)
            return why_set(why, "line %u%s: %.300s", number, of, reason.text);
        at += length + (at[length] == '\n');
    }
    return 0;
}
