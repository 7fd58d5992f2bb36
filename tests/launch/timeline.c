/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline: whether the timeline of a job makes sense.
 *
 *   timeline FILE WANTS [RANK]
 *
 * There are so many wants, and each is done. Of each leg of a want the moments follow each other: queued, matched,
 * leased, first byte, last byte, fenced, reported. What was copied and moved for a leg adds up to its bytes. Each arrow
 * has both ends, and leads forward. With a RANK, that one was killed: it has events, and nothing is asked of others'
 * wants and arrows.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *events;
static int bad;

static void fault(const char *what, const json_t *event)
{
    char *text = event != NULL ? json_dumps(event, JSON_COMPACT) : NULL;
    printf("timeline: %s: %s\n", what, text != NULL ? text : "");
    free(text);
    bad = 1;
}

static const char *text_of(const json_t *event, const char *name)
{
    const char *text = json_string_value(json_object_get(event, name));
    return text != NULL ? text : "";
}

static const json_t *argument(const json_t *event, const char *name)
{
    return json_object_get(json_object_get(event, "args"), name);
}

static bool is_moment(const json_t *event, const char *cat, const char *moment)
{
    const char *text = json_string_value(argument(event, "moment"));
    return text != NULL && strcmp(text, moment) == 0 && strcmp(text_of(event, "cat"), cat) == 0;
}

static int64_t rank_of(const json_t *event)
{
    return json_integer_value(json_object_get(event, "pid")) - 1;
}

static double time_of(const json_t *event)
{
    return json_number_value(json_object_get(event, "ts"));
}

static const char *track_of(const json_t *event)
{
    return text_of(json_object_get(event, "id2"), "local");
}

/* The moment of the same call or leg. */
static const json_t *sibling(const json_t *of, const char *moment)
{
    size_t i;
    const json_t *e;
    json_array_foreach(events, i, e)
    {
        if (is_moment(e, text_of(of, "cat"), moment) && rank_of(e) == rank_of(of) &&
            strcmp(track_of(e), track_of(of)) == 0)
            return e;
    }
    return NULL;
}

/* When a consumer's want met that producer's offer, whoever told it. */
static const json_t *match_of(int64_t consumer, int64_t producer, int64_t want)
{
    size_t i;
    const json_t *e;
    json_array_foreach(events, i, e)
    {
        bool by_producer = is_moment(e, "offer", "matched") && rank_of(e) == producer;
        bool by_consumer = is_moment(e, "want", "matched") && rank_of(e) == consumer;
        int64_t peer = by_producer ? consumer : producer;
        if ((by_producer || by_consumer) && json_integer_value(argument(e, "peer")) == peer &&
            json_integer_value(argument(e, "want")) == want)
            return e;
    }
    return NULL;
}

static void check_bytes(const json_t *leg, const json_t *last)
{
    size_t i;
    const json_t *e;
    int64_t moved = 0;
    json_array_foreach(events, i, e)
    {
        const char *phase = text_of(e, "ph"), *of = json_string_value(argument(e, "leg"));
        if (of != NULL && (phase[0] == 'X' || phase[0] == 'b') && rank_of(e) == rank_of(leg) &&
            strcmp(of, track_of(leg)) == 0)
            moved += json_integer_value(argument(e, "bytes"));
    }
    if (moved != json_integer_value(argument(last, "bytes")))
        fault("copies and batches do not add up", last);
}

/* A leg of the want, whose moments stand at `leg`. */
static void check_leg(const json_t *queued, const json_t *leg, const json_t *reported)
{
    int64_t want = json_integer_value(argument(queued, "id")), consumer = rank_of(queued);
    int64_t producer = rank_of(leg) == consumer ? json_integer_value(argument(leg, "peer")) : rank_of(leg);
    const json_t *order[] = {queued,
                             match_of(consumer, producer, want),
                             leg,
                             sibling(leg, "first byte"),
                             sibling(leg, "last byte"),
                             sibling(leg, "fenced"),
                             reported};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        if (order[i] == NULL)
            fault("a moment is missing of this leg", leg);
        else if (i > 0 && order[i - 1] != NULL && time_of(order[i]) < time_of(order[i - 1]))
            fault("it came before what it follows", order[i]);
    if (order[4] != NULL)
        check_bytes(leg, order[4]);
}

static void check_want(const json_t *queued)
{
    size_t i;
    const json_t *e, *reported = sibling(queued, "reported");
    unsigned legs = 0;
    if (reported == NULL || strcmp(json_string_value(argument(reported, "status")), "done") != 0) {
        fault("a want is not done", queued);
        return;
    }
    json_array_foreach(events, i, e)
    {
        bool is_mine = strcmp(text_of(e, "name"), "push") == 0
                           ? json_integer_value(argument(e, "peer")) == rank_of(queued)
                           : rank_of(e) == rank_of(queued);
        if (!is_moment(e, "leg", "leased") || !is_mine ||
            json_integer_value(argument(e, "want")) != json_integer_value(argument(queued, "id")))
            continue;
        check_leg(queued, e, reported);
        legs++;
    }
    if (legs == 0)
        fault("a want has no leg", queued);
}

/* The other end of an arrow. */
static const json_t *other_end(const json_t *of)
{
    size_t i;
    const json_t *e;
    json_array_foreach(events, i, e)
    {
        if (e != of && strcmp(text_of(e, "bind_id"), text_of(of, "bind_id")) == 0)
            return e;
    }
    return NULL;
}

static void check_arrow(const json_t *event)
{
    bool is_out = json_is_true(json_object_get(event, "flow_out"));
    const json_t *other = other_end(event);
    if (other == NULL || json_is_true(json_object_get(other, "flow_out")) == is_out)
        fault("an arrow has one end", event);
    else if (is_out &&
             (time_of(other) < time_of(event) || strcmp(text_of(event, "name"), text_of(other, "name")) != 0 ||
              rank_of(other) != json_integer_value(argument(event, "to"))))
        fault("an arrow leads astray", event);
}

int main(int argc, char **argv)
{
    json_error_t error;
    size_t i;
    const json_t *e;
    unsigned wants = 0, arrows = 0, of_killed = 0;
    if (argc < 3 || (events = json_load_file(argv[1], 0, &error)) == NULL)
        return printf("timeline: %s is no JSON: %s\n", argc > 1 ? argv[1] : "", argc > 1 ? error.text : "usage"), 1;
    json_array_foreach(events, i, e)
    {
        if (argc > 3) {
            of_killed += rank_of(e) == strtol(argv[3], NULL, 10) && text_of(e, "ph")[0] != 'M';
        } else if (is_moment(e, "want", "queued")) {
            check_want(e);
            wants++;
        } else if (text_of(e, "bind_id")[0] != '\0') {
            check_arrow(e);
            arrows++;
        }
        if (strcmp(text_of(e, "name"), "records left out") == 0 && json_integer_value(argument(e, "dropped")) != 0)
            fault("records are missing", e);
    }
    if (argc > 3 ? of_killed == 0 : wants != strtoul(argv[2], NULL, 10))
        fault(argc > 3 ? "nothing of the killed rank is there" : "there are more or fewer wants", NULL);
    printf("timeline: %zu events, %u wants, %u ends of arrows\n", json_array_size(events), wants, arrows);
    json_decref(events);
    return bad;
}
