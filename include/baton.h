/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton.h: move KV-cache blocks between the prefill and decode ranks of a disaggregated LLM engine, over MPI.
 *
 * THE IDEA. Each rank of one MPI world belongs to an engine (one model replica: tp x pp ranks that hold one KV cache
 * between them) and declares one cache: memory cut into blocks, described by strides. Two verbs move bytes:
 *
 *   baton_offer   a producer promises to keep the blocks of a request readable for a while
 *   baton_want    a consumer demands the blocks of that request, into blocks of its own
 *
 * They meet by request key, in either order. Which ranks exchange which bytes follows from the two caches' geometries.
 * Every accepted call ends in exactly one event, read by baton_poll.
 *
 * LIFE OF A CONTEXT. baton_open, baton_cache_create, baton_start are collective over the communicator, in this order;
 * baton_close too. Between start and close every call is local and returns at once.
 *
 * ERRORS. Functions return 0 (or a count) or a negative BATON_E... number. Outputs are written only on success.
 * baton_strerror names a number; baton_errmsg gives the sentence that belongs to the last error of the calling thread.
 * What cannot be returned is an event. From collective calls every rank gets the same error.
 *
 * THREADS. With BATON_PROGRESS_THREAD (the default where MPI gives MPI_THREAD_MULTIPLE) one thread of Baton's own, the
 * reactor, makes all of Baton's MPI calls after start; baton_offer, baton_want, baton_cancel, baton_poll, baton_pending
 * and baton_stats may then be called by any threads at once. With BATON_PROGRESS_CALLER no thread is made for MPI: one
 * thread calls baton_progress often, and it must be the thread that MPI's own level allows. Per function, "any thread"
 * below means this rule. open, cache_create, start and close are called by one thread, not concurrently with others.
 *
 * UNITS. Bytes, tokens, nanoseconds and milliseconds, named in the identifier where the type cannot say it. Only
 * relative times are used: no clock is compared between ranks.
 *
 * BATON_NO_MPI leaves out the one declaration that needs <mpi.h> (baton_open), for code that only uses the types.
 */
#ifndef BATON_H
#define BATON_H

#include <stddef.h>
#include <stdint.h>
#ifndef BATON_NO_MPI
#include <mpi.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BATON_API __attribute__((visibility("default")))
#else
#define BATON_API
#endif

/* ---- version ---------------------------------------------------------------------------------------------------- */

#define BATON_VERSION_MAJOR 0
#define BATON_VERSION_MINOR 1
#define BATON_VERSION_PATCH 0
#define BATON_VERSION_STRING "0.1.0"

/** The version of the library that runs, as "major.minor.patch". Any thread, any time. */
BATON_API const char *baton_version(void);

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* X(name, number, message). Numbers never change their meaning. */
#define BATON_ERRNO_MAP(X)                                                                                             \
    X(EINVAL, -1, "invalid argument")                                                                                  \
    X(EAGAIN, -2, "a limit is reached; call again after events were read")                                             \
    X(ENOMEM, -3, "out of memory")                                                                                     \
    X(ENOSYS, -4, "not supported by this version")                                                                     \
    X(ESTATE, -5, "called in the wrong state")                                                                         \
    X(ESETTING, -6, "a setting in the environment has a bad value")                                                    \
    X(EENGINE, -7, "no engine of that name in this world")                                                             \
    X(EGEOMETRY, -8, "the two caches do not match")                                                                    \
    X(EBLOCK, -9, "a block id lies outside the cache")                                                                 \
    X(ETOKENS, -10, "more tokens than the blocks hold or the offer has")                                               \
    X(EKEY, -11, "a request key must have 1 to 63 bytes")                                                              \
    X(EEXIST, -12, "a call with that key is still open on this rank")                                                  \
    X(EGONE, -13, "the offer has ended")                                                                               \
    X(ESTALE, -14, "the lease's generation changed, or could not be read again: the bytes are not those offered")      \
    X(ETIMEDOUT, -15, "the deadline passed")                                                                           \
    X(ECANCELED, -16, "cancelled")                                                                                     \
    X(EPEER, -17, "a peer is lost or does not answer")                                                                 \
    X(ETHREAD, -18, "MPI gives less thread support than asked for")                                                    \
    X(EWINDOW, -19, "an MPI window could not be created")                                                              \
    X(ESHM, -20, "too little shared memory")                                                                           \
    X(EMPI, -21, "an MPI call failed")                                                                                 \
    X(EMESSAGE, -22, "a malformed or unexpected message, card or table arrived")                                       \
    X(ESEAT, -23, "every seat of the offer is taken by another engine")                                                \
    X(ESOURCE, -24, "no rank of the engine holds a part that is wanted")                                               \
    X(ECLOSED, -25, "the context is closing")                                                                          \
    X(ESYSTEM, -26, "an operating system call failed")                                                                 \
    X(EBUSY, -27, "the peer is at its limit")                                                                          \
    X(ESTALL, -28, "the reactor is stuck inside MPI")                                                                  \
    X(ECHECKSUM, -29, "the bytes that arrived are not those that were offered")

