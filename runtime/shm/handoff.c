/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff: see handoff.h. An area has, one behind the other:
 *
 *   told      a bit a slot: a reader has said something of its lease; before them a bit for each word of those
 *   engines   HANDOFF_ENGINES words: the identity of one; 0: free. Whoever first names an engine here puts it there
 *   index     words: 32 bits of a hash of key and attempt, and the slot + 1; 0: free
 *   records   a slot: the generation, its reason, its seats, and what is known of the offer, in words
 *   readers   a word a slot and place
 *
 * A word about a lease has 40 bits of its generation, so that what a slow thread says is not taken for a word about a
 * later lease of the slot. They do not come round: that is 10^12 leases.
 */
#include "shm/handoff.h"

#include <stddef.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ENTRIES_TRIED 16u
#define ENTRIES_A_SLOT 2u
#define PAYLOAD_WORDS ((uint32_t)(sizeof(struct handoff_offer) + 7) / 8)
#define ATTACH_AT offsetof(struct handoff_offer, attach)
#define NAME_AT offsetof(struct handoff_offer, name)
#define KEY_AT (NAME_AT + offsetof(struct handoff_name, key))
_Static_assert(sizeof(struct handoff_offer) % 8 == 0, "it is moved in words");

struct record {
    _Atomic uint64_t generation;
    _Atomic uint64_t reason;
    _Atomic uint64_t hash; /* of its name; the producer's alone */
    _Atomic uint64_t seats[BATON_CONSUMERS_MAX];
    _Atomic uint64_t payload[PAYLOAD_WORDS]; /* a struct handoff_offer */
};

/* ---- where things lie -------------------------------------------------------------------------------------------- */

static uint32_t told_words(uint32_t slots)
{
    return (slots + 63) / 64;
}

/* The words whose bits say which told words have a bit set. */
static uint32_t told_heads(uint32_t slots)
{
    return (told_words(slots) + 63) / 64;
}

static uint32_t entries(uint32_t slots)
{
    return slots * ENTRIES_A_SLOT + ENTRIES_TRIED;
}

uint64_t handoff_bytes(uint32_t slots, uint32_t places)
{
    return 8 * ((uint64_t)told_heads(slots) + told_words(slots) + HANDOFF_ENGINES + entries(slots) +
                (uint64_t)slots * places) +
           (uint64_t)slots * sizeof(struct record);
}

static _Atomic uint64_t *heads_of(const struct handoff *h)
{
    return (void *)h->area;
}

static _Atomic uint64_t *told_of(const struct handoff *h)
{
    return heads_of(h) + told_heads(h->slots);
}

static _Atomic uint64_t *engines_of(const struct handoff *h)
{
    return told_of(h) + told_words(h->slots);
}

static _Atomic uint64_t *index_of(const struct handoff *h)
{
    return engines_of(h) + HANDOFF_ENGINES;
}

static struct record *record_of(const struct handoff *h, uint32_t slot)
{
    return (struct record *)(void *)(index_of(h) + entries(h->slots)) + slot;
}

static _Atomic uint64_t *reader_of(const struct handoff *h, uint32_t slot, uint32_t place)
{
    return (_Atomic uint64_t *)(void *)record_of(h, h->slots) + (uint64_t)slot * h->places + place;
}

static uint32_t hash_of(const struct handoff_name *name)
{
    return (uint32_t)XXH3_64bits_withSeed(name->key, strnlen(name->key, sizeof name->key), name->attempt);
}

static _Atomic uint64_t *first_entry(const struct handoff *h, uint32_t hash)
{
    return index_of(h) + hash % (h->slots * ENTRIES_A_SLOT);
}

static uint64_t entry_word(uint32_t hash, uint32_t slot)
{
    return (uint64_t)hash << 32 | (slot + 1);
}

/* ---- words about a lease ----------------------------------------------------------------------------------------- */

#define SAYS_BITS 24
#define SAYS_MASK ((UINT64_C(1) << SAYS_BITS) - 1)

static uint64_t lease_word(uint64_t generation, uint32_t says)
{
    return generation << SAYS_BITS | (says & SAYS_MASK);
}

static bool is_about(uint64_t word, uint64_t generation)
{
    return word >> SAYS_BITS == (generation << SAYS_BITS) >> SAYS_BITS;
}

static uint32_t says(uint64_t word)
{
    return (uint32_t)(word & SAYS_MASK);
}

