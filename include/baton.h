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
 * baton_poll hands out events. Each accepted call has exactly one terminal event: from then on the blocks are the
 * caller's again. A call that baton_close finds still at work may have none. See THE PROMISE.
 *
 * LIFE OF A CONTEXT. baton_open and baton_start are collective over the communicator, and baton_close too;
 * baton_cache_create or baton_cache_wrap comes between the first two, baton_cache_wrap also later. Between start and
 * close every call is local and never waits for another rank, but for baton_cache_ready of a caller's thread.
 *
 * ERRORS. Functions return 0 (or a count) or a negative BATON_E... number. Outputs are written only on success.
 * baton_strerror names a number; baton_errmsg gives the sentence that belongs to the last error of the calling thread.
 * What cannot be returned is an event. From collective calls every rank gets the same error.
 *
 * THREADS. With BATON_PROGRESS_THREAD (the default where MPI gives MPI_THREAD_MULTIPLE) threads of Baton's own make all
 * of its MPI calls between start and close: the reactor, and between nodes a thread that hears other ranks ring
 * (BATON_DOORBELL). Never both call MPI at once. The functions whose comment says "Any thread" may then be called by
 * any threads at once.
 *
 * With BATON_PROGRESS_CALLER no thread is made for MPI. One thread lends itself: it calls baton_poll or baton_progress
 * often, since blocks move only inside these calls. This is the thread that called baton_start, until another thread
 * calls baton_progress; MPI's thread level must allow that. Other threads may call the same functions as above, but
 * their baton_poll only takes events. "Any thread" below means this rule.
 *
 * While the reactor sleeps, a call makes a short transfer within the node in the caller's thread, and a poll that finds
 * no event does what has become possible since. Neither calls MPI. A poll spends about 50 us on this, or four turns
 * if these take longer; so do all calls between two polls together. A turn copies at most inline_bytes (handoff; see
 * SETTINGS).
 *
 * open, cache_create, start and close are called by one thread, while no other thread is inside Baton.
 *
 * Signals change nothing: no call ends early by one, and Baton's threads take none of the process's. No function may
 * be called in a signal handler. A thread that is cancelled (pthread_cancel) inside a call ends when the turn that it
 * makes is over; the calls of one thread, above, must not be cancelled.
 *
 * FORK. A context belongs to the process that opened it. In a child of that process, made by fork or by clone without
 * CLONE_VM, each function that takes a context returns ESTATE at once. It touches nothing of the parent's, whatever the
 * parent's other threads did at the fork. baton_open and baton_open_f return ESTATE too, since MPI is the parent's.
 * baton_cache_base returns NULL, and baton_close returns 0: see there. Functions without a context work as ever.
 * "Fork" in baton(7) says what else a child should leave alone.
 *
 * UNITS. Bytes, tokens, nanoseconds and milliseconds, named in the identifier where the type cannot say it. Only
 * relative times are used: no clock is compared between ranks.
 *
 * SETTINGS. Variables of the environment, such as BATON_WANT_MS. Names such as quiet_ms, which no struct here has, are
 * tunables: BATON_TUNE=quiet_ms=500 sets one. baton(7) lists both.
 *
 * STRUCTS THAT GROW. A later header may add fields at the end of a struct that begins with `size`; a program and a
 * library of different age then still understand each other.
 *
 *   - The caller sets `size` in what Baton reads: {.size = sizeof p, ...}, or BATON_INIT(type), also in C++. Fields
 *     that a smaller struct lacks count as 0. A larger struct is taken if all that this library does not know is 0,
 *     else EINVAL. A size below sizeof(size_t), as one that was forgotten, or above 4,096 is EINVAL.
 *   - Baton sets `size` in what it only fills: the bytes that this library filled. What lies behind them is 0. Such a
 *     struct need not be initialised: the functions that fill one are inline, and hand its sizeof to their other form,
 *     baton_..._sized, which is for bindings that cannot call an inline function.
 *   - No other struct changes its form (baton_strides_t, baton_tensor_t, baton_group_t, baton_split_t, baton_table_t,
 *     baton_pending_t, baton_peer_stats_t). Enumerations may get further values.
 *
 * The soname of the library is libbaton.so.0.MINOR until version 1.0: a program runs with the minor version that it was
 * built with, in any patch version. From 1.0 on it is libbaton.so.MAJOR, and a program runs with every minor version.
 *
 * BATON_NO_MPI leaves out the one declaration that needs <mpi.h> (baton_open). baton_open_f does without it.
 */
#ifndef BATON_H
#define BATON_H

#include <stddef.h>
#include <stdint.h>
#ifndef BATON_NO_MPI
#ifndef OMPI_SKIP_MPICXX /* the C++ bindings that MPI once had would have to be linked; nothing here uses them */
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
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
#define BATON_VERSION_MINOR 2
#define BATON_VERSION_PATCH 0
#define BATON_VERSION_STRING "0.2.0"

/** The version of the library that runs, as "major.minor.patch". Any thread, any time. */
BATON_API const char *baton_version(void);

/**
 * A struct of zeros with its size, inside a function: `baton_want_params_t w = BATON_INIT(baton_want_params_t);`. The
 * type is one of the names that end in _t. See STRUCTS THAT GROW.
 */
#ifdef __cplusplus
#define BATON_INIT(type)                                                                                               \
    ([]() -> type {                                                                                                    \
        type sized_ = type();                                                                                          \
        sized_.size = sizeof sized_;                                                                                   \
        return sized_;                                                                                                 \
    }())
#else
#define BATON_INIT(type) ((type){.size = sizeof(type)})
#endif

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* X(name, number, message). Numbers never change their meaning. */
#define BATON_ERRNO_MAP(X)                                                                                             \
    X(EINVAL, -1, "invalid argument")                                                                                  \
    X(EAGAIN, -2, "not now: call again, after events were read or caches came")                                        \
    X(ENOMEM, -3, "out of memory")                                                                                     \
    X(ENOSYS, -4, "not supported by this version")                                                                     \
    X(ESTATE, -5, "called in the wrong state")                                                                         \
    X(ESETTING, -6, "a setting in the environment has a bad value")                                                    \
    X(EENGINE, -7, "no engine of that name in this world")                                                             \
    X(EGEOMETRY, -8, "the two caches do not match")                                                                    \
    X(EBLOCK, -9, "a block id lies outside the cache")                                                                 \
    X(ETOKENS, -10, "more tokens than the blocks hold or the offer has")                                               \
    X(EKEY, -11, "a request key must have 1 to 255 bytes")                                                             \
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
 * One sentence about the last call of this thread that returned an error: what went wrong, and what to do. Empty before
 * the first error. The text stays valid until this thread's next call that fails.
 */
BATON_API const char *baton_errmsg(void);

/* ---- the log ---------------------------------------------------------------------------------------------------- */

#define BATON_ENGINE_NAME_MAX 64 /* bytes of an engine's name, NUL included */

/** The setting BATON_LOG (default 2) is one of these numbers: lines of that level and below are logged; 0: none. */
typedef enum baton_log_level {
    BATON_LOG_ERROR = 1,
    BATON_LOG_WARNING = 2,
    BATON_LOG_INFO = 3,
    BATON_LOG_DEBUG = 4
} baton_log_level_t;