enum baton_errno {
    BATON_OK = 0,
#define BATON_ERRNO_ENUM(name, number, message) BATON_##name = number,
    BATON_ERRNO_MAP(BATON_ERRNO_ENUM)
#undef BATON_ERRNO_ENUM
};

/** The fixed message of an error number ("unknown error" for any other). Any thread. Never NULL, never freed. */
BATON_API const char *baton_strerror(int error);

/** The name of an error number, "BATON_EINVAL" say. Any thread. Never NULL, never freed. */
BATON_API const char *baton_errname(int error);

/**
 * What went wrong, and what to do, in one sentence: of the last call of this thread that returned an error. Empty
 * before any. The text stays until this thread's next call that fails.
 */
BATON_API const char *baton_errmsg(void);

/* ---- the context ------------------------------------------------------------------------------------------------ */

/** One rank's part of one Baton world. Several contexts may live in one process. */
typedef struct baton baton_t;

/** A label for placement and reports. The protocol knows producer and consumer per transfer, nothing else. */
typedef enum baton_role { BATON_ROLE_PREFILL = 1, BATON_ROLE_DECODE = 2, BATON_ROLE_BOTH = 3 } baton_role_t;

typedef enum baton_progress_mode {
    BATON_PROGRESS_AUTO = 0,   /**< thread with MPI_THREAD_MULTIPLE, caller below it */
    BATON_PROGRESS_THREAD = 1, /**< the reactor thread; BATON_ETHREAD below MPI_THREAD_MULTIPLE */
    BATON_PROGRESS_CALLER = 2  /**< the caller lends its thread through baton_progress */
} baton_progress_mode_t;

#define BATON_ENGINE_NAME_MAX 32 /* bytes of an engine's name, NUL included */
#define BATON_ENGINE_RANKS_MAX 1024

/**
 * Who of an engine hears how a request ended for the engine as a whole (BATON_EVENT_VERDICT): nobody, every rank, or the
 * engine's first one. All ranks of the engine must say the same.
 */
typedef enum baton_verdicts {
    BATON_VERDICTS_NONE = 0,
    BATON_VERDICTS_ALL = 1,
    BATON_VERDICTS_LEADER = 2
} baton_verdicts_t;

/** Who this rank is. Zero it, then fill it; or let baton_role_from_env fill it. */
typedef struct baton_open_params {
    char engine[BATON_ENGINE_NAME_MAX]; /**< the engine's name, the same on all its ranks; letters, digits, "._-" */
    baton_role_t role;
    uint32_t tp, pp;           /**< the engine's sizes: tp * pp ranks of the world carry its name */
    uint32_t tp_rank, pp_rank; /**< this rank's place in it */
    baton_progress_mode_t progress;
    baton_verdicts_t verdicts;
} baton_open_params_t;

/**
 * Reads BATON_ENGINE, BATON_ROLE (prefill, decode, both), BATON_TP, BATON_PP, BATON_TP_RANK and BATON_PP_RANK, as
 * batonrun sets them, into *params (progress is left as it is). tp and pp default to 1, their ranks to 0.
 * BATON_ESETTING names a variable that is missing or bad. Any thread, before or after MPI_Init.
 */
BATON_API int baton_role_from_env(baton_open_params_t *params);

#ifndef BATON_NO_MPI
/**
 * Opens a context on a duplicate of `comm`. Collective over comm. MPI_COMM_NULL: Baton works on MPI_COMM_WORLD, and
 * where MPI is not yet initialised it does that, and finalises it in baton_close. MPI's error handlers on the
 * caller's objects stay as they are.
 * Errors: EINVAL, ESETTING, ETHREAD, EMPI, ETIMEDOUT, the same on every rank; ENOMEM on this one alone.
 */
BATON_API int baton_open(MPI_Comm comm, const baton_open_params_t *params, baton_t **out);
#endif

