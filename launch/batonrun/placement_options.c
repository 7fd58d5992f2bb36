/* SPDX-License-Identifier: BSD-3-Clause */
/* placement_options: see placement_options.h. */
#include "batonrun/placement_options.h"

/* Each adds one. */
static int read_topology(const struct option_row *row, const char *text, void *field, struct why *why)
{
    const char **topologies = field;
    unsigned num = 0;
    while (topologies[num] != NULL)
        num++;
    if (num == PLACEMENT_TOPOLOGIES_MAX)
        return why_set(why, "--topology is given more than %d times", PLACEMENT_TOPOLOGIES_MAX);
    return option_read_file(row, text, &topologies[num], why);
}

const struct option_row placement_rows[] = {
    {.help = "where ranks go"},
    {"host", "A:4,B:4", "hosts and their slots; without this the batch system's (Slurm, PBS, LSF), or this machine",
     OPTION_TEXT(struct placement_options, hosts)},
    {"hostfile", "FILE", "the same, a host a line, with slots=N", OPTION_FILE(struct placement_options, hostfile)},
    {"topology", "FILE",
     "every host is like this: lstopo's XML, or hwloc's short form \"pack:2 numa:2 core:8 pu:2\"; HOSTS=FILE: these "
     "hosts are, and there may be several",
     .read = read_topology, .field = offsetof(struct placement_options, topologies)},
    {"network", "FILE", "the switches between hosts, in the form of Slurm's topology.conf",
     OPTION_FILE(struct placement_options, network)},
    {"costs", "FILE", "what a byte costs at each distance, as baton-bench distances prints it (default: assumed)",
     OPTION_FILE(struct placement_options, costs)},
    {"cores-per-rank", "N", "cores of a place (default: enough for two hardware threads)",
     OPTION_WHOLE(struct placement_options, cores_per_rank, 1, 65536)},
    {"gpus-per-rank", "N", "GPUs of a place, on hosts that have any (default 1; 0: GPUs do not count)",
     OPTION_WHOLE(struct placement_options, gpus_per_rank, 0, 64)},
    {"spread", NULL, "use as many hosts as can be", OPTION_SWITCH(struct placement_options, spread)},
    {"pack", NULL, "use as few hosts as can be", OPTION_SWITCH(struct placement_options, pack)},
    {"together", NULL, "prefill and decode share hosts, if costs would rather have them apart",
     OPTION_SWITCH(struct placement_options, together)},
    {"apart", NULL, "no host has both prefill and decode", OPTION_SWITCH(struct placement_options, apart)},
    {"straddle", NULL, "a TP group may lie on several hosts", OPTION_SWITCH(struct placement_options, straddle)},
    {"oversubscribe", NULL, "more ranks than slots or cores, and more than 4 a hardware thread",
     OPTION_SWITCH(struct placement_options, oversubscribe)},
    {CUT_MODEL(struct placement_options, cut),
     .help = "what is moved is counted for this model (default llama3-8b; names as in baton-plan)"},
    {CUT_DTYPE(struct placement_options, cut)},
    {"tokens", "N", "of a request (default 4096)", OPTION_WHOLE(struct placement_options, tokens, 1, 1u << 30)},
    {"output-tokens", "N", "that decode adds (default 256)",
     OPTION_WHOLE(struct placement_options, output_tokens, 0, 1u << 30)},
    {"inside", "W", "weight of bytes within engines beside those between them (default 1)",
     OPTION_REAL(struct placement_options, inside, 0, 1e6)},
    {"pairs", "FILE", "write there, as JSON, the engines of the other side for each engine, nearest first",
     OPTION_FILE(struct placement_options, pairs)},
    {"dot", "FILE", "write there where each rank goes and what flows between them, as a graph in Graphviz's language",
     OPTION_FILE(struct placement_options, picture.dot)},
    {"svg", "FILE", "draw that graph there, by Graphviz's program dot",
     OPTION_FILE(struct placement_options, picture.svg)},
    {"explain", NULL, "print which rank would run where, why and what it is worth, and stop",
     OPTION_SWITCH(struct placement_options, explain)},
    {0},
};

struct placement_options placement_defaults(void)
{
    struct model_cut cut = cut_default();
    cut.model = NULL; /* the same, unless the engines cannot be cut of it */
    return (struct placement_options){
        .cut = cut, .tokens = 4096, .output_tokens = 256, .gpus_per_rank = PLACEMENT_GPUS_UNSAID, .inside = 1};
}

bool placement_is_wished(const struct placement_options *o)
{
    return o->topologies[0] != NULL || o->network != NULL || o->costs != NULL || o->pairs != NULL ||
           dot_is_wanted(&o->picture) || o->cores_per_rank > 0 || o->gpus_per_rank != PLACEMENT_GPUS_UNSAID ||
           o->straddle || o->spread || o->pack || o->together || o->apart || o->explain;
}

int placement_check(const struct placement_options *o, struct why *why)
{
    if (o->hosts != NULL && o->hostfile != NULL)
        return why_set(why, "--host and --hostfile exclude each other");
    if (o->spread && o->pack)
        return why_set(why, "--spread and --pack exclude each other");
    if (o->together && o->apart)
        return why_set(why, "--together and --apart exclude each other");
    return 0;
}
