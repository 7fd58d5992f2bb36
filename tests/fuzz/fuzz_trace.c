/* SPDX-License-Identifier: BSD-3-Clause */
/* Trace files from anybody: one request a line, or a sentence that names the line and the field. */
#include "fuzz.h"

#include "replay/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace trace;
    struct why why = {{0}};
    struct trace_request r;
    char *exact = (char *)fuzz_copy(data, size);
    if (trace_parse(exact, size, 0, &r, &why) == 0)
        MUST(r.tokens <= TRACE_TOKENS_MAX);
    else
        MUST(why.text[0] != '\0');
    FILE *file = size > 0 ? fmemopen(exact, size, "r") : NULL;
    if (file != NULL) {
        if (trace_read(file, "f", 50, &trace, &why) == 0) {
            for (uint32_t i = 1; i < trace.count; i++)
                MUST(trace.requests[i].arrival_ms >= trace.requests[i - 1].arrival_ms);
            trace_fini(&trace);
        } else {
            MUST(strncmp(why.text, "f", 1) == 0);
        }
        fclose(file);
    }
    free(exact);
    return 0;
}
