# SPDX-License-Identifier: BSD-3-Clause
"""Made from baton.h by include/python/declare: do not edit."""
from __future__ import annotations

import enum
from dataclasses import dataclass

from ._number import Error, Number

VERSION = "0.2.0"

ENGINE_NAME_MAX = 64
ENGINE_RANKS_MAX = 1024
COMM_NULL_F = -1
HOST_MAX = 64
NAME_MAX = 64
DTYPE_MAX = 16
TENSORS_MAX = 1024
REGIONS_MAX = 1024
GROUPS_MAX = 8
SPLITS_MAX = 4
KEY_MAX = 256
CONSUMERS_MAX = 8
ATTACH_MAX = 256
PATHS = 8
REASONS = 64

CDEF = """
const char *baton_version(void);
enum baton_errno {
    BATON_OK = 0,
    BATON_EINVAL = -1,
    BATON_EAGAIN = -2,
    BATON_ENOMEM = -3,
    BATON_ENOSYS = -4,
    BATON_ESTATE = -5,
    BATON_ESETTING = -6,
    BATON_EENGINE = -7,
    BATON_EGEOMETRY = -8,
    BATON_EBLOCK = -9,
    BATON_ETOKENS = -10,
    BATON_EKEY = -11,
    BATON_EEXIST = -12,
    BATON_EGONE = -13,
    BATON_ESTALE = -14,
    BATON_ETIMEDOUT = -15,
    BATON_ECANCELED = -16,
    BATON_EPEER = -17,
    BATON_ETHREAD = -18,
    BATON_EWINDOW = -19,
    BATON_ESHM = -20,
    BATON_EMPI = -21,
    BATON_EMESSAGE = -22,
    BATON_ESEAT = -23,
    BATON_ESOURCE = -24,
    BATON_ECLOSED = -25,
    BATON_ESYSTEM = -26,
    BATON_EBUSY = -27,
    BATON_ESTALL = -28,
    BATON_ECHECKSUM = -29,
};
const char *baton_strerror(int error);
const char *baton_errname(int error);
const char *baton_errmsg(void);
typedef enum baton_log_level {
    BATON_LOG_ERROR = 1,
    BATON_LOG_WARNING = 2,
    BATON_LOG_INFO = 3,
    BATON_LOG_DEBUG = 4,
} baton_log_level_t;
typedef struct baton_log_source {
    size_t size;
    uint64_t life;
    uint32_t rank;
    int32_t world_rank;
    char engine[64];
} baton_log_source_t;
typedef void (*baton_log_fn)(void *user, baton_log_level_t level, const baton_log_source_t *source,
    const char *line);
void baton_log_set(baton_log_fn callback, void *user);
typedef struct baton baton_t;
typedef enum baton_role { BATON_ROLE_PREFILL = 1, BATON_ROLE_DECODE = 2, BATON_ROLE_BOTH = 3 } baton_role_t;
typedef enum baton_progress_mode {
    BATON_PROGRESS_AUTO = 0,
    BATON_PROGRESS_THREAD = 1,
    BATON_PROGRESS_CALLER = 2,
} baton_progress_mode_t;
typedef enum baton_verdicts {
    BATON_VERDICTS_NONE = 0,
    BATON_VERDICTS_ALL = 1,
    BATON_VERDICTS_LEADER = 2,
} baton_verdicts_t;
typedef enum baton_open_flags { BATON_OPEN_CACHE_LATER = 1, BATON_OPEN_ENGINES = 2 } baton_open_flags_t;
typedef struct baton_open_params {
    size_t size;
    char engine[64];
    baton_role_t role;
    uint32_t tp, pp;
    uint32_t tp_rank, pp_rank;
    baton_progress_mode_t progress;
    baton_verdicts_t verdicts;
    uint32_t flags;
} baton_open_params_t;
int baton_role_from_env(baton_open_params_t *params);
int baton_open_f(int comm, const baton_open_params_t *params, baton_t **out);
int baton_start(baton_t *b);
typedef enum baton_distance {
    BATON_DISTANCE_SELF = 0,
    BATON_DISTANCE_NUMA = 20,
    BATON_DISTANCE_PACKAGE = 30,
    BATON_DISTANCE_NODE = 40,
    BATON_DISTANCE_WORLD = 60,
} baton_distance_t;
typedef struct baton_engine {
    size_t size;
    char name[64];
    baton_role_t role;
    uint32_t tp, pp;
    uint32_t num_ranks;
    baton_distance_t distance;
    uint32_t nearest;
    uint64_t life;
} baton_engine_t;
int baton_engines_sized(const baton_t *b, uint64_t *version, void *out, int max, size_t size);
typedef struct baton_engine_rank {
    size_t size;
    uint64_t number;
    uint32_t pp_rank, tp_rank;
    baton_distance_t distance;
    int32_t world_rank;
    char host[64];
} baton_engine_rank_t;
int baton_engine_ranks_sized(const baton_t *b, const char *engine, void *out, int max, size_t size);
int baton_close(baton_t *b);
void baton_exit(int status);
typedef struct baton_strides { int64_t block, plane, head, token, channel; } baton_strides_t;
typedef struct baton_tensor {
    char name[64];
    uint32_t layer;
    uint32_t region;
    uint64_t offset;
    baton_strides_t stride;
    uint32_t group, split;
    uint32_t planes, head_size, elem_bytes;
} baton_tensor_t;
typedef enum baton_kind { BATON_KIND_FULL = 0, BATON_KIND_WINDOW = 1, BATON_KIND_STATE = 2 } baton_kind_t;
typedef struct baton_group {
    baton_kind_t kind;
    uint32_t block_tokens;
    uint32_t num_blocks;
    uint32_t window_tokens;
    uint32_t blocks_per_id;
} baton_group_t;
typedef struct baton_split { uint32_t heads_total, head_first, head_count; } baton_split_t;
typedef struct baton_geometry {
    size_t size;
    char model[64];
    char dtype[16];
    uint32_t elem_bytes;
    uint32_t planes;
    uint32_t head_size;
    uint32_t layers_total, layer_first, layer_count;
    uint32_t num_groups, num_splits;
    baton_group_t groups[8];
    baton_split_t splits[4];
    uint32_t num_tensors;
    const baton_tensor_t *tensors;
    uint64_t bytes;
} baton_geometry_t;
typedef enum baton_layout {
    BATON_LAYOUT_HND = 0,
    BATON_LAYOUT_NHD = 1,
    BATON_LAYOUT_KV_SEPARATE = 0,
    BATON_LAYOUT_KV_BLOCK = 2,
    BATON_LAYOUT_KV_FUSED = 4,
    BATON_LAYOUT_LAYER_MAJOR = 0,
    BATON_LAYOUT_BLOCK_MAJOR = 8,
} baton_layout_t;
int baton_geometry_layout(baton_geometry_t *geometry, baton_tensor_t *tensors, unsigned layout);
typedef enum baton_memory {
    BATON_MEMORY_HOST = 0,
    BATON_MEMORY_PINNED = 1,
    BATON_MEMORY_DEVICE = 2,
    BATON_MEMORY_SHARED = 3,
} baton_memory_t;
typedef struct baton_cache baton_cache_t;
typedef struct baton_region {
    size_t size;
    void *base;
    uint64_t bytes;
    baton_memory_t kind;
    uint32_t device;
} baton_region_t;
int baton_cache_create(baton_t *b, const baton_geometry_t *geometry, baton_memory_t memory, baton_cache_t **out);
int baton_cache_wrap(baton_t *b, const baton_geometry_t *geometry, const baton_region_t *regions,
    uint32_t num_regions, baton_cache_t **out);
int baton_cache_ready(baton_t *b);
typedef struct baton_piece { void *device, *host; uint64_t bytes; } baton_piece_t;
typedef struct baton_driver {
    size_t size;
    const char *name;
    void *self;
    int (*copy)(void *self, const baton_piece_t *pieces, uint32_t num, int to_device, uint64_t tag);
    int (*poll)(void *self, uint64_t *tags, int *errors, int max);
} baton_driver_t;
int baton_driver_set(baton_t *b, const baton_driver_t *driver);
void *baton_cache_base(const baton_cache_t *cache);
typedef uint64_t baton_id_t;
typedef struct baton_table { const uint32_t *blocks; uint32_t num_blocks; uint32_t first_token; } baton_table_t;
typedef enum baton_offer_flags { BATON_OFFER_LAYERS = 1, BATON_OFFER_CHUNKS = 2 } baton_offer_flags_t;
typedef struct baton_offer_params {
    size_t size;
    const char *key;
    uint32_t num_tables;
    baton_table_t tables[8];
    uint32_t num_tokens;
    uint32_t ttl_ms;
    uint32_t num_consumers;
    const char *const *consumers;
    const void *attach;
    uint32_t num_attach;
    uint32_t flags;
    void *user;
    const char *base_key;
    uint32_t attempt;
    uint32_t reserved;
} baton_offer_params_t;
int baton_offer(baton_t *b, const baton_offer_params_t *params, baton_id_t *id);
typedef struct baton_append_params {
    size_t size;
    uint32_t num_tokens;
    uint32_t num_tables;
    baton_table_t tables[8];
} baton_append_params_t;
int baton_append(baton_t *b, baton_id_t offer, const baton_append_params_t *params);
int baton_ready(baton_t *b, baton_id_t offer, uint32_t layer_first, uint32_t layer_count, uint32_t num_tokens);
typedef enum baton_mode { BATON_MODE_AUTO = 0, BATON_MODE_PULL = 1, BATON_MODE_PUSH = 2 } baton_mode_t;
typedef enum baton_want_flags { BATON_WANT_ZERO_TAIL = 1, BATON_WANT_AWAIT_ENGINE = 2 } baton_want_flags_t;
typedef struct baton_want_params {
    size_t size;
    const char *key;
    const char *engine;
    uint32_t num_tables;
    baton_table_t tables[8];
    uint32_t num_tokens;
    uint32_t held_tokens;
    uint32_t timeout_ms;
    baton_mode_t mode;
    uint32_t flags;
    void *user;
    const char *base_key;
    uint32_t attempt;
    uint32_t reserved;
    uint64_t life;
} baton_want_params_t;
int baton_want(baton_t *b, const baton_want_params_t *params, baton_id_t *id);
int baton_cancel(baton_t *b, baton_id_t id);
typedef enum baton_event_type {
    BATON_EVENT_OFFER = 1,
    BATON_EVENT_WANT = 2,
    BATON_EVENT_GIVEN_UP = 3,
    BATON_EVENT_VERDICT = 4,
    BATON_EVENT_ENGINES = 5,
} baton_event_type_t;
enum baton_verdict_place { BATON_VERDICT_NONE = 0, BATON_VERDICT_FOLLOWS = 1, BATON_VERDICT_CAME = 2 };
typedef enum baton_status {
    BATON_STATUS_DONE = 1,
    BATON_STATUS_FAILED = 2,
    BATON_STATUS_EXPIRED = 3,
    BATON_STATUS_CANCELLED = 4,
} baton_status_t;
const char *baton_event_name(baton_event_type_t type);
const char *baton_status_name(baton_status_t status);
typedef enum baton_path {
    BATON_PATH_NONE = 0,
    BATON_PATH_SHM = 1,
    BATON_PATH_RMA = 2,
    BATON_PATH_CMA = 3,
    BATON_PATH_STAGED = 4,
} baton_path_t;
typedef struct baton_event {
    size_t size;
    baton_event_type_t type;
    baton_status_t status;
    int error;
    baton_id_t id;
    char key[256];
    uint32_t attempt;
    baton_mode_t mode;
    void *user;
    uint32_t given_up;
    uint32_t num_blocks;
    uint64_t peer;
    uint64_t peer_life;
    char peer_engine[64];
    uint32_t peer_rank;
    uint32_t num_attach;
    unsigned char attach[256];
    uint64_t bytes;
    uint64_t path_bytes[8];
    uint64_t version;
    uint64_t wait_ns;
    uint64_t total_ns;
    uint32_t verdict;
    baton_event_type_t of;
    char detail[128];
} baton_event_t;
int baton_poll_sized(baton_t *b, void *events, int max, size_t size);
int baton_event_fd(const baton_t *b);
int baton_progress(baton_t *b);
typedef struct baton_pending {
    char engine[64];
    uint32_t ranks_needed, ranks_known;
    uint32_t attempts;
    uint32_t wants;
    uint64_t waiting_ns;
} baton_pending_t;
typedef struct baton_peer_stats {
    baton_path_t path;
    uint64_t failures;
    uint64_t reasons[64];
    char engine[64];
} baton_peer_stats_t;
typedef struct baton_stats {
    size_t size;
    uint64_t offers, offers_done, offers_failed, offers_expired, offers_cancelled;
    uint64_t wants, wants_done, wants_failed, wants_expired, wants_cancelled;
    uint64_t bytes[8];
    uint64_t gets, puts;
    uint64_t handshakes, handshake_ns_sum, handshake_ns_max, handshake_retries;
    uint64_t messages_sent, messages_received, messages_bad, messages_unknown;
    uint64_t retries;
    uint64_t peers_lost, peers_returned;
    uint64_t leases_extended;
    uint64_t verdicts, verdicts_lost;
    uint64_t ends_unanswered;
    uint64_t stale;
    uint64_t flushes, settled, poisoned;
    uint64_t again;
    uint64_t turns, sleeps;
    uint64_t turns_calls, turns_polls, turns_workers, turns_doorbell;
    uint64_t given_up;
    uint64_t quarantined;
    uint64_t leases_live, wants_live, legs_live, pushes_live, reads_parked;
    uint32_t peers[8];
    uint64_t reasons [64];
    baton_pending_t *pending;
    baton_peer_stats_t *peer_stats;
    uint32_t max_pending, num_pending;
    uint32_t first_peer, num_peers;
} baton_stats_t;
int baton_stats(baton_t *b, baton_stats_t *stats);
int baton_describe(const baton_t *b, char *text, size_t size);
"""