/** Who says a line of the log. */
typedef struct baton_log_source {
    size_t size;        /**< bytes that the library filled */
    uint64_t life;      /**< of this start of its engine; 0 before it is known */
    uint32_t rank;      /**< its index in its engine: pp_rank * tp + tp_rank */
    int32_t world_rank; /**< its rank in the communicator; -1 before it is known, or where it has none */
    char engine[BATON_ENGINE_NAME_MAX];
} baton_log_source_t;

/**
 * Takes one line of a context's log: the sentence alone, without newline or control characters, fewer than 1,024 bytes.
 * The text and *source are valid during the call. Called by whichever thread has something to say: the one that is
 * inside a call of Baton, or one of Baton's own; so it may run in several threads at once. All transfers may wait for
 * it: return within microseconds, never block, and call no function of Baton or MPI.
 */
typedef void (*baton_log_fn)(void *user, baton_log_level_t level, const baton_log_source_t *source, const char *line);

/**
 * Hands the log to the engine's own logger: lines of contexts that are opened after this go to `callback` instead of to
 * standard error (NULL: to standard error again). A context keeps the callback that was set when it was opened until
 * baton_close has returned; after a baton_close that returned BATON_EPEER, until the process ends. Any thread, before
 * or after MPI_Init, but not while another thread is inside baton_open or this function. At most one line a second is
 * logged for one cause. The next line of that cause counts those left out.
 */
BATON_API void baton_log_set(baton_log_fn callback, void *user);

/* ---- the context ------------------------------------------------------------------------------------------------ */

/** One rank's part of one Baton world. Several contexts may live in one process. */
#ifdef __cplusplus
typedef struct baton_context baton_t; /* in C++, `baton` is the namespace of baton.hpp */
#else
typedef struct baton baton_t;
#endif

/** A label for placement and reports. The protocol knows producer and consumer per transfer, nothing else. */
typedef enum baton_role { BATON_ROLE_PREFILL = 1, BATON_ROLE_DECODE = 2, BATON_ROLE_BOTH = 3 } baton_role_t;

typedef enum baton_progress_mode {
    BATON_PROGRESS_AUTO = 0,   /**< thread with MPI_THREAD_MULTIPLE, caller below it */
    BATON_PROGRESS_THREAD = 1, /**< the reactor thread; BATON_ETHREAD below MPI_THREAD_MULTIPLE */
    BATON_PROGRESS_CALLER = 2  /**< the caller lends its thread through baton_progress */
} baton_progress_mode_t;

#define BATON_ENGINE_RANKS_MAX 1024

/**
 * Which ranks of an engine hear how a request ended for the engine as a whole (BATON_EVENT_VERDICT): none, all, or the
 * first one. All ranks of the engine must ask for the same.
 */
typedef enum baton_verdicts {
    BATON_VERDICTS_NONE = 0,
    BATON_VERDICTS_ALL = 1,
    BATON_VERDICTS_LEADER = 2
} baton_verdicts_t;

typedef enum baton_open_flags {
    BATON_OPEN_CACHE_LATER = 1, /**< this rank declares its cache after baton_start: see baton_cache_wrap */
    BATON_OPEN_ENGINES = 2      /**< this rank hears that engines come and go: BATON_EVENT_ENGINES */
} baton_open_flags_t;

/** Who this rank is. baton_role_from_env can fill it. */
typedef struct baton_open_params {
    size_t size;                        /**< sizeof this: see STRUCTS THAT GROW */
    char engine[BATON_ENGINE_NAME_MAX]; /**< the engine's name, the same on all its ranks; letters, digits, "._-" */
    baton_role_t role;
    uint32_t tp, pp;           /**< the engine's sizes: tp * pp ranks of the world carry its name */
    uint32_t tp_rank, pp_rank; /**< this rank's place in it */
    baton_progress_mode_t progress;
    baton_verdicts_t verdicts;
    uint32_t flags; /**< an or of baton_open_flags_t */
} baton_open_params_t;

/**
 * Reads BATON_ENGINE, BATON_ROLE (prefill, decode, both), BATON_TP, BATON_PP, BATON_TP_RANK and BATON_PP_RANK, as
 * batonrun sets them, into *params, whose size is set. The other fields are left as they are; tp and pp default to
 * 1. tp_rank must be said where tp is above 1, else it defaults to 0; likewise pp_rank. Where neither BATON_ENGINE nor
 * BATON_ROLE is set, BATON_LAYOUT="2x4x1 4x2x1" says it for all ranks: engines x TP x PP, prefill first; the rank's
 * number is the launcher's. Any thread, before or after MPI_Init.
 * Errors: ESETTING: baton_errmsg names the variable that is missing or bad; EINVAL.
 */
BATON_API int baton_role_from_env(baton_open_params_t *params);

#ifndef BATON_NO_MPI
/**
 * Opens a context on a duplicate of `comm`. Collective over comm. MPI_COMM_NULL stands for MPI_COMM_WORLD: if MPI is
 * not initialised yet, this call initialises it (MPI_THREAD_MULTIPLE) and baton_close finalises it. MPI's error
 * handlers on the caller's objects stay as they are. If MPI gives less than MPI_THREAD_MULTIPLE, BATON_PROGRESS_AUTO
 * means BATON_PROGRESS_CALLER; the log says so once. A variable BATON_... that no setting has is warned of, with the
 * nearest name.
 * Errors, the same on every rank: EINVAL (what a rank's params say), ESETTING, ETHREAD, EMPI, ETIMEDOUT. On this rank
 * alone, and ETIMEDOUT on the others: EINVAL (a NULL argument, a bad handle), ESTATE (MPI is finalised; a communicator
 * before MPI is initialised; this process was forked from one that had opened a context), ENOMEM.
 */
BATON_API int baton_open(MPI_Comm comm, const baton_open_params_t *params, baton_t **out);
#endif

#define BATON_COMM_NULL_F (-1) /* for baton_open_f: what MPI_COMM_NULL is for baton_open */

/**
 * baton_open for bindings that cannot spell an MPI_Comm, which each MPI defines in its own way. `comm` is a
 * communicator's Fortran handle, as MPI_Comm_c2f gives it (mpi4py: comm.py2f()), or BATON_COMM_NULL_F.
 * Errors: as baton_open; EINVAL also for a handle that no communicator has, where MPI can tell: Open MPI does, MPICH
 * ends the process.
 */
BATON_API int baton_open_f(int comm, const baton_open_params_t *params, baton_t **out);

/**
 * Makes everything that was declared: shared memory, windows, the directory of all ranks, the reactor. Collective;
 * each step is agreed upon by all ranks before and after, within BATON_START_MS. After it, baton_cache_base is valid
 * and the verbs may be called. After an error only the context is left: close it. If a rank dies in the very moment in
 * which MPI makes windows, MPI cannot be left: the process then ends after BATON_START_MS with status 70 and says at
 * which step.
 * Errors, the same on every rank: ESTATE, ECLOSED (a rank called baton_close instead), EINVAL (a cache is too large to
 * be described), ESETTING (BATON_FAULT), ESHM, EWINDOW (also where MPI's window must not be used by the reactor's
 * thread), EGEOMETRY (ranks of one engine contradict each other: in model, dtype, a size, a total, block_tokens, tp,
 * pp, their places or verdicts), ENOMEM, EMPI, EMESSAGE, ESYSTEM, ETIMEDOUT. baton_errmsg names the rank where it
 * arose.
 */