/**
 * Makes everything that was declared: shared memory, windows, the directory of all ranks, the reactor. Collective;
 * each step is agreed upon by all ranks before and after, within BATON_START_MS. After it, baton_cache_base is valid
 * and the verbs may be called. On an error nothing is left but the context: close it.
 * Errors: ESTATE, ESHM, EWINDOW, EGEOMETRY (ranks of one engine contradict each other), ENOMEM, EMPI, ETIMEDOUT, the
 * same on every rank; the rank where it arose is named in baton_errmsg.
 */
BATON_API int baton_start(baton_t *b);

/**
 * Ends every open transfer (event or none: BATON_ECLOSED), waits until every rank of the world is here and quiet, stops
 * the reactor and frees all. Collective where no peer is lost. Returns within BATON_CLOSE_MS and a few seconds: EPEER
 * where a peer was lost or did not come by then. In that case no window was freed, MPI must not be finalised, and the
 * process should leave by baton_exit. *b is gone whatever is returned. Where a rank dies in the very moment in which
 * windows are freed, MPI cannot be left: then the process ends with status 70, and says which step it was. With
 * BATON_PROGRESS_CALLER, MPI may hold the calling thread for longer.
 */
BATON_API int baton_close(baton_t *b);

/** Leaves the process at once with `status`, without MPI_Finalize (which hangs after the loss of a rank). No return. */
BATON_API void baton_exit(int status) __attribute__((noreturn));

/* ---- the cache: what its memory looks like ---------------------------------------------------------------------- */

/*
 * A cache entry is a point (layer, plane, head, token, channel); plane is K or V. One tensor holds one layer's entries
 * for the heads of this rank. In a tensor of offset O and strides S, of block b of a table that starts at token t0,
 *
 *   address = base + O + b * S.block + plane * S.plane + (head - head_first) * S.head + (token - t0) * S.token
 *                      + channel * S.channel
 *
 * Two engines may cut the same model differently: heads over another number of ranks, layers over other stages, tokens
 * into blocks of another size, each with strides of its own. Tensors meet by name.
 *
 * Where a model's tensors are not all alike, they belong to GROUPS and SPLITS. A group is a set of tensors with one
 * block table (the KV-cache groups of a hybrid model): full attention, a sliding window, or a recurrent state. A split
 * is a way of cutting heads over the ranks: KV heads over TP ranks, say, beside a latent that every rank holds whole
 * (MLA), or the heads of a state. Group 0 and split 0 are the ones that a tensor of zeros belongs to.
 */

#define BATON_NAME_MAX 64     /* bytes of a tensor's or model's name, NUL included */
#define BATON_DTYPE_MAX 16    /* bytes of a dtype's name, NUL included */
#define BATON_TENSORS_MAX 512 /* tensors of one rank's cache */
#define BATON_GROUPS_MAX 8    /* groups of one cache */
#define BATON_SPLITS_MAX 4    /* splits of one cache */

/** Bytes between neighbours in each direction. */
typedef struct baton_strides {
    int64_t block, plane, head, token, channel;
} baton_strides_t;

typedef struct baton_tensor {
    char name[BATON_NAME_MAX]; /**< matched exactly with the other engine's; unique within the cache */
    uint32_t layer;            /**< the model's layer, in [layer_first, layer_first + layer_count) */
    uint32_t region;           /**< index of the region that holds it: 0 with baton_cache_create */
    uint64_t offset;           /**< bytes from the region's base to its first element */
    baton_strides_t stride;
    uint32_t group, split; /**< indices into the geometry's groups and splits */
    uint32_t planes, head_size,
        elem_bytes; /**< its own, where they are not the geometry's; else 0. Of any tensor, planes
                                                 may be more than 2: a state's positions, say */
} baton_tensor_t;

typedef enum baton_kind {
    BATON_KIND_FULL = 0,   /**< every token has its entry */
    BATON_KIND_WINDOW = 1, /**< only the last window_tokens tokens of a request are needed */
    BATON_KIND_STATE =
        2 /**< one entry a request, whatever its tokens: block_tokens is 1, and the table has one block */
} baton_kind_t;

/** Tensors that share a block table. */
typedef struct baton_group {
    baton_kind_t kind;
    uint32_t block_tokens;  /**< tokens a block holds */
    uint32_t num_blocks;    /**< block ids are 0 .. num_blocks - 1 */
    uint32_t window_tokens; /**< BATON_KIND_WINDOW: equal on both sides; else 0 */
    uint32_t blocks_per_id; /**< where an engine counts in larger blocks than its memory has: id i in a table stands for
                                 the blocks i * n .. i * n + n - 1 described here. 0: 1. Not of a state */
} baton_group_t;

