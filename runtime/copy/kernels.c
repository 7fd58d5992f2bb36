/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels: the ways of copying runs. Streaming stores leave the cache alone and save the read of the line that is
 * overwritten; they need 16, 32 or 64 aligned bytes at the destination, so the bytes before and behind are copied
 * plainly. Two runs ahead of the copy the next ones are prefetched, since scattered blocks defeat the hardware's own
 * prefetching at each run's beginning.
 */
#include "copy/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE 64
#define AHEAD_RUNS 2
#define AHEAD_BYTES 4096 /* of a run that are prefetched: the hardware follows a stream from there */

/* Shorter runs gain nothing by streaming: the partial lines at their ends cost more than is saved. */
#define STREAM_LEAST 1024

static void prefetch(const char *at, uint64_t bytes)
{
    uint64_t n = bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES;
    for (uint64_t i = 0; i < n; i += LINE)
        __builtin_prefetch(at + i, 0, 0);
}

#if defined(__x86_64__)

typedef uint64_t (*stream_body)(char *dst, const char *src, uint64_t bytes);

/* Each copies whole 64-byte lines to an aligned destination and returns the bytes copied. */
__attribute__((target("avx512f"))) static uint64_t body_avx512(char *dst, const char *src, uint64_t bytes)
{
    uint64_t i = 0;
    for (; i + 4 * LINE <= bytes; i += 4 * LINE) {
        __m512i a = _mm512_loadu_si512(src + i), b = _mm512_loadu_si512(src + i + LINE);
        __m512i c = _mm512_loadu_si512(src + i + 2 * LINE), d = _mm512_loadu_si512(src + i + 3 * LINE);
        _mm512_stream_si512((void *)(dst + i), a);
        _mm512_stream_si512((void *)(dst + i + LINE), b);
        _mm512_stream_si512((void *)(dst + i + 2 * LINE), c);
        _mm512_stream_si512((void *)(dst + i + 3 * LINE), d);
    }
    for (; i + LINE <= bytes; i += LINE)
        _mm512_stream_si512((void *)(dst + i), _mm512_loadu_si512(src + i));
    return i;
}

__attribute__((target("avx2"))) static uint64_t body_avx2(char *dst, const char *src, uint64_t bytes)
{
    uint64_t i = 0;
    for (; i + LINE <= bytes; i += LINE) {
        __m256i a = _mm256_loadu_si256((const void *)(src + i)), b = _mm256_loadu_si256((const void *)(src + i + 32));
        _mm256_stream_si256((void *)(dst + i), a);
        _mm256_stream_si256((void *)(dst + i + 32), b);
    }
    return i;
}

static uint64_t body_sse2(char *dst, const char *src, uint64_t bytes)
{
    uint64_t i = 0;
    for (; i + LINE <= bytes; i += LINE)
        for (unsigned k = 0; k < LINE; k += 16)
            _mm_stream_si128((void *)(dst + i + k), _mm_loadu_si128((const void *)(src + i + k)));
    return i;
}

static stream_body best_body(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return body_avx512;
    return __builtin_cpu_supports("avx2") ? body_avx2 : body_sse2;
}

const char *copy_stream_name(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return "avx512";
    return __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
}

static void stream(stream_body body, char *dst, const char *src, uint64_t bytes)
{
    uint64_t head = (LINE - (uintptr_t)dst % LINE) % LINE;
    if (head > bytes)
        head = bytes;
    memcpy(dst, src, head);
    uint64_t done = head + body(dst + head, src + head, bytes - head);
    memcpy(dst + done, src + done, bytes - done);
}

#else

const char *copy_stream_name(void)
{
    return "none";
}

#endif

void copy_runs(enum copy_kernel kernel, const struct plan_run *runs, uint32_t n, const char *const *src_bases,
               char *const *dst_bases)
{
#if defined(__x86_64__)
    stream_body body = kernel == COPY_MEMCPY ? NULL : best_body();
    uint64_t least = kernel == COPY_STREAM ? 0 : STREAM_LEAST;
    bool streamed = false;
#else
    (void)kernel;
#endif
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_run *r = &runs[i];
        if (i + AHEAD_RUNS < n)
            prefetch(src_bases[runs[i + AHEAD_RUNS].src_region] + runs[i + AHEAD_RUNS].src, runs[i + AHEAD_RUNS].bytes);
        const char *src = src_bases[r->src_region] + r->src;
        char *dst = dst_bases[r->dst_region] + r->dst;
#if defined(__x86_64__)
        if (body != NULL && r->bytes >= least) {
            stream(body, dst, src, r->bytes);
            streamed = true;
            continue;
        }
#endif
        memcpy(dst, src, r->bytes);
    }
#if defined(__x86_64__)
    if (streamed) /* a release store does not order streaming stores: this does */
        _mm_sfence();
#endif
}