BATON_API int baton_start(baton_t *b);

/**
 * How far a rank is from this one: the larger, the farther. A process that may run on several NUMA nodes or packages is
 * on none of them. A later version may know classes between these.
 */
typedef enum baton_distance {
    BATON_DISTANCE_SELF = 0,     /**< this rank */
    BATON_DISTANCE_NUMA = 20,    /**< on the same NUMA node */
    BATON_DISTANCE_PACKAGE = 30, /**< in the same package */
    BATON_DISTANCE_NODE = 40,    /**< on the same node */
    BATON_DISTANCE_WORLD = 60    /**< on another node */
} baton_distance_t;

/** One engine. */
typedef struct baton_engine {
    size_t size; /**< bytes that the library filled */
    char name[BATON_ENGINE_NAME_MAX];
    baton_role_t role; /**< of its first rank */
    uint32_t tp, pp;
    uint32_t num_ranks;        /**< tp * pp */
    baton_distance_t distance; /**< from this rank to the nearest of them */
    uint32_t nearest;          /**< that one's index: pp_rank * tp + tp_rank; the lowest of several */
    uint64_t life; /**< of this start of it, never 0: an engine of the same name that is started later has another */
} baton_engine_t;

/**
 * Fills up to `max` of the engines that are there, this rank's too, in the order of their names. Returns how many there
 * are, which may be more than max, and in *version (which may be NULL) the number of this state of affairs: it grows
 * whenever an engine comes or goes. Any thread, after baton_start. Errors: EINVAL, ESTATE.
 *
 * With BATON_OPEN_ENGINES this rank hears of it: one BATON_EVENT_ENGINES comes after start, and one after each change.
 * At most one waits, so several changes may be told by one; its `version` is the newest when it is taken. It takes no
 * place of a call's (BATON_REQUESTS), and comes before other events that wait.
 */
BATON_API int baton_engines_sized(const baton_t *b, uint64_t *version, void *out, int max, size_t size);

static inline int baton_engines(const baton_t *b, uint64_t *version, baton_engine_t *out, int max)
{
    return baton_engines_sized(b, version, out, max, sizeof *out);
}

#define BATON_HOST_MAX 64 /* bytes of a host's name, NUL included */

/** One rank of an engine. */
typedef struct baton_engine_rank {
    size_t size;     /**< bytes that the library filled */
    uint64_t number; /**< of this very member, never 0: no other context ever has it */
    uint32_t pp_rank, tp_rank;
    baton_distance_t distance; /**< from this rank */
    int32_t world_rank;        /**< its rank in the communicator that was given to baton_open; -1: it has none */
    char host[BATON_HOST_MAX]; /**< as gethostname says there; "": not known */
} baton_engine_rank_t;

/**
 * Fills up to `max` ranks of the engine of that name, in the order of pp_rank * tp + tp_rank. Returns how many it has,
 * which may be more than max. Any thread, after baton_start. Errors: EINVAL, EENGINE, ESTATE.
 */
BATON_API int baton_engine_ranks_sized(const baton_t *b, const char *engine, void *out, int max, size_t size);

static inline int baton_engine_ranks(const baton_t *b, const char *engine, baton_engine_rank_t *out, int max)
{
    return baton_engine_ranks_sized(b, engine, out, max, sizeof *out);
}

/**
 * Closes the context. Collective. Every open transfer ends with BATON_ECLOSED; its event may be lost. Then this waits
 * until every rank of the world is here and quiet, stops the reactor and frees everything. *b is gone, whatever is
 * returned. So before any engine closes, all have agreed that nobody will want any more, and each has the answer to
 * each of its own calls. A rank that cannot go on before baton_start, since its cache was refused, closes too:
 * baton_start then fails on the others with BATON_ECLOSED, and names it.
 *
 *   all ranks came                   0
 *   a rank is lost                   EPEER, within BATON_PEER_MS and 5 s of its loss or of this call, the later of both
 *   a rank lives but does not come   EPEER, BATON_CLOSE_MS and a few seconds after this call
 *   before all caches are there, a rank is lost:
 *     on the node of rank 0          EPEER, at once on the ranks of that node, and on the others unless it is rank 0
 *     elsewhere                      EPEER, BATON_CLOSE_MS and a few seconds after this call
 *   a driver does not end a copy     EPEER on every rank, after 5 s, although all ranks came
 *   a rank has no memory left        EPEER on every rank, although all ranks came
 *   the doorbell's thread is held    EPEER after 2 s, although all ranks came; on the others after BATON_START_MS, or
 *                                    what is left of BATON_CLOSE_MS if that is less, but 1 s at least
 *   a free of MPI is known to hang   EPEER, although all ranks came: Open MPI 5 with its component osc/ucx
 *   MPI is finalised already         ESTATE: MPI_Finalize itself stopped the reactor and logged that
 *
 * With MPICH, MPI_Finalize may end the process if this was not called before; the log then says so. It does not with
 * BATON_PROGRESS_CALLER if every rank comes to MPI_Finalize within BATON_CLOSE_MS.
 *
 * With EPEER, baton_errmsg names the rank, its engine and its host, or what else it was. No window was freed.
 * MPI_Finalize would hang: leave the process by baton_exit. If a rank dies in the very moment in which windows are
 * freed, MPI cannot be left at all: the process then ends with status 70 and says at which step. With
 * BATON_PROGRESS_CALLER, MPI may hold the calling thread for longer.
 *
 * In a forked child (see FORK) this returns 0 at once. It closes the child's copies of Baton's own descriptors, and
 * nothing else: the child keeps its copy of the memory until it ends, and the parent's context goes on.
 */
BATON_API int baton_close(baton_t *b);

/**
 * Leaves the process at once with `status`, without MPI_Finalize (which hangs after the loss of a rank). No return. A
 * forked child leaves alone.
 */
BATON_API void baton_exit(int status) __attribute__((noreturn));

/* ---- the cache: what its memory looks like ---------------------------------------------------------------------- */

/*
 * A cache entry is a point (layer, plane, head, token, channel); plane is K or V. One tensor holds one layer's entries
 * for the heads of this rank. In a tensor of offset O and strides S, of block b whose first token is t0,
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

#define BATON_NAME_MAX 64      /* bytes of a tensor's or model's name, NUL included */
#define BATON_DTYPE_MAX 16     /* bytes of a dtype's name, NUL included */
#define BATON_TENSORS_MAX 1024 /* tensors of one rank's cache */
#define BATON_REGIONS_MAX 1024 /* regions of one rank's cache */
#define BATON_GROUPS_MAX 8     /* groups of one cache */
#define BATON_SPLITS_MAX 4     /* splits of one cache */

/** Bytes between neighbours in each direction. */
typedef struct baton_strides {
    int64_t block, plane, head, token, channel;
} baton_strides_t;

