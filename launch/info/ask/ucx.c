/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baton-info-ucx: says by lines (info/line.h) which version of UCX is loaded, and the devices and transports that it
 * finds, by its own API. A program of its own, since UCX loads drivers, and may not be installed where baton-info is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include "info/line.h"

#define WORDS_MAX 64

/* Words without repetition. */
struct words {
    char words[WORDS_MAX][UCT_DEVICE_NAME_MAX];
    unsigned num;
};

static void add_word(struct words *w, const char *word)
{
    for (unsigned i = 0; i < w->num; i++)
        if (strcmp(w->words[i], word) == 0)
            return;
    if (w->num < WORDS_MAX)
        snprintf(w->words[w->num++], sizeof w->words[0], "%s", word);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(x, y);
}

/* In order, with commas between them. */
static void add_list(struct info *i, const char *name, struct words *w)
{
    char text[WORDS_MAX * (UCT_DEVICE_NAME_MAX + 2)] = "none";
    qsort(w->words, w->num, sizeof w->words[0], by_name);
    for (size_t k = 0, used = 0; k < w->num; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", k > 0 ? ", " : "", w->words[k]);
    info_fact(i, INFO_OF_NODE, "ucx", name, "%s", text);
}

/* What UCX found so far. */
struct found {
    struct words transports, devices;
};

static void take_resources(struct found *f, uct_md_h md)
{
    uct_tl_resource_desc_t *resources;
    unsigned num;
    if (uct_md_query_tl_resources(md, &resources, &num) != UCS_OK)
        return;
    for (unsigned i = 0; i < num; i++) {
        add_word(&f->transports, resources[i].tl_name);
        if (resources[i].dev_type == UCT_DEVICE_TYPE_NET)
            add_word(&f->devices, resources[i].dev_name);
    }
    uct_release_tl_resource_list(resources);
}

static void take_domain(struct found *f, uct_component_h component, const char *name)
{
    uct_md_config_t *config;
    uct_md_h md;
    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK)
        return;
    if (uct_md_open(component, name, config, &md) == UCS_OK) {
        take_resources(f, md);
        uct_md_close(md);
    }
    uct_config_release(config);
}

static void take_component(struct found *f, uct_component_h component)
{
    uct_component_attr_t a = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    if (uct_component_query(component, &a) != UCS_OK || a.md_resource_count == 0)
        return;
    a.md_resources = calloc(a.md_resource_count, sizeof *a.md_resources);
    a.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    if (a.md_resources != NULL && uct_component_query(component, &a) == UCS_OK)
        for (unsigned i = 0; i < a.md_resource_count; i++)
            take_domain(f, component, a.md_resources[i].md_name);
    free(a.md_resources);
}

int main(void)
{
    struct info info = {0};
    struct found found = {0};
    uct_component_h *components;
    unsigned num;
    ucs_status_t status = uct_query_components(&components, &num);
    if (status == UCS_OK) {
        for (unsigned i = 0; i < num; i++)
            take_component(&found, components[i]);
        uct_release_component_list(components);
    }
    info_fact(&info, INFO_OF_ALL, "ucx", "version", "%s", ucp_get_version_string());
    add_list(&info, "transports", &found.transports);
    add_list(&info, "devices", &found.devices);
    if (status != UCS_OK)
        fprintf(stderr, "UCX finds no component: %s\n", ucs_status_string(status));
    int rc = line_write(STDOUT_FILENO, 0, &info);
    info_fini(&info);
    return rc == 0 && status == UCS_OK ? 0 : 1;
}