/*
 * A seat says 0, nobody has it, or where its engine stands among the engines, + 1; with SEAT_IS_NAMED, if the offer
 * names that engine. A reason says -error. A reader: its state and a number.
 */

#define SEAT_IS_NAMED (1u << 23)
#define SEAT_UNKNOWN (SEAT_IS_NAMED - 1) /* of an engine that has no room among them, or has gone */

#define STATE_SHIFT 22
#define NUMBER_MASK ((1u << STATE_SHIFT) - 1)

static uint64_t reader_word(uint64_t generation, enum handoff_state state, uint32_t number)
{
    return lease_word(generation, (uint32_t)state << STATE_SHIFT | (number & NUMBER_MASK));
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

/*
 * What a seat says of that engine, which is put among the engines if it was not there. It may stand there twice, as
 * where a word before the first one was free for a while: what a seat says is looked up, and never compared.
 */
static uint32_t seat_says(const struct handoff *h, uint64_t engine)
{
    const uint32_t first = (uint32_t)(engine % HANDOFF_ENGINES);
    for (uint32_t i = 0; i < HANDOFF_ENGINES; i++) {
        const uint32_t at = (first + i) % HANDOFF_ENGINES;
        uint64_t there = atomic_load_explicit(&engines_of(h)[at], memory_order_relaxed);
        if (there == engine ||
            (there == 0 && (atomic_compare_exchange_strong_explicit(&engines_of(h)[at], &there, engine,
                                                                    memory_order_acq_rel, memory_order_relaxed) ||
                            there == engine)))
            return at + 1;
    }
    return SEAT_UNKNOWN;
}

static bool is_of(const struct handoff *h, uint64_t seat, uint64_t generation, uint64_t engine)
{
    const uint32_t said = says(seat) & ~SEAT_IS_NAMED;
    return is_about(seat, generation) && said > 0 && said <= HANDOFF_ENGINES &&
           atomic_load_explicit(&engines_of(h)[said - 1], memory_order_acquire) == engine;
}

/* ---- the producer ------------------------------------------------------------------------------------------------ */

/* The words of [first, end) of an offer. Keys and what is attached are mostly short. */
static void store_words(struct record *r, const struct handoff_offer *offer, size_t first, size_t end)
{
    for (size_t i = first / 8; i < (end + 7) / 8; i++) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)offer + 8 * i, sizeof word);
        atomic_store_explicit(&r->payload[i], word, memory_order_relaxed);
    }
}

static void load_words(const struct record *r, struct handoff_offer *offer, size_t first, size_t end)
{
    for (size_t i = first / 8; i < (end + 7) / 8; i++) {
        const uint64_t word = atomic_load_explicit(&r->payload[i], memory_order_relaxed);
        memcpy((uint8_t *)offer + 8 * i, &word, sizeof word);
    }
}

void handoff_write(const struct handoff *h, uint32_t slot, uint64_t generation, const struct handoff_offer *offer,
                   const uint64_t *seats, uint32_t num_seats)
{
    struct record *r = record_of(h, slot);
    store_words(r, offer, 0, ATTACH_AT + offer->num_attach);
    store_words(r, offer, NAME_AT, KEY_AT + strlen(offer->name.key) + 1);
    atomic_store_explicit(&r->hash, hash_of(&offer->name), memory_order_relaxed);
    for (uint32_t i = 0; i < BATON_CONSUMERS_MAX; i++) {
        /* Seats beyond num_seats hold 0, a word of no lease: no engine has them or can take them. */
        const uint32_t engine =
            i < num_seats && seats[i] != HANDOFF_NOBODY ? seat_says(h, seats[i]) | SEAT_IS_NAMED : 0;
        atomic_store_explicit(&r->seats[i], i < num_seats ? lease_word(generation, engine) : 0, memory_order_relaxed);
    }
    atomic_store_explicit(&r->generation, generation, memory_order_relaxed);
    /* All of it before the board, which whoever raises it stores by release. */
}

bool handoff_enter(const struct handoff *h, uint32_t slot)
{
    const uint32_t hash = (uint32_t)atomic_load_explicit(&record_of(h, slot)->hash, memory_order_relaxed);
    _Atomic uint64_t *entry = first_entry(h, hash);
    for (uint32_t i = 0; i < ENTRIES_TRIED; i++) {
        if (atomic_load_explicit(&entry[i], memory_order_relaxed) != 0)
            continue;
        atomic_store_explicit(&entry[i], entry_word(hash, slot), memory_order_release);
        return true;
    }
    return false;
}

