/* SPDX-License-Identifier: BSD-3-Clause */
/* binding: see binding.h. */
#include "front/binding.h"

#include <stdio.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/textbuf.h"
#include "base/thread.h"
#include "front/context.h"

/* ---- the wish ---------------------------------------------------------------------------------------------------- */

int binding_read(struct binding *p, char *(*lookup)(const char *variable))
{
    const char *text = lookup(BINDING_CPUS);
    struct cpus cpus;
    *p = (struct binding){.wished = ""};
    if (text == NULL || text[0] == '\0')
        return 0;
    int rc = !cpus_init(&cpus) ? error_set(BATON_ENOMEM, "no memory for a set of hardware threads") : 0;
    if (rc == 0 && (!cpus_read(&cpus, text) || !cpus_write(&cpus, p->wished, sizeof p->wished)))
        rc = error_set(BATON_ESETTING, BINDING_CPUS "=\"%.64s\" is no list of hardware threads such as 0-3,8", text);
    cpus_fini(&cpus);
    return rc;
}

const char *binding_cpus(const struct binding *p)
{
    return p->wished[0] != '\0' ? p->wished : NULL;
}

uint32_t binding_count(const struct binding *p, uint32_t own)
{
    struct cpus cpus;
    uint32_t n = own;
    if (p->wished[0] == '\0')
        return own;
    if (cpus_init(&cpus) && sched_getaffinity(0, cpus.bytes, cpus.set) == 0 && cpus_read(&cpus, p->wished))
        n = (uint32_t)CPU_COUNT_S(cpus.bytes, cpus.set);
    cpus_fini(&cpus);
    return n;
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

static void find_cpus(const struct baton *b, char *reactor, char *workers, size_t size)
{
    snprintf(reactor, size, "the caller's");
    if (b->loop.is_threaded)
        thread_cpus(b->loop.thread, reactor, size);
    paths_worker_cpus(b->paths, workers, size);
}

void binding_check(struct baton *b)
{
    char reactor[BINDING_LIST_BYTES], workers[BINDING_LIST_BYTES];
    struct binding *p = &b->binding;
    find_cpus(b, reactor, workers, sizeof reactor);
    if (p->wished[0] != '\0' &&
        ((b->loop.is_threaded && strcmp(reactor, p->wished) != 0) || strcmp(workers, p->wished) != 0))
        log_line(&b->log, LOG_WARN,
                 "not bound as " BINDING_CPUS "=%s says: the reactor has the hardware threads %s, copy workers %s",
                 p->wished, reactor, workers);
    if (b->cache == NULL || b->place.numa == TOPO_UNKNOWN)
        return;
    bool is_ours = b->cache->own == NULL;
    const struct path_region *first = cache_regions(b->cache)->region;
    p->pages = pages_count((void *)(uintptr_t)first->at, first->bytes, b->place.numa_os, pages_ask);
    if (is_ours && p->pages.other > 0)
        log_line(&b->log, LOG_WARN,
                 "%u of %u pages of the cache are not on NUMA node %u, where this rank runs: it has too little free "
                 "memory for the cache",
                 p->pages.other, p->pages.asked, b->place.numa_os);
}

static void describe_memory(const struct baton *b, struct textbuf *out)
{
    const struct pages_count *c = &b->binding.pages;
    if (b->cache == NULL)
        textbuf_print(out, "memory: no cache\n");
    else if (b->place.numa == TOPO_UNKNOWN)
        textbuf_print(out, "memory: on any NUMA node, since this rank may run on several\n");
    else if (c->error != 0)
        textbuf_print(out, "memory: NUMA node %u asked for; where it lies is not known (move_pages: %s)\n",
                      b->place.numa_os, strerror(c->error));
    else
        textbuf_print(out, "memory: NUMA node %u %s, %u of %u pages looked at are there\n", b->place.numa_os,
                      b->cache->own != NULL ? "is near, and the engine chose" : "asked for", c->there, c->asked);
}

void binding_describe(const struct baton *b, struct textbuf *out)
{
    char reactor[BINDING_LIST_BYTES], workers[BINDING_LIST_BYTES];
    find_cpus(b, reactor, workers, sizeof reactor);
    textbuf_print(out, "threads: reactor on CPUs %s, copy workers on %s%s\n", reactor, workers,
                  b->binding.wished[0] != '\0' ? "" : " (not bound: " BINDING_CPUS " is not set)");
    describe_memory(b, out);
}