class Role(Number):
    PREFILL = 1
    DECODE = 2
    BOTH = 3


class Progress(Number):
    AUTO = 0
    THREAD = 1
    CALLER = 2


class OpenFlags(enum.IntFlag):
    CACHE_LATER = 1
    ENGINES = 2


class Verdicts(Number):
    NONE = 0
    ALL = 1
    LEADER = 2


class Distance(Number):
    SELF = 0
    NUMA = 20
    PACKAGE = 30
    NODE = 40
    WORLD = 60


class Kind(Number):
    FULL = 0
    WINDOW = 1
    STATE = 2


class Layout(enum.IntFlag):
    HND = 0
    NHD = 1
    KV_SEPARATE = 0
    KV_BLOCK = 2
    KV_FUSED = 4
    LAYER_MAJOR = 0
    BLOCK_MAJOR = 8


class Memory(Number):
    HOST = 0
    PINNED = 1
    DEVICE = 2
    SHARED = 3


class OfferFlags(enum.IntFlag):
    LAYERS = 1
    CHUNKS = 2


class Mode(Number):
    AUTO = 0
    PULL = 1
    PUSH = 2


class WantFlags(enum.IntFlag):
    ZERO_TAIL = 1
    AWAIT_ENGINE = 2


class EventType(Number):
    OFFER = 1
    WANT = 2
    GIVEN_UP = 3
    VERDICT = 4
    ENGINES = 5