/** Heads of the model, equal on both sides; and those that this rank holds. Latents have one head. */
typedef struct baton_split {
    uint32_t heads_total, head_first, head_count;
} baton_split_t;

/**
 * What one rank's cache holds, and where. The tensors are copied by the calls that take a geometry. One block of all
 * tensors together has less than 2^32 elements.
 */
typedef struct baton_geometry {
    char model[BATON_NAME_MAX];                      /**< the model's id, compared exactly */
    char dtype[BATON_DTYPE_MAX];                     /**< "bf16" say, compared exactly */
    uint32_t elem_bytes;                             /**< bytes of one channel's element: 1, 2, 4 or 8 */
    uint32_t planes;                                 /**< 2 (K and V), or 1 where there is one latent */
    uint32_t block_tokens;                           /**< tokens a block holds */
    uint32_t head_size;                              /**< channels of a head */
    uint32_t num_blocks;                             /**< block ids are 0 .. num_blocks - 1 */
    uint32_t heads_total, head_first, head_count;    /**< KV heads of the model; those that this rank holds */
    uint32_t layers_total, layer_first, layer_count; /**< layers of the model; those that this rank holds */
    uint32_t num_tensors;
    const baton_tensor_t *tensors;
    uint64_t bytes;              /**< size of the memory that the tensors lie in (region 0) */
    uint32_t num_groups;         /**< 0: one, of full attention, with block_tokens and num_blocks above */
    const baton_group_t *groups; /**< else block_tokens and num_blocks above are those of groups[0] */
    uint32_t num_splits;         /**< 0: one, with the heads above */
    const baton_split_t
        *splits; /**< else the heads above are those of splits[0]. Of splits behind the first, heads_total is
                                     at most 65535 */
} baton_geometry_t;

/** The usual layouts: one of each group, or-ed. The first of each group is the default. */
typedef enum baton_layout {
    BATON_LAYOUT_HND = 0,         /**< in a block: head, then token, then channel */
    BATON_LAYOUT_NHD = 1,         /**< in a block: token, then head, then channel */
    BATON_LAYOUT_KV_SEPARATE = 0, /**< all blocks of K, then all of V */
    BATON_LAYOUT_KV_BLOCK = 2,    /**< K's part of a block, then V's */
    BATON_LAYOUT_KV_FUSED = 4,    /**< K's channels of an entry, then V's */
    BATON_LAYOUT_LAYER_MAJOR = 0, /**< layer by layer, in each all blocks */
    BATON_LAYOUT_BLOCK_MAJOR = 8  /**< block by block, in each all layers (KV_SEPARATE then means KV_BLOCK) */
} baton_layout_t;

/**
 * Fills geometry->tensors (from `tensors`, room for layer_count, which must outlive *geometry), num_tensors and bytes
 * for a usual layout, from its other fields. Tensor names are "layer.<n>". `layout` is an or of baton_layout_t. Pure.
 * Errors: EINVAL (a size of 0, an unknown bit, more layers than BATON_TENSORS_MAX, or bytes past 2^62).
 */
BATON_API int baton_geometry_layout(baton_geometry_t *geometry, baton_tensor_t *tensors, unsigned layout);

/** The kind of memory a cache lies in. */
typedef enum baton_memory { BATON_MEMORY_HOST = 0, BATON_MEMORY_PINNED = 1, BATON_MEMORY_DEVICE = 2 } baton_memory_t;

typedef struct baton_cache baton_cache_t;

/**
 * Declares that Baton shall allocate the cache: geometry->bytes of host memory, shared with the ranks of the node,
 * aligned to 2 MiB, touched by this rank. Local; the memory is there after baton_start. One cache a context. A rank
 * that moves no blocks may have none. Before baton_start only. *out lives until baton_close.
 * Errors: EINVAL (the field is named), ESTATE, ENOSYS (memory other than host; a second cache), ENOMEM.
 */
BATON_API int baton_cache_create(baton_t *b, const baton_geometry_t *geometry, baton_memory_t memory,
                                 baton_cache_t **out);

/**
 * Declares memory that the engine owns: `bases[r]`, `bytes[r]` for each of num_regions regions (at most 128), which
 * must stay until baton_close. Peers reach it by rma.
 * Errors: ENOSYS: not in this version; allocate one slab by baton_cache_create instead.
 */
BATON_API int baton_cache_wrap(baton_t *b, const baton_geometry_t *geometry, baton_memory_t memory, void *const bases[],
                               const uint64_t bytes[], uint32_t num_regions, baton_cache_t **out);