typedef struct baton_tensor {
    char name[BATON_NAME_MAX]; /**< matched exactly with the other engine's; unique within the cache */
    uint32_t layer;            /**< the model's layer, in [layer_first, layer_first + layer_count) */
    uint32_t region;           /**< index of the region that holds it: 0 with baton_cache_create */
    uint64_t offset;           /**< bytes from the region's base; no other tensor of its group begins there */
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
                                 the blocks i * n .. i * n + n - 1 described here. 0 means 1. Not for a state */
} baton_group_t;

/** Heads of the model, equal on both sides; and those that this rank holds. Latents have one head. */
typedef struct baton_split {
    uint32_t heads_total, head_first, head_count;
} baton_split_t;

/**
 * What one rank's cache holds, and where. The tensors are copied by the calls that take a geometry. One block of all
 * tensors together has less than 2^32 elements. A model whose layers are alike has one group and one split:
 *
 *   .num_groups = 1, .groups = {{.block_tokens = 16, .num_blocks = 4096}},
 *   .num_splits = 1, .splits = {{.heads_total = 8, .head_first = 0, .head_count = 8}},
 *
 * The tensors that two ranks exchange have at most 16 different shapes. A shape is an element size, and counts and
 * strides on both sides; tensors that are laid out alike share one. A want between ranks with more fails as EGEOMETRY.
 */