class VerdictPlace(Number):
    NONE = 0
    FOLLOWS = 1
    CAME = 2


class Status(Number):
    DONE = 1
    FAILED = 2
    EXPIRED = 3
    CANCELLED = 4


class Path(Number):
    NONE = 0
    SHM = 1
    RMA = 2
    CMA = 3
    STAGED = 4


class EINVAL(Error):
    """Invalid argument."""

    errno = -1


class EAGAIN(Error):
    """Not now: call again, after events were read or caches came."""

    errno = -2


class ENOMEM(Error):
    """Out of memory."""

    errno = -3


class ENOSYS(Error):
    """Not supported by this version."""

    errno = -4


class ESTATE(Error):
    """Called in the wrong state."""

    errno = -5


class ESETTING(Error):
    """A setting in the environment has a bad value."""

    errno = -6


class EENGINE(Error):
    """No engine of that name in this world."""

    errno = -7


class EGEOMETRY(Error):
    """The two caches do not match."""

    errno = -8


class EBLOCK(Error):
    """A block id lies outside the cache."""

    errno = -9


class ETOKENS(Error):
    """More tokens than the blocks hold or the offer has."""

    errno = -10


class EKEY(Error):
    """A request key must have 1 to 255 bytes."""

    errno = -11


class EEXIST(Error):
    """A call with that key is still open on this rank."""

    errno = -12