/** Region 0's first byte; NULL before baton_start. Any thread. */
BATON_API void *baton_cache_base(const baton_cache_t *cache);

/* ---- the two verbs ---------------------------------------------------------------------------------------------- */

#define BATON_KEY_MAX 64      /* bytes of a request key, NUL included */
#define BATON_CONSUMERS_MAX 8 /* seats of an offer */
#define BATON_ATTACH_MAX 256  /* bytes of the engine's own carried with an offer */

/** Names one accepted call: in its event and for baton_cancel. Never 0, never used twice by a context. */
typedef uint64_t baton_id_t;

/**
 * Names one offer of one rank, for a router to carry to the consumer: a want that brings it matches that offer of that
 * rank, and no later one of the same key. Plain data: copy it, send it, store it.
 */
typedef struct baton_ticket {
    uint32_t rank; /**< the world rank that offered */
    uint32_t reserved;
    uint64_t incarnation, serial;
} baton_ticket_t;

/**
 * The block table of one group: blocks[i] holds tokens [first_token + i * block_tokens, ... + block_tokens). Where the
 * group has blocks_per_id, its block_tokens count that many times here.
 */
typedef struct baton_table {
    const uint32_t *blocks;
    uint32_t num_blocks;
    uint32_t
        first_token; /**< a multiple of the group's block_tokens: what lies before has no block here, such as what a
                               window has left behind, or a prefix that is not to be moved. 0 for a state */
} baton_table_t;

typedef enum baton_offer_flags {
    BATON_OFFER_LAYERS = 1, /**< no layer is in place yet: baton_ready says which are, as prefill goes on */
    BATON_OFFER_CHUNKS = 2  /**< no token is in place yet: baton_append says which are, and may bring their blocks. With
                                 BATON_OFFER_LAYERS, each chunk is begun without a layer */
} baton_offer_flags_t;

typedef struct baton_offer_params {
    const char *key;        /**< chosen outside, 1..63 bytes, unique within the engine while the offer lives */
    const uint32_t *blocks; /**< blocks[i] holds tokens [i * block_tokens, (i+1) * block_tokens) */
    uint32_t num_blocks;
    uint32_t num_tokens;          /**< of the whole request; at most num_blocks * block_tokens, but in chunks */
    uint32_t ttl_ms;              /**< the offer expires this long after it is whole, or, if a want that it granted is
                                       still alive then, at that want's deadline; 0: BATON_TTL_MS */
    uint32_t num_consumers;       /**< seats: 0 means 1. Each is one engine */
    const char *const *consumers; /**< num_consumers engine names; NULL: any engines, bound by their first want */
    const void *attach;           /**< num_attach bytes carried to the consumers' events: 0 in this version */
    uint32_t num_attach;
    uint32_t flags;       /**< an or of baton_offer_flags_t */
    void *user;           /**< handed back in the event */
    const char *base_key; /**< what offer and want meet by, where the two sides call the request by different keys (say,
                               a suffix of their own); events still carry `key`. NULL: the key itself */
    const baton_table_t
        *tables; /**< one a group, num_tables of them, instead of `blocks`; each reaches to num_tokens */
    uint32_t num_tables;
} baton_offer_params_t;

/**
 * Offers the blocks of a request. Their bytes must be in place (stores before this call are seen by the consumers; with
 * flags, those before the call of baton_ready or baton_append that names them) and stay so until the offer's event.
 * Returns in microseconds; the array is reusable at return. *ticket and *id may be NULL. Any thread.
 * Ends in one event BATON_EVENT_OFFER: DONE once every rank of every seat acknowledged; EXPIRED; CANCELLED by either
 * side; FAILED (EEXIST: the key's former offer lives; EAGAIN: no room for its block table, BATON_TABLE_BYTES; ESTALL;
 * or what made the consumer fail).
 * Errors: EAGAIN, EINVAL, EKEY, EBLOCK, ETOKENS, EENGINE, ESTATE, ESTALL, ENOSYS (attach), ENOMEM.
 */
BATON_API int baton_offer(baton_t *b, const baton_offer_params_t *params, baton_ticket_t *ticket, baton_id_t *id);

typedef struct baton_append_params {
    const uint32_t *blocks; /**< blocks that follow those given so far; none where all were given before */
    uint32_t num_blocks;
    uint32_t num_tokens;         /**< of the request, so far: more than before, at most those of the offer */
    const baton_table_t *tables; /**< one a group instead of `blocks`, with first_token 0: they follow the former */
    uint32_t num_tables;
} baton_append_params_t;

