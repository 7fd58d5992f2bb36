/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels: the ways of copying runs. Streaming stores leave the cache alone and save the read of the line that is
 * overwritten. They need 16, 32 or 64 aligned bytes at the destination, so the bytes before and behind are copied
 * plainly.
 *
 * The hardware's own prefetching begins anew at each scattered run, and never begins in short ones. So LEAD_BYTES are
 * prefetched ahead of the copy: all of a short run, and the beginning of a long one, whose rest the hardware follows
 * better than instructions do.
 */
#include "shm/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE 64

/*
 * Measured on Zen 4 with 4 KiB pages, scattered blocks and one thread. Runs of 256 and 512 bytes: 7 and 4 GB/s by
 * memcpy with a lead of two runs, 11 and 8 by streaming stores with this lead. Runs of 4 KiB: 6.5 prefetched whole, 9
 * so; of 32 KiB: 11 and 12. Short runs lose a third if the lead is 32 KiB, or if it is fetched into L1.
 */
#define LEAD_BYTES 8192
#define LONG_BYTES 2048 /* the hardware follows runs of this length, */
#define BEGIN_BYTES 512 /* once this much of them was fetched */

/* Shorter runs gain nothing by streaming unless they are whole lines: their ends cost more than streaming saves. */
#define STREAM_LEAST 1024

#define RUNS_AT_HAND 128 /* of a slice: half of them are copied, then the rest moves up */

/* The bytes of a run that are prefetched. */
static uint64_t ahead_of(const struct plan_run *run)
{
    return run->bytes < LONG_BYTES ? run->bytes : BEGIN_BYTES;
}

/* Into L2. */
static void prefetch(const char *at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += LINE)
        __builtin_prefetch(at + i, 0, 2);
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

/* Copies by streaming stores, but for the bytes before the first whole line and behind the last one. */
static void stream(stream_body body, char *dst, const char *src, uint64_t bytes)
{
    uint64_t head = -(uintptr_t)dst % LINE;
    if (head > bytes)
        head = bytes;
    if (head > 0)
        memcpy(dst, src, head);
    uint64_t done = head + body(dst + head, src + head, bytes - head);
    if (done < bytes)
        memcpy(dst + done, src + done, bytes - done);
}

/* The function by which this kernel streams; NULL: it does not. Runs below *least are streamed only as whole lines. */
static stream_body body_of(enum copy_kernel kernel, uint64_t *least)
{
    *least = kernel == COPY_AUTO ? STREAM_LEAST : 0;
    if (kernel == COPY_MEMCPY)
        return NULL;
    if (kernel == COPY_STREAM_SSE2)
        return body_sse2;
    return kernel == COPY_STREAM_AVX2 && __builtin_cpu_supports("avx2") ? body_avx2 : best_body();
}

static void copy_one(stream_body body, uint64_t least, char *dst, const char *src, uint64_t bytes)
{
    if (body != NULL && (bytes >= least || (((uintptr_t)dst | bytes) % LINE == 0)))
        stream(body, dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

/* Orders streaming stores before what follows, which a release store does not. */
static void fence(void)
{
    _mm_sfence();
}

#else

typedef void *stream_body;

const char *copy_stream_name(void)
{
    return "none";
}

static stream_body body_of(enum copy_kernel kernel, uint64_t *least)
{
    (void)kernel;
    *least = 0;
    return NULL;
}

static void copy_one(stream_body body, uint64_t least, char *dst, const char *src, uint64_t bytes)
{
    (void)body;
    (void)least;
    memcpy(dst, src, bytes);
}

static void fence(void)
{
}

#endif

/* Runs at hand, and how far they are prefetched. */
struct walk {
    stream_body body;
    uint64_t least;
    const char *const *src_bases;
    char *const *dst_bases;
    uint32_t asked; /* runs prefetched, from the first at hand */
    uint64_t lead;  /* bytes prefetched and not copied yet */
};

/* Copies runs[0 .. n) of `at_hand`, and prefetches beyond them. */
static void walk_runs(struct walk *w, const struct plan_run *runs, uint32_t n, uint32_t at_hand)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_run *r = &runs[i];
        if (w->asked > i)
            w->lead -= ahead_of(r);
        else
            w->asked = i + 1; /* it is too late to prefetch this one */
        for (; w->lead < LEAD_BYTES && w->asked < at_hand; w->asked++) {
            const struct plan_run *next = &runs[w->asked];
            prefetch(w->src_bases[next->src_region] + next->src, ahead_of(next));
            w->lead += ahead_of(next);
        }
        copy_one(w->body, w->least, w->dst_bases[r->dst_region] + r->dst, w->src_bases[r->src_region] + r->src,
                 r->bytes);
    }
}

void copy_runs(enum copy_kernel kernel, const struct plan_run *runs, uint32_t n, const char *const *src_bases,
               char *const *dst_bases)
{
    struct walk w = {.src_bases = src_bases, .dst_bases = dst_bases};
    w.body = body_of(kernel, &w.least);
    walk_runs(&w, runs, n, n);
    fence();
}

int copy_slice(const struct plan_transfer *transfer, struct plan_cursor from, uint64_t bytes,
               const struct copy_side *src, const struct copy_side *dst)
{
    struct plan_run runs[RUNS_AT_HAND];
    struct walk w = {.src_bases = (const char *const *)src->bases, .dst_bases = dst->bases};
    uint32_t at_hand = 0;
    int rc = 0;
    w.body = body_of(COPY_AUTO, &w.least);
    for (;;) {
        uint32_t got = plan_next(transfer, &from, runs + at_hand, RUNS_AT_HAND - at_hand, bytes);
        rc = copy_holds(src, dst, runs + at_hand, got) ? 0 : BATON_EMESSAGE;
        for (uint32_t i = 0; i < got; i++)
            bytes -= runs[at_hand + i].bytes;
        at_hand += got;
        if (at_hand == 0 || rc != 0)
            break;
        uint32_t n = at_hand < RUNS_AT_HAND ? at_hand : RUNS_AT_HAND / 2;
        walk_runs(&w, runs, n, at_hand);
        w.asked -= n;
        at_hand -= n;
        memmove(runs, runs + n, at_hand * sizeof *runs);
    }
    fence();
    return rc;
}