class EGONE(Error):
    """The offer has ended."""

    errno = -13


class ESTALE(Error):
    """The lease's generation changed, or could not be read again: the bytes are not those offered."""

    errno = -14


class ETIMEDOUT(Error):
    """The deadline passed."""

    errno = -15


class ECANCELED(Error):
    """Cancelled."""

    errno = -16


class EPEER(Error):
    """A peer is lost or does not answer."""

    errno = -17


class ETHREAD(Error):
    """MPI gives less thread support than asked for."""

    errno = -18


class EWINDOW(Error):
    """An MPI window could not be created."""

    errno = -19


class ESHM(Error):
    """Too little shared memory."""

    errno = -20


class EMPI(Error):
    """An MPI call failed."""

    errno = -21


class EMESSAGE(Error):
    """A malformed or unexpected message, card or table arrived."""

    errno = -22


class ESEAT(Error):
    """Every seat of the offer is taken by another engine."""

    errno = -23


class ESOURCE(Error):
    """No rank of the engine holds a part that is wanted."""

    errno = -24


class ECLOSED(Error):
    """The context is closing."""

    errno = -25


class ESYSTEM(Error):
    """An operating system call failed."""

    errno = -26


class EBUSY(Error):
    """The peer is at its limit."""

    errno = -27


class ESTALL(Error):
    """The reactor is stuck inside MPI."""

    errno = -28