/**
 * Goes on with an offer with BATON_OFFER_CHUNKS: the first num_tokens tokens of the request are in place, so that they
 * move while prefill goes on; with BATON_OFFER_LAYERS too, those before this call are, and baton_ready says which layers
 * of the new ones. A chunk may begin and end within a block. A recurrent state counts as of the last chunk. The offer is
 * whole with its last token, and its time to live begins anew with each call. An offer that has ended takes it without a
 * word. What does not fit (an offer without that flag: EINVAL; no more tokens than before, blocks for fewer than said,
 * more blocks than the offer's tokens need: ETOKENS) ends the offer as FAILED. Any thread; returns in microseconds.
 * Errors: EINVAL (an id never given, tables), EBLOCK, ETOKENS (0), EAGAIN, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_append(baton_t *b, baton_id_t offer, const baton_append_params_t *params);

/**
 * Says that layers [layer_first, layer_first + layer_count) of an offer with BATON_OFFER_LAYERS are in place, so that they
 * move while prefill goes on; those that this rank does not hold are of no account, and saying it twice does no harm. Of
 * an offer in chunks, num_tokens says which one's: as baton_append said it, so that a late word of one chunk is not taken
 * for the next one; else it is 0 (without it, an offer in chunks ends as FAILED, EINVAL). Consumers take layers in their
 * order: what is ready before an earlier layer is waits for it. The offer is whole when all are ready; its time to live
 * begins anew with each call. An offer that has ended takes it without a word: it may be DONE before it is whole, where
 * its consumers need no more. A prefill that fails cancels its offer. Any thread; returns in microseconds.
 * Errors: EINVAL (an id never given, no layers, layers past the model's), EAGAIN, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_ready(baton_t *b, baton_id_t offer, uint32_t layer_first, uint32_t layer_count,
                          uint32_t num_tokens);

typedef enum baton_mode {
    BATON_MODE_AUTO = 0, /**< what suits the path; the event says which it was. Pull on both, in this version */
    BATON_MODE_PULL = 1, /**< the consumer reads */
    BATON_MODE_PUSH = 2  /**< the producer writes, as soon as offer and want have met */
} baton_mode_t;

typedef enum baton_want_flags {
    BATON_WANT_ZERO_TAIL = 1 /**< what lies behind num_tokens, to the end of the last block (as large as an id of its
                                  table stands for), is zero in the end. Not of a state; nor where all tokens are held */
} baton_want_flags_t;

typedef struct baton_want_params {
    const char *key;
    const char *engine;     /**< the producer's engine */
    const uint32_t *blocks; /**< where tokens go: block i takes tokens [i * block_tokens, (i+1) * block_tokens) */
    uint32_t num_blocks;
    uint32_t num_tokens; /**< the first num_tokens of the request (of a cache with a state: all that are offered, since
                               the state is of those); 0: nothing is needed, the producer is released */
    uint32_t
        held_tokens; /**< leading tokens that are here already (a prefix that was reused): they are not moved. If that
                               is all of them, nothing is, and the producer is released */
    uint32_t timeout_ms; /**< 0: BATON_WANT_MS */
    baton_mode_t mode;
    const baton_ticket_t *tickets; /**< at most one per producer rank; ranks without one match by key alone */
    uint32_t num_tickets;
    uint32_t flags;       /**< an or of baton_want_flags_t */
    void *user;           /**< handed back in the event */
    const char *base_key; /**< as with an offer. Keys meet exactly: no part of one is ever guessed at */
    const baton_table_t
        *tables; /**< as with an offer; what lies before held_tokens, or before a window, need have no block */
    uint32_t num_tables;
} baton_want_params_t;

