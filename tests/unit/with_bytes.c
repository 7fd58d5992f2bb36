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

void bytes_assert_hex(const uint8_t *found, size_t n, const char *hex)
{
    size_t at = 0;
    int same = 1;
    for (const char *c = hex; *c != '\0';) {
        if (isspace((unsigned char)*c)) {
            c++;
            continue;
        }
        int byte = digit(c[0]) * 16 + digit(c[1]);
        same = same && at < n && found[at] == byte;
        at++;
        c += 2;
    }
    if (same && at == n) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        fprintf(stderr, "%02x%s", found[i], i % 32 == 31 || i + 1 == n ? "\n" : i % 4 == 3 ? " " : "");
    }
    fail_msg("%zu bytes found (above), %zu frozen, and they differ: this is a change of the format", n, at);
}