void handoff_say_why(const struct handoff *h, uint32_t slot, uint64_t generation, int error)
{
    atomic_store_explicit(&record_of(h, slot)->reason, lease_word(generation, (uint32_t)-error), memory_order_release);
}

void handoff_leave(const struct handoff *h, uint32_t slot)
{
    const uint32_t hash = (uint32_t)atomic_load_explicit(&record_of(h, slot)->hash, memory_order_relaxed);
    _Atomic uint64_t *entry = first_entry(h, hash);
    /* The raise before it, and the readers' words after it: whoever stores a word later sees the raise. */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < ENTRIES_TRIED; i++)
        if (atomic_load_explicit(&entry[i], memory_order_relaxed) == entry_word(hash, slot))
            atomic_store_explicit(&entry[i], 0, memory_order_relaxed);
}

/* A seat that it has; -1: none. */
static int find_seat(const struct handoff *h, const struct record *r, uint64_t generation, uint64_t engine)
{
    for (int i = 0; i < BATON_CONSUMERS_MAX; i++) {
        const uint64_t seat = atomic_load_explicit(&r->seats[i], memory_order_acquire);
        if (is_of(h, seat, generation, engine) && atomic_load_explicit(&r->seats[i], memory_order_relaxed) == seat)
            return i; /* else it was vacated, and its engine's word given to this one, in between */
    }
    return -1;
}

/* A seat that was free, or that it has; -1: none. Whoever loses the exchange of a seat looks at that seat again. */
static int take_seat(const struct handoff *h, struct record *r, uint64_t generation, uint64_t engine, uint32_t said)
{
    for (int i = 0; i < BATON_CONSUMERS_MAX; i++) {
        uint64_t seat = lease_word(generation, 0);
        if (atomic_compare_exchange_strong_explicit(&r->seats[i], &seat, lease_word(generation, said),
                                                    memory_order_acq_rel, memory_order_acquire) ||
            is_of(h, seat, generation, engine))
            return i;
    }
    return -1;
}

int handoff_bind(const struct handoff *h, uint32_t slot, uint64_t generation, uint64_t engine)
{
    struct record *r = record_of(h, slot);
    const int seat = find_seat(h, r, generation, engine);
    return seat >= 0 ? seat : take_seat(h, r, generation, engine, seat_says(h, engine));
}

/* What an offer names is for nobody else. */
static uint64_t vacant(uint64_t seat, uint64_t generation, bool is_free)
{
    const uint32_t named = says(seat) & SEAT_IS_NAMED;
    return lease_word(generation, named != 0 || !is_free ? named | SEAT_UNKNOWN : 0);
}

void handoff_vacate(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t seat, bool is_free)
{
    _Atomic uint64_t *word = &record_of(h, slot)->seats[seat];
    const uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    if (is_about(before, generation))
        atomic_store_explicit(word, vacant(before, generation, is_free), memory_order_release);
}

/* A rank that takes a seat for its engine and dies before it has said more leaves the seat behind. */
void handoff_forget(const struct handoff *h, uint64_t engine)
{
    bool stands = false;
    for (uint32_t i = 0; i < HANDOFF_ENGINES; i++)
        stands |= atomic_load_explicit(&engines_of(h)[i], memory_order_relaxed) == engine;
    for (uint32_t slot = 0; stands && slot < h->slots; slot++) {
        struct record *r = record_of(h, slot);
        const uint64_t generation = atomic_load_explicit(&r->generation, memory_order_relaxed);
        for (int i = 0; i < BATON_CONSUMERS_MAX; i++) {
            uint64_t seat = atomic_load_explicit(&r->seats[i], memory_order_relaxed);
            if (is_of(h, seat, generation, engine))
                atomic_compare_exchange_strong_explicit(&r->seats[i], &seat, vacant(seat, generation, true),
                                                        memory_order_acq_rel, memory_order_relaxed);
        }
    }
    for (uint32_t i = 0; stands && i < HANDOFF_ENGINES; i++)
        if (atomic_load_explicit(&engines_of(h)[i], memory_order_relaxed) == engine)
            atomic_store_explicit(&engines_of(h)[i], 0, memory_order_release);
}

void handoff_clear(const struct handoff *h, uint32_t place)
{
    for (uint32_t slot = 0; slot < h->slots; slot++)
        atomic_store_explicit(reader_of(h, slot, place), 0, memory_order_relaxed);
}