typedef struct baton_geometry {
    size_t size;                                     /**< sizeof this: see STRUCTS THAT GROW */
    char model[BATON_NAME_MAX];                      /**< the model's id, not empty, compared exactly */
    char dtype[BATON_DTYPE_MAX];                     /**< "bf16" say, compared exactly */
    uint32_t elem_bytes;                             /**< bytes of one channel's element: 1, 2, 4 or 8 */
    uint32_t planes;                                 /**< 2 (K and V), or 1 where there is one latent */
    uint32_t head_size;                              /**< channels of a head */
    uint32_t layers_total, layer_first, layer_count; /**< layers of the model; those that this rank holds */
    uint32_t num_groups, num_splits;                 /**< at least 1 each */
    baton_group_t groups[BATON_GROUPS_MAX];
    baton_split_t splits[BATON_SPLITS_MAX]; /**< of splits behind the first, heads_total is at most 65535 */
    uint32_t num_tensors;
    const baton_tensor_t *tensors;
    uint64_t bytes; /**< size of the memory that the tensors lie in (region 0) */
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
 * Errors: EINVAL (a size or a number of 0, an unknown bit, more layers than BATON_TENSORS_MAX, or bytes past 2^62).
 */
BATON_API int baton_geometry_layout(baton_geometry_t *geometry, baton_tensor_t *tensors, unsigned layout);

/** The kind of memory that a region of a cache lies in. */
typedef enum baton_memory {
    BATON_MEMORY_HOST = 0,   /**< pages of this process that any of its threads may read and write */
    BATON_MEMORY_PINNED = 1, /**< the same, locked for a device's driver */
    BATON_MEMORY_DEVICE = 2, /**< only a driver may touch it; its copies complete later: see baton_driver_set */
    BATON_MEMORY_SHARED = 3  /**< as BATON_MEMORY_HOST, and other processes of the node can map it too: memfd, a file in
                                  /dev/shm. baton_cache_wrap fails if that is not so */
} baton_memory_t;

typedef struct baton_cache baton_cache_t;

/** Memory that the engine owns, without a break. Of an array of these, all entries have one size. */
typedef struct baton_region {
    size_t size; /**< sizeof this: see STRUCTS THAT GROW */
    void *base;
    uint64_t bytes;
    baton_memory_t kind;
    uint32_t device; /**< BATON_MEMORY_DEVICE: the number of the device; else 0 */
} baton_region_t;

/**
 * Declares that Baton shall allocate the cache: geometry->bytes of host memory, shared with the ranks of the node,
 * aligned to 2 MiB, touched by this rank. Local; the memory is there after baton_start. One cache a context. A rank
 * that moves no blocks may have none. Before baton_start only. *out lives until baton_close.
 * Errors: EINVAL (the field is named), ESTATE, ENOSYS (memory of another kind; a second cache), ENOMEM.
 */
BATON_API int baton_cache_create(baton_t *b, const baton_geometry_t *geometry, baton_memory_t memory,
                                 baton_cache_t **out);

/**
 * Declares memory that the engine owns: num_regions regions, at most BATON_REGIONS_MAX, each of a kind of its own.
 * Tensors name their region by its index, and their offset there; geometry->bytes is ignored. Regions may lie anywhere,
 * aligned or not, in pages of any size, and touch each other, but must not overlap. The memory must stay as it is until
 * baton_close: mapped, and in the same place; after a baton_close that returned BATON_EPEER, until the process ends.
 * Blocks in memory that cannot be written can be offered, not wanted. One cache a context. A file that the memory is
 * mapped from keeps its size meanwhile: a peer that touches what was cut off is ended by SIGBUS. The seal F_SEAL_SHRINK
 * of a memfd makes sure of it.
 *
 * The bytes move from and to where they lie. How, is found out for each pair of regions of two ranks, and
 * baton_describe says it:
 *
 *   on the node   a region that lies in a shared mapping (memfd, a file in /dev/shm, torch's shared tensors) is mapped
 *                 by its peers, and is as fast as memory that Baton allocates; BATON_PATH_SHM
 *                 private memory is copied by cross-memory attach (process_vm_readv(2)); BATON_PATH_CMA
 *   elsewhere     one-sided through a window over it; BATON_PATH_RMA
 *   otherwise     staged through buffers in memory that Baton allocates, which both processes fill and empty: from or
 *                 to a device's memory, and where the kernel (another user, another namespace of process ids,
 *                 ptrace_scope) or MPI permits nothing better; BATON_PATH_STAGED
 *
 * This call is local and returns at once. It comes before baton_start, or later on a rank that opened with
 * BATON_OPEN_CACHE_LATER, as for an engine that measures its memory first. Where such a rank has not declared its cache
 * by baton_start, the verbs of every rank of the world return BATON_EAGAIN until all of them have: see
 * baton_cache_ready. *out lives until baton_close.
 * Errors: EINVAL (the field is named), ESTATE, ENOSYS (a second cache; a device without a driver), ENOMEM, ESYSTEM.
 * After an error the cache is not declared, and the call may be tried again. ESTATE: baton_start was called, and this
 * rank did not open with BATON_OPEN_CACHE_LATER; or start has failed, also while caches were awaited: a rank closed, or
 * BATON_WRAP_MS passed. baton_errmsg then says "start has failed: ..." and why, and only baton_close is left.
 */
BATON_API int baton_cache_wrap(baton_t *b, const baton_geometry_t *geometry, const baton_region_t *regions,
                               uint32_t num_regions, baton_cache_t **out);

/**
 * Whether the caches of all ranks of the world are declared, so that the verbs may be called. Always so after a
 * baton_start for which no cache came late. Never waits for a rank that has not declared its cache. With
 * BATON_PROGRESS_CALLER the call that finds all ranks there goes on with what baton_start left to do: in milliseconds
 * if the other ranks call it too; it waits BATON_START_MS for them, and then start has failed. Any thread, after
 * baton_start; but below MPI_THREAD_MULTIPLE, or where MPI's window is for one thread (baton_describe says so), only
 * calls of the thread that lends itself do that, and others are told so.
 * 0: all are declared. Errors: EAGAIN: not yet, ask again; on rank 0 baton_errmsg names those that are missing, and
 * after 5 s its log does so once. ETIMEDOUT, on all ranks: some did not declare their caches within BATON_WRAP_MS after
 * the first one did, and baton_errmsg names them. ECLOSED, at once on all ranks: one of them closes its context before
 * all caches are declared, as where its baton_cache_wrap failed, and baton_errmsg names it. EPEER, on all ranks: the
 * process of a rank on rank 0's node has ended, which is noticed at once. If it is rank 0 itself, only the ranks of its
 * node notice. A rank of another node that has ended counts as one that does not come: ETIMEDOUT. Or what baton_start
 * can end with. After these only baton_close is left. ESTATE, EINVAL.
 */
BATON_API int baton_cache_ready(baton_t *b);

/**
 * One copy of a driver: `bytes` from device to host or the other way. `host` is of any alignment, and lies in memory
 * that Baton allocated: shared with the node's ranks, or this process's own. It stays until `poll` has handed out the
 * tag. A driver must not register or lock it, since nobody tells the driver when Baton frees it.
 */
typedef struct baton_piece {
    void *device, *host;
    uint64_t bytes;
} baton_piece_t;

/**
 * What copies between a device's memory and the buffers that Baton stages it in. The functions are called by the
 * reactor's thread alone, or by the one that lends itself (see THREADS); and `poll` by the thread of baton_close, after
 * those. They return at once, and call nothing of Baton. baton_driver_set(3) is a guide to writing one.
 */
typedef struct baton_driver {
    size_t size;      /**< sizeof this: see STRUCTS THAT GROW */
    const char *name; /**< for baton_describe; valid until baton_close */
    void *self;       /**< handed to each function */
    /**
     * Begins to copy `num` pieces, at most 1,024, to the device or from it. The pieces are the caller's again at
     * return. Copies may run in any order, also those of several calls; all have ended when `poll` hands out the tag.
     * Returns 0, BATON_EAGAIN (no room: Baton calls again later) or another error; nothing was begun then. A call that
     * failed, or whose tag comes with an error, fails the transfer.
     */
    int (*copy)(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag);
    /**
     * Fills up to `max` tags of calls whose copies have ended, each once, and its error, 0 or BATON_E... Returns how
     * many. A host buffer is as the copies left it for every thread of this process.
     */
    int (*poll)(void *self, uint64_t *tags, int *errors, int max);
} baton_driver_t;

/**
 * Gives the driver of BATON_MEMORY_DEVICE, which must live until baton_close. Before the baton_cache_wrap that needs
 * it.
 * Errors: EINVAL, ESTATE (there is one already, or as baton_cache_wrap).
 */
BATON_API int baton_driver_set(baton_t *b, const baton_driver_t *driver);

/** Region 0's first byte. NULL before baton_start, where the engine owns the memory, in a forked child. Any thread. */
BATON_API void *baton_cache_base(const baton_cache_t *cache);

/* ---- the two verbs ---------------------------------------------------------------------------------------------- */

#define BATON_KEY_MAX 256     /* bytes of a request key, NUL included */
#define BATON_CONSUMERS_MAX 8 /* seats of an offer */
#define BATON_ATTACH_MAX 256  /* bytes of the engine's own carried with an offer */

/*
 * ATTEMPTS. A request that is tried again keeps its key and takes a higher `attempt` (0 where the calls say none).
 * Offer and want meet where both are equal, in either order, so that nothing left of an earlier attempt is taken for
 * the next:
 *
 *   a want of an attempt that has ended, or of one older than that, fails at once as EGONE (for tombstone_ms)
 *   a want of a newer attempt waits for its offer
 *
 * Without attempts (0 on both sides) a key may be used again too. A want that comes after an offer of its key has ended
 * waits for the next offer, until its own deadline. It fails at once as EGONE if it must have been meant for the offer
 * that ended:
 *
 *   that offer granted it
 *   that offer ended before this rank took its part, and the rank's engine had a seat: by name, or since another of its
 *     ranks took a part (only the first such want of the rank fails)
 */

/*
 * ATTACHED BYTES. An offer can carry up to BATON_ATTACH_MAX bytes of the engine's own. They are copied by baton_offer,
 * and handed out with the event of each want that is done and that the offer served. The ranks of an engine attach the
 * same bytes: a want that several ranks serve has those of one of them. A want has none if nothing of it moves (all
 * tokens are held, or none is wanted).
 */

/** Names one accepted call: in its event and for baton_cancel. Never 0, never used twice by a context. */
typedef uint64_t baton_id_t;

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
    size_t size;         /**< sizeof this: see STRUCTS THAT GROW */
    const char *key;     /**< chosen by the engines, 1..255 bytes, unique within the engine while the offer lives */
    uint32_t num_tables; /**< the number of the cache's groups; 0: no blocks, which an offer in chunks may begin
                                       with */
    baton_table_t tables[BATON_GROUPS_MAX]; /**< one a group; each reaches to num_tokens, except in chunks */
    uint32_t num_tokens;                    /**< of the whole request */
    uint32_t ttl_ms;                        /**< the offer expires this long after its last baton_offer, baton_append or
                                       baton_ready. If a want that it granted still lives then: at that want's
                                       deadline. 0: BATON_TTL_MS */
    uint32_t num_consumers;                 /**< seats: 0 means 1. Each is one engine */
    const char *const *consumers; /**< num_consumers engine names; NULL: any engines, bound by their first want */
    const void *attach;           /**< bytes of the engine's own, such as the first token: see ATTACHED BYTES */
    uint32_t num_attach;          /**< at most BATON_ATTACH_MAX */
    uint32_t flags;               /**< an or of baton_offer_flags_t */
    void *user;                   /**< handed back in the event */
    const char *base_key; /**< what offer and want meet by, where the two sides call the request by different keys (say,
                               a suffix of their own); events still carry `key`. NULL: the key itself */
    uint32_t attempt;     /**< beside the key: see ATTEMPTS */
    uint32_t reserved;    /**< 0 */
} baton_offer_params_t;

/**
 * Offers the blocks of a request. Their bytes must be in place (stores before this call are seen by the consumers; with
 * flags, those before the call of baton_ready or baton_append that names them) and stay so until the offer's event.
 * Returns in microseconds; the array is reusable at return. *id may be NULL. Any thread.
 * Ends in one terminal event BATON_EVENT_OFFER, perhaps after a BATON_EVENT_GIVEN_UP: DONE once every rank of every
 * seat that reads from this rank has acknowledged; EXPIRED; CANCELLED by either side; FAILED (EEXIST: the key's former
 * offer lives, or was given up and is not quiet yet; EAGAIN: no room for its block table, BATON_TABLE_BYTES; ESTALL; or
 * what made the consumer fail).
 * A reader of the node that took the offer without a message wakes nobody at its end. DONE then comes within 100 us of
 * the want's event if a thread of the producer does nothing but poll, else within about 2 ms.
 * An offer watches only the ranks that it has granted a want. If a consumer rank is lost before it wants, or its want
 * fails before a producer hears of it (ESOURCE; EAGAIN of a push), the offer ends as EXPIRED, at its time to live.
 * Errors: EAGAIN, EINVAL, EKEY, EBLOCK, ETOKENS, EENGINE, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_offer(baton_t *b, const baton_offer_params_t *params, baton_id_t *id);

typedef struct baton_append_params {
    size_t size;                            /**< sizeof this: see STRUCTS THAT GROW */
    uint32_t num_tokens;                    /**< of the request, so far: more than before, at most those of the offer */
    uint32_t num_tables;                    /**< the number of the cache's groups; 0: all blocks were given before */
    baton_table_t tables[BATON_GROUPS_MAX]; /**< blocks that follow those given so far, with first_token 0 */
} baton_append_params_t;

