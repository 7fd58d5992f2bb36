/* SPDX-License-Identifier: BSD-3-Clause */
/* speaker: see speaker.h. */
#include "core/speaker.h"

#include <stdlib.h>

#include "base/hash.h"
#include "core/post_inside.h"
#include "core/state.h"

/* A peer that somebody waits to speak to. */
struct listener {
    uint32_t peer;
    UT_hash_handle hh;
    struct queue speakers;
};

/* NULL: no memory. */
static struct listener *listener_of(struct core *core, uint32_t peer)
{
    struct listener *l;
    HASH_FIND(hh, core->post->listeners, &peer, sizeof peer, l);
    if (l != NULL || (l = calloc(1, sizeof *l)) == NULL)
        return l;
    l->peer = peer;
    HASH_ADD(hh, core->post->listeners, peer, sizeof l->peer, l);
    if (l->hh.tbl != NULL)
        return l;
    free(l);
    return NULL;
}

static void listener_free(struct core *core, struct listener *l)
{
    HASH_DEL(core->post->listeners, l);
    free(l);
}

static void on_pause(struct core *core, struct timer *t);

static void rest(struct core *core, struct speaker *speaker)
{
    timer_arm(&core->timers, &speaker->timer, core->now + speaker->pause_ns, on_pause);
}

/* The number of the message that follows is noted before it is made, which the speaker may not outlive. */
static void say(struct core *core, struct speaker *speaker)
{
    const uint32_t peer = speaker->peer;
    speaker->pause_ns = post_pause_ns(core->post, speaker->pause_ns);
    speaker->number = post_last(core->post, peer) + 1;
    rest(core, speaker);
    speaker->say(core, speaker);
    post_spoken(core->post, peer);
}

static void speak(struct core *core, struct speaker *speaker)
{
    struct listener *l = post_is_speaking(core->post, speaker->peer) ? listener_of(core, speaker->peer) : NULL;
    if (l != NULL)
        queue_join(&l->speakers, &speaker->place);
    else
        say(core, speaker);
}

static void on_pause(struct core *core, struct timer *t)
{
    struct speaker *speaker = (struct speaker *)((char *)t - offsetof(struct speaker, timer));
    if (post_has_left(core->post, speaker->peer, speaker->number))
        speak(core, speaker);
    else
        rest(core, speaker); /* it still says it */
}

void speaker_stop(struct core *core, struct speaker *speaker)
{
    timer_stop(&core->timers, &speaker->timer);
    queue_leave(&speaker->place);
}

static void set(struct core *core, struct speaker *speaker, uint32_t peer, speaker_say *how, uint64_t pause_ns)
{
    speaker_stop(core, speaker);
    speaker->peer = peer;
    speaker->say = how;
    speaker->pause_ns = pause_ns;
}

void speaker_begin(struct core *core, struct speaker *speaker, uint32_t peer, speaker_say *how)
{
    set(core, speaker, peer, how, 0);
    speak(core, speaker);
}

void speaker_pause(struct core *core, struct speaker *speaker, uint32_t peer, speaker_say *how)
{
    set(core, speaker, peer, how, post_pause_ns(core->post, 0));
    rest(core, speaker);
}

void speakers_flush(struct core *core)
{
    struct listener *l, *next;
    struct queued *first;
    HASH_ITER(hh, core->post->listeners, l, next)
    {
        while (!post_is_speaking(core->post, l->peer) && (first = queue_take(&l->speakers)) != NULL)
            say(core, (struct speaker *)((char *)first - offsetof(struct speaker, place)));
        if (l->speakers.first == NULL)
            listener_free(core, l);
    }
}

void speakers_destroy(struct core *core)
{
    while (core->post != NULL && core->post->listeners != NULL)
        listener_free(core, core->post->listeners);
}