struct handoff_word handoff_word(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place)
{
    const uint64_t word = atomic_load_explicit(reader_of(h, slot, place), memory_order_acquire);
    const uint32_t number = says(word) & NUMBER_MASK;
    if (!is_about(word, generation))
        return (struct handoff_word){HANDOFF_NONE, 0, 0};
    switch (says(word) >> STATE_SHIFT) {
    case HANDOFF_READING:
        return (struct handoff_word){HANDOFF_READING, 0, number};
    case HANDOFF_DONE:
        return (struct handoff_word){HANDOFF_DONE, 0, 0};
    case HANDOFF_FAILED:
        return (struct handoff_word){HANDOFF_FAILED, -(int)number, 0};
    default:
        return (struct handoff_word){HANDOFF_NONE, 0, 0};
    }
}

/* Takes a bit. acquire: what a reader stored before it set the bit is seen after this. -1: none is set. */
static int take_bit(_Atomic uint64_t *word)
{
    const uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
    if (bits == 0)
        return -1;
    const int bit = __builtin_ctzll(bits);
    atomic_fetch_and_explicit(word, ~(UINT64_C(1) << bit), memory_order_acq_rel);
    return bit;
}

/* The bit about a word is taken first: a reader that sets one of its bits later sets that again. */
bool handoff_told(const struct handoff *h, uint32_t *slot)
{
    for (uint32_t i = 0; i < told_heads(h->slots); i++) {
        int head;
        for (unsigned n = 0; n < 2 * 64 && (head = take_bit(&heads_of(h)[i])) >= 0; n++) { /* others set them too */
            const uint32_t word = 64 * i + (uint32_t)head;
            const int bit = word < told_words(h->slots) ? take_bit(&told_of(h)[word]) : -1;
            if (bit < 0)
                continue;
            atomic_fetch_or_explicit(&heads_of(h)[i], UINT64_C(1) << head, memory_order_relaxed); /* for what is left */
            *slot = 64 * word + (uint32_t)bit;
            if (*slot < h->slots)
                return true;
        }
    }
    return false;
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static uint64_t board_of(const struct handoff *h, uint32_t slot)
{
    return atomic_load_explicit(&h->board[slot], memory_order_acquire);
}

static void tell(const struct handoff *h, uint32_t slot)
{
    const uint32_t word = slot / 64;
    atomic_fetch_or_explicit(&told_of(h)[word], UINT64_C(1) << slot % 64, memory_order_release);
    atomic_fetch_or_explicit(&heads_of(h)[word / 64], UINT64_C(1) << word % 64, memory_order_release);
}

static bool is_same(const struct handoff_name *want, const struct handoff_name *have)
{
    return want->attempt == have->attempt && strncmp(want->key, have->key, sizeof want->key) == 0;
}

/* The words of its key, as far as that reaches. False: it has no end. */
static bool load_key(const struct record *r, struct handoff_offer *offer)
{
    const size_t end = KEY_AT + BATON_KEY_MAX;
    for (size_t at = KEY_AT, next; at < end; at = next) {
        next = at + 8 - at % 8 < end ? at + 8 - at % 8 : end;
        load_words(r, offer, at, next);
        if (memchr((const uint8_t *)offer + at, '\0', next - at) != NULL)
            return true;
    }
    return false;
}

/* Copies the record of a slot, if it is of `generation`. The copy may be torn unless is_whole says true afterwards. */
static bool read_record(const struct record *r, uint64_t generation, struct handoff_offer *offer)
{
    if (atomic_load_explicit(&r->generation, memory_order_acquire) != generation)
        return false;
    load_words(r, offer, 0, ATTACH_AT);
    const uint32_t num_attach = offer->num_attach;
    if (num_attach > BATON_ATTACH_MAX)
        return false;
    load_words(r, offer, ATTACH_AT, ATTACH_AT + num_attach);
    offer->num_attach = num_attach; /* its word was read again, and may be another one by now */
    load_words(r, offer, NAME_AT, KEY_AT);
    return load_key(r, offer);
}

/*
 * Whether a record that was read before is whole: it was read before the board here, and the producer raises the board
 * before it writes the record anew.
 */
static bool is_whole(const struct handoff *h, uint32_t slot, uint64_t generation)
{
    atomic_thread_fence(memory_order_acquire);
    return board_of(h, slot) == generation;
}

/* False: the lease has ended. */
static bool say_reading(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place, uint32_t left_ms)
{
    const uint32_t left = left_ms < HANDOFF_LEFT_MS_MAX ? left_ms : HANDOFF_LEFT_MS_MAX;
    /* My word before the board, against the raise before the readers' words: one of the two sees the other. */
    atomic_exchange(reader_of(h, slot, place), reader_word(generation, HANDOFF_READING, left));
    if (atomic_load(&h->board[slot]) != generation)
        return false;
    tell(h, slot);
    return true;
}

/* A seat of which words do not say whose it is may be this engine's: the producer knows. */
static bool has_unknown_seat(const struct record *r, uint64_t generation)
{
    for (int i = 0; i < BATON_CONSUMERS_MAX; i++) {
        const uint64_t seat = atomic_load_explicit(&r->seats[i], memory_order_relaxed);
        if (is_about(seat, generation) && (says(seat) & ~SEAT_IS_NAMED) == SEAT_UNKNOWN)
            return true;
    }
    return false;
}

static bool has_seat(const struct handoff *h, struct record *r, uint64_t generation, uint64_t engine)
{
    if (find_seat(h, r, generation, engine) >= 0)
        return true;
    if (has_unknown_seat(r, generation))
        return false;
    const uint32_t said = seat_says(h, engine);
    return said != SEAT_UNKNOWN && take_seat(h, r, generation, engine, said) >= 0;
}

static enum handoff_taken take_slot(const struct handoff *h, uint32_t place, uint32_t slot,
                                    const struct handoff_want *want, struct handoff_grant *grant)
{
    struct record *r = record_of(h, slot);
    const uint64_t before = atomic_load_explicit(reader_of(h, slot, place), memory_order_relaxed);
    const uint64_t generation = board_of(h, slot);
    if (generation == 0 || is_about(before, generation) || !read_record(r, generation, &grant->offer) ||
        !is_same(&want->name, &grant->offer.name) || grant->offer.num_tokens < want->num_tokens ||
        (want->is_whole && grant->offer.num_tokens != want->num_tokens) || !is_whole(h, slot, generation) ||
        !has_seat(h, r, generation, want->engine))
        return HANDOFF_ASK;
    grant->slot = slot;
    grant->generation = generation;
    return say_reading(h, slot, generation, place, want->left_ms) ? HANDOFF_TAKEN : HANDOFF_TOO_LATE;
}

enum handoff_taken handoff_take(const struct handoff *h, uint32_t place, const struct handoff_want *want,
                                struct handoff_grant *grant)
{
    const uint32_t hash = hash_of(&want->name);
    const _Atomic uint64_t *entry = first_entry(h, hash);
    if (want->engine == HANDOFF_NOBODY || place >= h->places)
        return HANDOFF_ASK;
    for (uint32_t i = 0; i < ENTRIES_TRIED; i++) {
        const uint64_t word = atomic_load_explicit(&entry[i], memory_order_acquire);
        const uint32_t slot = (uint32_t)word - 1;
        if (word == 0 || word >> 32 != hash || slot >= h->slots)
            continue;
        const enum handoff_taken taken = take_slot(h, place, slot, want, grant);
        if (taken != HANDOFF_ASK)
            return taken;
    }
    return HANDOFF_ASK;
}

/* While the board has this generation, no word of mine is about a later lease of the slot. */
bool handoff_hold(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place, uint32_t left_ms)
{
    if (slot >= h->slots || place >= h->places ||
        is_about(atomic_load_explicit(reader_of(h, slot, place), memory_order_relaxed), generation))
        return false;
    return board_of(h, slot) == generation &&
           atomic_load_explicit(&record_of(h, slot)->generation, memory_order_relaxed) == generation &&
           say_reading(h, slot, generation, place, left_ms);
}

void handoff_give_back(const struct handoff *h, uint32_t slot, uint64_t generation, uint32_t place, int error)
{
    const uint64_t word = error == 0 ? reader_word(generation, HANDOFF_DONE, 0)
                                     : reader_word(generation, HANDOFF_FAILED, (uint32_t)-error);
    _Atomic uint64_t *mine = reader_of(h, slot, place);
    if (!is_about(atomic_load_explicit(mine, memory_order_relaxed), generation))
        return; /* the lease has ended, and a newer one of this rank stands there: nothing is left to say */
    /* release: what was read of the blocks was read before */
    atomic_store_explicit(mine, word, memory_order_release);
    tell(h, slot);
}

bool handoff_why(const struct handoff *h, uint32_t slot, uint64_t generation, int *error)
{
    const uint64_t word = atomic_load_explicit(&record_of(h, slot)->reason, memory_order_acquire);
    if (!is_about(word, generation))
        return false;
    *error = -(int)says(word);
    return true;
}
