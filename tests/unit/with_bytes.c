/* SPDX-License-Identifier: BSD-3-Clause */
/* with_bytes: see with_bytes.h. */
#include "with_bytes.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

uint8_t *bytes_copy(const void *in, size_t n)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) {
        memcpy(copy, in, n);
    }
    return copy;
}

uint64_t bytes_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void bytes_fill(uint64_t *state, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint8_t)bytes_random(state);
    }
}

void bytes_store(uint8_t *out, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

size_t bytes_of_hex(const char *hex, uint8_t *out)
{
    size_t n = 0;
    while (*hex != '\0') {
        if (isspace((unsigned char)*hex)) {
            hex++;
            continue;
        }
        out[n++] = (uint8_t)(digit(hex[0]) * 16 + digit(hex[1]));
        hex += 2;
    }
    return n;
}

void bytes_assert_hex(const uint8_t *found, size_t n, const char *hex)
{
    uint8_t *frozen = bytes_copy(hex, strlen(hex));
    size_t at = bytes_of_hex(hex, frozen);
    int same = at == n && memcmp(found, frozen, n) == 0;
    free(frozen);
    if (same) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        fprintf(stderr, "%02x%s", found[i], i % 32 == 31 || i + 1 == n ? "\n" : i % 4 == 3 ? " " : "");
    }
    fail_msg("%zu bytes found (above), %zu frozen, and they differ: this is a change of the format", n, at);
}
