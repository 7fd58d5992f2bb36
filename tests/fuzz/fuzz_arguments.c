/* SPDX-License-Identifier: BSD-3-Clause */
/* batonrun's command line, a word a line. */
#include "fuzz.h"

#include "batonrun/arguments.h"

#define WORDS_MAX 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *words[WORDS_MAX + 2] = {(char *)(uintptr_t) "batonrun"};
    struct arguments a;
    int n = 1;
    MUST(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; n < WORDS_MAX;) {
        char *end = strchr(at, '\n');
        words[n++] = at;
        if (end == NULL)
            break;
        *end = '\0';
        at = end + 1;
    }
    if (arguments_parse(n, words, &a) == 0) {
        uint64_t ranks = arguments_ranks(&a);
        MUST(a.help || a.version || a.check ||
             (ranks > 0 && ranks <= 2 * (uint64_t)LAYOUT_RANKS_MAX &&
              (a.placement.explain || (*a.program[0] && *a.program[1]))));
        MUST(a.num_exports <= ARGUMENTS_EXPORTS_MAX);
    } else {
        MUST(a.error[0] != '\0' && memchr(a.error, '\0', sizeof a.error) != NULL);
    }
    free(text);
    return 0;
}