/**
 * Demands a request's blocks. The blocks belong to Baton until the want's event; the arrays are reusable at return.
 * Nothing beyond num_tokens tokens is written, but for zeros where asked for. May come before the offer. Returns in
 * microseconds. Any thread.
 * Ends in one event BATON_EVENT_WANT: DONE (every byte is there and was fenced), EXPIRED (the deadline passed; if bytes
 * were moving, once nothing can write into the blocks any more, however long that takes), CANCELLED, or FAILED with its
 * reason: EGONE, ESTALE, ETOKENS, ESEAT, EGEOMETRY, ESOURCE, EPEER, EMESSAGE, EMPI, EEXIST (the rank's former want of
 * this key from this engine has not had its event), ECHECKSUM, ESTALL (MPI held the reactor for BATON_STALL_MS: the
 * event is quarantined, and a QUIET follows once MPI has returned), EAGAIN (push: no room for its block table now; no
 * producer heard of it, so it may be wanted again).
 * A pull turns to another rank that holds the same, if there is one, when a rank fails as EPEER, ESTALE or EMPI and what
 * was read of it is quiet; not with BATON_CHECKSUM. A push does not: its reason is told.
 * Until it, and after none, bytes may change in the blocks.
 * With push the producer's ranks write: a want that is given up (deadline, cancel, close) ends once each of them has
 * said that it writes no more. A push takes a lease slot and table room here too (BATON_LEASES, BATON_TABLE_BYTES).
 * Errors: EAGAIN, EINVAL, EKEY, EENGINE, EBLOCK, ETOKENS, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_want(baton_t *b, const baton_want_params_t *params, baton_id_t *id);

/**
 * Asks that an offer or want ends. Its event comes as ever, as CANCELLED unless it ended otherwise before. An id that
 * has ended is no error. Any thread. Errors: EINVAL (never given), EAGAIN, ESTATE, ESTALL.
 */
BATON_API int baton_cancel(baton_t *b, baton_id_t id);

/* ---- events ----------------------------------------------------------------------------------------------------- */

typedef enum baton_event_type {
    BATON_EVENT_OFFER = 1,
    BATON_EVENT_WANT = 2,
    BATON_EVENT_QUIET = 3,  /**< the blocks of a call that was reported with `quarantined` are the caller's again */
    BATON_EVENT_VERDICT = 4 /**< see VERDICTS */
} baton_event_type_t;

/**
 * VERDICTS. In an engine that asked for them, each rank's call of one key and verb takes part in one round, by the
 * rank's identity: a second call of it belongs to the next round. The round ends when every rank that holds a part of
 * the cache has had its event, when one of them is lost, or BATON_VERDICT_MS after the first event; then every rank (or
 * the first alone) gets one BATON_EVENT_VERDICT with the same status, error, peer and detail: DONE if all were done, else
 * the worst of failed, expired, cancelled, with the rank of the engine where it arose as `peer`. If ranks were silent it
 * is FAILED with ETIMEDOUT (or EPEER where one is lost), the first silent rank is `peer`, and `detail` says where it
 * stands, such as in a handshake. `of` says what it is about, `id` and `user` are those of this rank's own call, 0 and
 * NULL where it made none. `quarantined` says that blocks of some rank are in quarantine: their own events release
 * them. A call that ended as EEXIST has no verdict. After one that named a silent rank, use another key for a new
 * attempt, or wait BATON_TOMBSTONE_MS.
 */
enum baton_verdict_place { BATON_VERDICT_NONE = 0, BATON_VERDICT_FOLLOWS = 1, BATON_VERDICT_CAME = 2 };

typedef enum baton_status {
    BATON_STATUS_DONE = 1,
    BATON_STATUS_FAILED = 2,
    BATON_STATUS_EXPIRED = 3,
    BATON_STATUS_CANCELLED = 4
} baton_status_t;

typedef enum baton_path { BATON_PATH_NONE = 0, BATON_PATH_SHM = 1, BATON_PATH_RMA = 2 } baton_path_t;
#define BATON_PATHS 3

typedef struct baton_event {
    baton_event_type_t type;
    baton_status_t status;
    int error; /**< 0 when done, else the reason, BATON_E... */
    baton_id_t id;
    char key[BATON_KEY_MAX];
    void *user;
    baton_mode_t mode;    /**< want: BATON_MODE_PULL or BATON_MODE_PUSH */
    uint32_t quarantined; /**< 1: a peer may still touch the blocks; a BATON_EVENT_QUIET of this id follows. Only under
                               BATON_REPORT_EARLY, and with BATON_ESTALL */
    int32_t peer;         /**< the world rank that it failed with or at; -1: none */
    uint32_t num_blocks;  /**< blocks of the call, of all its tables, as its geometry describes them (not ids, where one
                               stands for several): all of them are concerned */
    uint64_t bytes;       /**< want: bytes moved */
    uint64_t path_bytes[BATON_PATHS]; /**< the same, by path */
    uint64_t wait_ns;      /**< from the call to the match: the last grant of a want, the first of an offer */
    uint64_t total_ns;     /**< from the call to this event */
    uint32_t verdict;      /**< of a call's end: whether its BATON_EVENT_VERDICT comes later, came, or neither */
    baton_event_type_t of; /**< verdict: BATON_EVENT_OFFER or BATON_EVENT_WANT */
    char detail[128];      /**< what differs or who was silent, in words; empty when done */
} baton_event_t;

