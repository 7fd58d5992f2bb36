/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmetrics: whether the text on standard input is OpenMetrics, or with the word "file" the older form; else the exit
 * status is 1, and it says why.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/with_openmetrics.h"

int main(int argc, char **argv)
{
    static char text[1 << 24];
    char why[256];
    size_t n = fread(text, 1, sizeof text - 1, stdin);
    text[n] = '\0';
    if (openmetrics_is_good(text, argc > 1 && strcmp(argv[1], "file") == 0, why, sizeof why))
        return 0;
    puts(why);
    return 1;
}
