/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of a report from any host, among others: a report that is whole has as many members as its last line says. */
#include "fuzz.h"

#include "info/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line_reader r = {0};
    char *text = malloc(size + 1);
    MUST(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (line_rank(line) >= 0)
            line_take(&r, line);
    }
    MUST(r.info.num_facts + r.info.num_problems <= r.lines); /* a problem that is said twice is one */
    for (size_t k = 0; k < r.info.num_facts; k++)
        MUST(info_value(&r.info, r.info.facts[k].section, r.info.facts[k].name) != NULL);
    info_fini(&r.info);
    free(text);
    return 0;
}