/**
 * Goes on with an offer with BATON_OFFER_CHUNKS: the first num_tokens tokens of the request are in place and may move
 * while prefill goes on. With BATON_OFFER_LAYERS too, all layers of the tokens before this call are in place, and
 * baton_ready says which layers of the new tokens are. A chunk may begin and end within a block. A recurrent state
 * counts as that of the last chunk. The offer is whole with its last token; each call restarts its time to live.
 * On an offer that has ended, this does nothing and returns 0.
 * A call that does not fit ends the offer as FAILED: EINVAL for an offer without that flag; ETOKENS for no more tokens
 * than before, more than the offer's, fewer blocks than the tokens need, or more blocks than the offer's tokens need.
 * Any thread; returns in microseconds.
 * Errors: EINVAL (an id never given, tables), EBLOCK, ETOKENS (0 tokens), EAGAIN, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_append(baton_t *b, baton_id_t offer, const baton_append_params_t *params);

/**
 * Says that layers [layer_first, layer_first + layer_count) of an offer with BATON_OFFER_LAYERS are in place and may
 * move while prefill goes on. Layers that this rank does not hold are ignored; saying a layer twice does no harm.
 * Consumers take layers in their order: a layer waits for all before it. The offer is whole when all layers are ready;
 * each call restarts its time to live. A prefill that fails cancels its offer.
 * num_tokens is 0, except on an offer in chunks: there it names the chunk, by the num_tokens of its baton_append, so
 * that a late call for one chunk is not taken for the next one.
 * An offer without BATON_OFFER_LAYERS, and an offer in chunks where num_tokens is 0, ends as FAILED, EINVAL.
 * On an offer that has ended, this does nothing and returns 0: an offer may be DONE before it is whole, if its
 * consumers need no more. Any thread; returns in microseconds.
 * Errors: EINVAL (an id never given, no layers, layers past the model's), EAGAIN, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_ready(baton_t *b, baton_id_t offer, uint32_t layer_first, uint32_t layer_count,
                          uint32_t num_tokens);

typedef enum baton_mode {
    BATON_MODE_AUTO = 0, /**< what suits the path; the event says which it was. Pull on all, in this version */
    BATON_MODE_PULL = 1, /**< the consumer reads */
    BATON_MODE_PUSH = 2  /**< the producer writes, as soon as offer and want have met */
} baton_mode_t;

typedef enum baton_want_flags {
    BATON_WANT_ZERO_TAIL = 1, /**< when done, the last block (all that its id stands for) is zero behind num_tokens. Not
                                     for a state, and not where all tokens are held */
    BATON_WANT_AWAIT_ENGINE = 2 /**< where no engine of that name is there, waits for one until the deadline; then
                                     EXPIRED (ETIMEDOUT). Without it: EENGINE at once */
} baton_want_flags_t;

typedef struct baton_want_params {
    size_t size; /**< sizeof this: see STRUCTS THAT GROW */
    const char *key;
    const char *engine;                     /**< the producer's engine */
    uint32_t num_tables;                    /**< the number of the cache's groups; 0: no blocks, where nothing moves */
    baton_table_t tables[BATON_GROUPS_MAX]; /**< where tokens go, one a group; what lies before held_tokens, or before a
                                                 window, need have no block */
    uint32_t num_tokens;  /**< the first num_tokens of the request. A cache with a recurrent state takes all tokens that
                               are offered, since the state is that of the last one. 0, without blocks: nothing is
                               needed, the producer is released */
    uint32_t held_tokens; /**< leading tokens that are here already (a prefix that was reused): they are not moved. At
                               most num_tokens; if all are held, nothing moves and the producer is released */
    uint32_t timeout_ms;  /**< the want's deadline, from the call; 0: BATON_WANT_MS */
    baton_mode_t mode;
    uint32_t flags;       /**< an or of baton_want_flags_t */
    void *user;           /**< handed back in the event */
    const char *base_key; /**< as with an offer. Keys meet exactly */
    uint32_t attempt;     /**< beside the key: see ATTEMPTS */
    uint32_t reserved;    /**< 0 */
    uint64_t life;        /**< of the producer's engine, as baton_engines told it; 0: any. An engine of that name with
                               another life, or none, is EGONE at once: a want never meets a later start by its name */
} baton_want_params_t;

/*
 * REASONS. One cause has one reason, whenever it comes:
 *
 *   cause                                the wants it concerns    other offers of those wants    the offer
 *   a producer rank cancels its offer    FAILED, EGONE            FAILED, EGONE                  CANCELLED, ECANCELED
 *   its time to live passes              FAILED, EGONE            FAILED, EGONE                  EXPIRED, ETIMEDOUT
 *   a baton_append, baton_ready of it
 *     does not fit                       FAILED, EGONE            FAILED, EGONE                  FAILED, its reason
 *   the producer rank closes             FAILED, ECLOSED          FAILED, ECLOSED                FAILED, ECLOSED
 *   it is lost                           FAILED, EPEER            FAILED, EPEER                  (none)
 *   a consumer rank cancels its want     CANCELLED, ECANCELED     CANCELLED, ECANCELED
 *   its deadline passes                  EXPIRED, ETIMEDOUT       FAILED, ETIMEDOUT
 *   it is lost                           (none)                  FAILED, EPEER (those that had granted its want)
 *
 * ESTALE and ECHECKSUM are told only where the bytes may have been wrong: the lease's generation or a hash differs, and
 * the producer knows no other cause.
 */