/**
 * Takes up to `max` events. Returns how many (0: none wait) or an error. Never blocks, microseconds. Any thread.
 * Each event is handed out once. Errors: EINVAL.
 */
BATON_API int baton_poll(baton_t *b, baton_event_t *events, int max);

/**
 * A descriptor that polls readable (POLLIN) while events wait, for an engine's own loop. It belongs to the context: do
 * not read it or close it. Any thread, after baton_open. Errors: EINVAL.
 */
BATON_API int baton_event_fd(const baton_t *b);

/**
 * One turn of the reactor in the calling thread: BATON_PROGRESS_CALLER only. Waits no longer than it works. Returns
 * the number of events that wait, or an error. Errors: ESTATE, EINVAL.
 */
BATON_API int baton_progress(baton_t *b);

/* ---- what is going on ------------------------------------------------------------------------------------------- */

/** One engine whose handshake is not complete while wants queue behind it. */
typedef struct baton_pending {
    char engine[BATON_ENGINE_NAME_MAX];
    uint32_t ranks_needed, ranks_known; /**< cards needed, cards read and found good */
    uint32_t attempts;                  /**< rounds of reading begun */
    uint32_t wants;                     /**< wants that queue */
    uint64_t waiting_ns;                /**< since its first want */
} baton_pending_t;

/** Fills up to `max` entries as of the reactor's last look (BATON_STATS_MS). Returns how many. Any thread. */
BATON_API int baton_pending(baton_t *b, baton_pending_t *out, int max);

/** Of this rank alone, as of the reactor's last look: never older than the last event that was handed out. */
#define BATON_REASONS 32 /* more than there are error numbers */

typedef struct baton_stats {
    uint64_t offers, offers_done, offers_failed, offers_expired, offers_cancelled;
    uint64_t wants, wants_done, wants_failed, wants_expired, wants_cancelled;
    uint64_t bytes[BATON_PATHS]; /**< received by wants that were done */
    uint64_t gets, puts;         /**< contiguous runs moved by MPI_Get or MPI_Rget; by MPI_Put or MPI_Rput */
    uint64_t handshakes, handshake_ns_sum, handshake_ns_max,
        handshake_retries; /**< completed, and how long they took */
    uint64_t messages_sent, messages_received, messages_bad,
        messages_unknown;                /**< of types that only a newer version knows: skipped */
    uint64_t retries;                    /**< times that a leg of a pull turned to another rank that holds the same */
    uint64_t peers_lost, peers_returned; /**< times that a peer fell silent or died, and that one came back */
    uint64_t leases_extended;            /**< times that an offer's time to live passed while a want for it was alive */
    uint64_t verdicts, verdicts_lost; /**< told here; and that found no place, of calls that this rank did not make */
    uint64_t stale;                   /**< legs whose generation had changed at the re-read */
    uint64_t flushes, settled,
        poisoned;           /**< MPI_Win_flush calls; completions that only a flush brought; peers given up */
    uint64_t again;         /**< calls refused with BATON_EAGAIN */
    uint64_t turns, sleeps; /**< the reactor's */
    uint64_t quarantined;   /**< gauge: calls that have an end, and blocks that a peer may still touch */
    uint64_t leases_live, wants_live, legs_live, pushes_live, reads_parked; /**< gauges */
    uint32_t peers[BATON_PATHS]; /**< ranks of the world by the path they use */
    uint64_t reasons
        [BATON_REASONS]; /**< ends by reason: [-error], BATON_E...; [0]: numbers that this version does not know */
} baton_stats_t;

/** Copies the statistics. Any thread. Errors: EINVAL. */
BATON_API int baton_stats(baton_t *b, baton_stats_t *out);

/** What this rank knows of one other. */
typedef struct baton_peer_stats {
    baton_path_t path;
    uint64_t failures;                  /**< calls that ended with this rank as the event's peer */
    uint64_t reasons[BATON_REASONS];    /**< the same by reason: [-error] */
    char engine[BATON_ENGINE_NAME_MAX]; /**< its engine */
} baton_peer_stats_t;

/** Copies the statistics of one rank of the world. Any thread, after baton_start. Errors: EINVAL, ESTATE. */
BATON_API int baton_peer_stats(baton_t *b, uint32_t rank, baton_peer_stats_t *out);

/**
 * Writes what was built into text of at most `size` bytes, NUL included: node, windows and their components, quirks,
 * path per peer, thread mode. Returns the length without NUL that it would have had. Any thread, after baton_start.
 */
BATON_API int baton_describe(const baton_t *b, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* BATON_H */