class ECHECKSUM(Error):
    """The bytes that arrived are not those that were offered."""

    errno = -29


ERRORS: dict[int, type[Error]] = {
    -1: EINVAL,
    -2: EAGAIN,
    -3: ENOMEM,
    -4: ENOSYS,
    -5: ESTATE,
    -6: ESETTING,
    -7: EENGINE,
    -8: EGEOMETRY,
    -9: EBLOCK,
    -10: ETOKENS,
    -11: EKEY,
    -12: EEXIST,
    -13: EGONE,
    -14: ESTALE,
    -15: ETIMEDOUT,
    -16: ECANCELED,
    -17: EPEER,
    -18: ETHREAD,
    -19: EWINDOW,
    -20: ESHM,
    -21: EMPI,
    -22: EMESSAGE,
    -23: ESEAT,
    -24: ESOURCE,
    -25: ECLOSED,
    -26: ESYSTEM,
    -27: EBUSY,
    -28: ESTALL,
    -29: ECHECKSUM,
}


@dataclass(frozen=True)
class Stats:
    """See baton_stats_t in baton.h."""

    offers: int
    offers_done: int
    offers_failed: int
    offers_expired: int
    offers_cancelled: int
    wants: int
    wants_done: int
    wants_failed: int
    wants_expired: int
    wants_cancelled: int
    bytes: tuple[int, ...]
    gets: int
    puts: int
    handshakes: int
    handshake_ns_sum: int
    handshake_ns_max: int
    handshake_retries: int
    messages_sent: int
    messages_received: int
    messages_bad: int
    messages_unknown: int
    retries: int
    peers_lost: int
    peers_returned: int
    leases_extended: int
    verdicts: int
    verdicts_lost: int
    ends_unanswered: int
    stale: int
    flushes: int
    settled: int
    poisoned: int
    again: int
    turns: int
    sleeps: int
    turns_calls: int
    turns_polls: int
    turns_workers: int
    turns_doorbell: int
    given_up: int
    quarantined: int
    leases_live: int
    wants_live: int
    legs_live: int
    pushes_live: int
    reads_parked: int
    peers: tuple[int, ...]
    reasons: tuple[int, ...]


@dataclass(frozen=True)
class PeerStats:
    """See baton_peer_stats_t in baton.h."""

    path: Path
    failures: int
    reasons: tuple[int, ...]
    engine: str


@dataclass(frozen=True)
class Pending:
    """See baton_pending_t in baton.h."""

    engine: str
    ranks_needed: int
    ranks_known: int
    attempts: int
    wants: int
    waiting_ns: int


__all__ = [
    "Role",
    "Progress",
    "OpenFlags",
    "Verdicts",
    "Distance",
    "Kind",
    "Layout",
    "Memory",
    "OfferFlags",
    "Mode",
    "WantFlags",
    "EventType",
    "VerdictPlace",
    "Status",
    "Path",
    "EINVAL",
    "EAGAIN",
    "ENOMEM",
    "ENOSYS",
    "ESTATE",
    "ESETTING",
    "EENGINE",
    "EGEOMETRY",
    "EBLOCK",
    "ETOKENS",
    "EKEY",
    "EEXIST",
    "EGONE",
    "ESTALE",
    "ETIMEDOUT",
    "ECANCELED",
    "EPEER",
    "ETHREAD",
    "EWINDOW",
    "ESHM",
    "EMPI",
    "EMESSAGE",
    "ESEAT",
    "ESOURCE",
    "ECLOSED",
    "ESYSTEM",
    "EBUSY",
    "ESTALL",
    "ECHECKSUM",
    "Stats",
    "PeerStats",
    "Pending",
    "VERSION",
    "ENGINE_NAME_MAX",
    "ENGINE_RANKS_MAX",
    "COMM_NULL_F",
    "HOST_MAX",
    "NAME_MAX",
    "DTYPE_MAX",
    "TENSORS_MAX",
    "REGIONS_MAX",
    "GROUPS_MAX",
    "SPLITS_MAX",
    "KEY_MAX",
    "CONSUMERS_MAX",
    "ATTACH_MAX",
    "PATHS",
    "REASONS",
]