/**
 * Demands a request's blocks. The blocks belong to Baton until the want's terminal event; the arrays are reusable at
 * return. May come before the offer. Returns in microseconds. Any thread.
 * Nothing beyond num_tokens tokens is written, except zeros where asked for. A block must not stand twice among those
 * that are written (EINVAL). Blocks of two open wants must not overlap: with BATON_PARANOID=1 the second want ends as
 * FAILED, EINVAL; without it this is not checked.
 * Ends in one terminal event BATON_EVENT_WANT, perhaps after a BATON_EVENT_GIVEN_UP: DONE (every byte is there and was
 * fenced), EXPIRED (the deadline passed), CANCELLED, or FAILED with its reason:
 *
 *   EGONE, ECLOSED, EPEER             the offer or its producer ended: see REASONS
 *   ESTALE, ECHECKSUM                 the bytes that came may be wrong: see REASONS
 *   ETOKENS, EGEOMETRY, ESOURCE       the want does not fit the offer or the producer's caches; detail says where.
 *                                     ESOURCE: no rank of the producer's engine holds what is wanted, and none is told
 *   ESEAT                             other engines have all seats of the offer
 *   EEXIST                            the rank's former want of this key from this engine has had neither its terminal
 *                                     event nor a GIVEN_UP
 *   EINVAL                            BATON_PARANOID=1, see above
 *   EAGAIN                            push: no room for its block table; no producer heard of it: want it again later
 *   EMESSAGE, EMPI                    a peer sent something malformed; an MPI call failed
 *   ESYSTEM                           the kernel or a device's driver failed; a driver's own BATON_E... stays as it is
 *   ESTALL                            MPI held the reactor for stall_ms
 *
 * If a rank fails as EPEER, ESTALE or EMPI, or ends its offer while it is read, a pull turns to another rank that holds
 * the same bytes, as soon as what was read of the first is quiet; not with BATON_CHECKSUM. A push is not tried again.
 * With push the producer's ranks write: a want that stops early (deadline, cancel, close) ends once each of them has
 * said that it writes no more. A push takes a lease slot and table room here too (BATON_LEASES, BATON_TABLE_BYTES).
 * Errors: EAGAIN, EINVAL, EKEY, EENGINE, EGONE, EBLOCK, ETOKENS, ESTATE, ESTALL, ENOMEM.
 */
BATON_API int baton_want(baton_t *b, const baton_want_params_t *params, baton_id_t *id);

/**
 * Asks that an offer or want ends. Its terminal event still comes: CANCELLED, unless the call ended otherwise before.
 * On an id that has ended, this does nothing and returns 0. Any thread. Errors: EINVAL (never given), EAGAIN, ESTATE,
 * ESTALL, ENOMEM.
 */
BATON_API int baton_cancel(baton_t *b, baton_id_t id);

/* ---- events ----------------------------------------------------------------------------------------------------- */

/*
 * THE PROMISE. Each accepted offer and want is answered in time, and its blocks are given back exactly once.
 *
 *   - Its terminal event (BATON_EVENT_OFFER or BATON_EVENT_WANT) comes exactly once, and always means that the blocks
 *     are the caller's again. An engine that handles nothing but terminal events is safe.
 *   - Where Baton cannot know in time that the blocks are quiet, one BATON_EVENT_GIVEN_UP comes before the terminal
 *     event. The call has failed, for the reason in `error`; its blocks are still Baton's.
 *
 * In time means: at the latest quiet_ms, and a few ms more, after the call's deadline or after the loss of the peer
 * that it failed with.
 * The deadline of a want is its timeout_ms after the call. The deadline of an offer is its time to live after its last
 * baton_offer, baton_append or baton_ready, or the deadline of the last want that it granted, if that is later. A
 * cancelled call keeps its deadline. Where MPI holds the reactor, or the thread that should do its work gets no CPU, a
 * watchdog thread keeps the promise; with BATON_PROGRESS_CALLER the time runs from when MPI returns to the caller.
 *
 *   the call is     the engine                                             next
 *   open            leaves the blocks alone                                GIVEN_UP or the terminal event
 *   given up        fails the request or computes it elsewhere and goes    the terminal event, with the same status and
 *                   on; leaves the blocks alone; may want the key again    error, when the blocks are quiet
 *                   into other blocks
 *   ended           owns the blocks                                        nothing
 *
 * A call that was given up is never DONE on this side; the other side of the transfer may end as DONE. Blocks are quiet
 * when nothing of the transfer can write into them or send from them any more. A call is given up when a peer that was
 * to write here died or fell silent, when an MPI operation on the blocks does not complete, or when MPI does not
 * return.
 * A call whose blocks are still not quiet in baton_close has no terminal event. Its blocks must not be used until the
 * process has ended. After the loss of a rank this may happen to every call that was given up. So before it closes, an
 * engine waits for the answer to each call (GIVEN_UP or the terminal event), not for terminal events after a GIVEN_UP.
 */
typedef enum baton_event_type {
    BATON_EVENT_OFFER = 1,
    BATON_EVENT_WANT = 2,
    BATON_EVENT_GIVEN_UP = 3, /**< see THE PROMISE; `of` says what it is about */
    BATON_EVENT_VERDICT = 4,  /**< see VERDICTS */
    BATON_EVENT_ENGINES = 5   /**< see baton_engines */
} baton_event_type_t;

/**
 * VERDICTS. An engine that asked for them hears how each request ended for the engine as a whole. Each rank's call of
 * one key, attempt and verb takes part in one round; a second such call of the same rank belongs to the next round. The
 * round ends when every rank that holds a part of the cache has had its event, when one of them is lost, or
 * BATON_VERDICT_MS after the first event. Then every rank (or the first alone) gets one BATON_EVENT_VERDICT with the
 * same status, error, peer and detail:
 *
 *   all ranks were done    DONE
 *   some were not          the worst of failed, expired, cancelled; `peer` is the member of the engine where it arose
 *   some were silent       FAILED with ETIMEDOUT, or EPEER where one is lost; `peer` is the first silent one, `detail`
 *                          says where it stands (in a handshake, say)
 *
 * `of` says whether offers or wants are meant. `id` and `user` are those of this rank's own call, 0 and NULL if it made
 * none. A call that was given up counts as failed from then on. A call that ended as EEXIST has no verdict. After a
 * verdict that named a silent rank, try again with a higher attempt.
 */
enum baton_verdict_place { BATON_VERDICT_NONE = 0, BATON_VERDICT_FOLLOWS = 1, BATON_VERDICT_CAME = 2 };

typedef enum baton_status {
    BATON_STATUS_DONE = 1,
    BATON_STATUS_FAILED = 2,
    BATON_STATUS_EXPIRED = 3,
    BATON_STATUS_CANCELLED = 4
} baton_status_t;

/**
 * "offer", "want", "given up", "verdict", "engines"; "unknown" for any other number. Any thread. Never NULL, never
 * freed.
 */
BATON_API const char *baton_event_name(baton_event_type_t type);

/** "done", "failed", "expired", "cancelled"; "unknown" for any other number. Any thread. Never NULL, never freed. */
BATON_API const char *baton_status_name(baton_status_t status);

/**
 * How a rank reaches another one's memory. The two directions may differ: where the producer's memory is private and
 * the consumer's in a memfd, the consumer pulls by CMA, and the producer pushes by SHM. A rank knows its own direction
 * alone, in baton_describe, baton_stats and events.
 */
typedef enum baton_path {
    BATON_PATH_NONE = 0,
    BATON_PATH_SHM = 1,   /**< the peer's memory is mapped here; copy workers copy */
    BATON_PATH_RMA = 2,   /**< one-sided operations of MPI */
    BATON_PATH_CMA = 3,   /**< cross-memory attach, by copy workers */
    BATON_PATH_STAGED = 4 /**< through buffers that both processes fill and empty */
} baton_path_t;
#define BATON_PATHS 8 /* more than there are paths */

typedef struct baton_event {
    size_t size; /**< bytes that the library filled */
    baton_event_type_t type;
    baton_status_t status;
    int error; /**< 0 when done, else the reason, BATON_E... */
    baton_id_t id;
    char key[BATON_KEY_MAX];
    uint32_t attempt;  /**< the call's */
    baton_mode_t mode; /**< want: BATON_MODE_PULL or BATON_MODE_PUSH */
    void *user;
    uint32_t given_up;   /**< of a terminal event: 1 if a BATON_EVENT_GIVEN_UP of this id came before it */
    uint32_t num_blocks; /**< blocks of the call, in all its tables, counted as its geometry describes them (where an id
                               stands for several, each counts) */
    uint64_t peer;       /**< number of the member that it failed with or at (baton_engine_rank_t); 0: none */
    uint64_t peer_life;  /**< life of that member's engine, */
    char peer_engine[BATON_ENGINE_NAME_MAX]; /**< the engine's name, "": none, */
    uint32_t peer_rank;                      /**< and the member's index there: pp_rank * tp + tp_rank */
    uint32_t num_attach;                     /**< want that is done: see ATTACHED BYTES; else 0 */
    unsigned char attach[BATON_ATTACH_MAX];
    uint64_t bytes;                   /**< want: bytes moved */
    uint64_t path_bytes[BATON_PATHS]; /**< the same, by path: of a push by the one of the producer's to this
                                           rank's memory by which most of it went */
    uint64_t version;                 /**< BATON_EVENT_ENGINES: as of baton_engines; else 0 */
    uint64_t wait_ns;      /**< from the call to the match: the last grant of a want, the first of an offer */
    uint64_t total_ns;     /**< from the call to this event */
    uint32_t verdict;      /**< of a GIVEN_UP or terminal event: BATON_VERDICT_FOLLOWS, BATON_VERDICT_CAME or
                                BATON_VERDICT_NONE: whether the call's BATON_EVENT_VERDICT is still to come */
    baton_event_type_t of; /**< given up, verdict: BATON_EVENT_OFFER or BATON_EVENT_WANT */
    char detail[128];      /**< what differs or who was silent, in words; empty when done */
} baton_event_t;

/**
 * Takes up to `max` events. Returns how many (0: none wait) or an error. Never blocks. Takes microseconds, unless it
 * yields. Any thread.
 * If another thread makes the progress, as between nodes, a thread that polls again and again yields its CPU at each
 * poll that finds nothing (sched_yield). That begins once its polls have followed each other within 50 us for 100 us.
 * Such a call returns when the scheduler gives the thread its CPU back: after a time slice, if a thread that computes
 * has it.
 * With BATON_PROGRESS_CALLER it makes a turn of the reactor first, in the thread that lends itself (see THREADS).
 * Each event is handed out once. Errors: EINVAL, ESTATE (see FORK).
 */
BATON_API int baton_poll_sized(baton_t *b, void *events, int max, size_t size);

static inline int baton_poll(baton_t *b, baton_event_t *events, int max)
{
    return baton_poll_sized(b, events, max, sizeof *events);
}

/**
 * A descriptor that polls readable (POLLIN) while events wait, for an engine's own loop. It belongs to the context: do
 * not read it or close it. Any thread, after baton_open. Errors: EINVAL, ESTATE (see FORK).
 * Readable means that baton_poll should be called. It may return 0: where a poll takes an event in the moment in which
 * the event comes, the descriptor may become readable once for nothing. That is rare: less than one wake-up in a
 * hundred. The descriptor stays readable while events are left.
 * With BATON_PROGRESS_CALLER it is readable also when a turn is due, so that a loop of poll(2) and baton_poll goes on:
 * at once while something is under way that only MPI calls move, else after idle_us at the latest; baton_poll
 * then often returns 0. It cannot tell in that mode that a message arrived, and nothing moves while the thread that
 * lends itself does not call.
 */
BATON_API int baton_event_fd(const baton_t *b);

/**
 * One turn of the reactor in the calling thread: BATON_PROGRESS_CALLER only. Never sleeps. The calling thread lends
 * itself from now on (see THREADS), also where caches are awaited and no turn can be made yet (EAGAIN); while another
 * thread is inside a turn, this makes none. Returns the number of events that wait, or an error. Errors: EAGAIN,
 * ESTATE, EINVAL.
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

#define BATON_REASONS 64 /* more than there are error numbers */

/** What this rank knows of one other. */
typedef struct baton_peer_stats {
    baton_path_t path;
    uint64_t failures;                  /**< calls that ended with this rank as the event's peer */
    uint64_t reasons[BATON_REASONS];    /**< the same by reason: [-error] */
    char engine[BATON_ENGINE_NAME_MAX]; /**< its engine */
} baton_peer_stats_t;

/**
 * Counts of this rank alone, as of the reactor's last look: never older than the last event that was handed out. At the
 * end stands what is filled beside them if the caller asks for it.
 */
typedef struct baton_stats {
    size_t size; /**< sizeof this: see STRUCTS THAT GROW */
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
    uint64_t ends_unanswered;         /**< ends of wants that a producer rank was told, and never acknowledged */
    uint64_t stale;                   /**< legs whose generation had changed at the re-read */
    uint64_t flushes, settled,
        poisoned;           /**< MPI_Win_flush calls; completions that only a flush brought; peers given up */
    uint64_t again;         /**< calls refused with BATON_EAGAIN */
    uint64_t turns, sleeps; /**< turns, and sleeps of the reactor between them */
    uint64_t turns_calls, turns_polls, turns_workers,
        turns_doorbell;   /**< of the turns, those made while it slept by calls, polls, copy workers, the doorbell */
    uint64_t given_up;    /**< BATON_EVENT_GIVEN_UPs told by the reactor */
    uint64_t quarantined; /**< gauge: calls that were given up and are not quiet yet */
    uint64_t leases_live, wants_live, legs_live, pushes_live, reads_parked; /**< gauges */
    uint32_t peers[BATON_PATHS]; /**< ranks of the world by the path they use */
    uint64_t reasons
        [BATON_REASONS];      /**< ends by reason: [-error], BATON_E...; [0]: numbers that this version does not know */
    baton_pending_t *pending; /**< the caller's array for max_pending engines; NULL: none is asked for */
    baton_peer_stats_t *peer_stats;    /**< the caller's array for num_peers ranks; NULL: none is asked for */
    uint32_t max_pending, num_pending; /**< num_pending: how many were filled; 64 at most are known at a time */
    uint32_t first_peer, num_peers;    /**< peer_stats[i] is of rank first_peer + i of the world */
} baton_stats_t;

/**
 * Fills *stats, whose size is set, and the arrays that it names. The counts have all events that were polled before.
 * Nobody is waited for: numbers that change meanwhile may be of different moments. Only where engines are asked for
 * (max_pending) the reactor may be woken, and waited for a millisecond at most, to look once more. Any thread; after
 * baton_start where ranks are asked for (num_peers). Errors: EINVAL, ESTATE.
 */
BATON_API int baton_stats(baton_t *b, baton_stats_t *stats);

/**
 * Writes what was built into text of at most `size` bytes, NUL included: node, windows and their components, quirks,
 * path per peer, thread mode, hardware threads, NUMA node of the cache. Returns the length without NUL that it would
 * have had. Any thread, after baton_start. Errors: EINVAL, ESTATE.
 */
BATON_API int baton_describe(const baton_t *b, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* BATON_H */
