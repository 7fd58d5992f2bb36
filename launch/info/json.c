/* SPDX-License-Identifier: BSD-3-Clause */
/* json: page_json. A reader may rely on the names while "schema" stays the same. */
#include "info/page.h"

#ifdef INFO_JSON

#include <jansson.h>
#include <string.h>

#include "base/settings.h"
#include "baton.h"
#include "info/variables.h"

/* Takes text that may not be UTF-8, as other programs' lines may be. */
static json_t *string(const char *text)
{
    json_t *s = json_string(text);
    return s != NULL ? s : json_string("(not UTF-8)");
}

static json_t *problems_json(const struct info *i)
{
    json_t *a = json_array();
    for (size_t k = 0; k < i->num_problems; k++) {
        const struct info_problem *p = &i->problems[k];
        json_array_append_new(a, json_pack("{s:o, s:o, s:o}", "what", string(p->what), "do", string(p->remedy), "quote",
                                           string(p->quote)));
    }
    return a;
}

/* An object for each section, with a member for each fact. */
static json_t *facts_json(const struct info *i)
{
    json_t *sections = json_object();
    for (size_t k = 0; k < i->num_facts; k++) {
        const struct info_fact *f = &i->facts[k];
        json_t *section = json_object_get(sections, f->section);
        if (section == NULL) {
            section = json_object();
            json_object_set_new(sections, f->section, section);
        }
        json_object_set_new(section, f->name, string(f->value));
    }
    return sections;
}

static json_t *settings_json(bool tunables)
{
    json_t *a = json_array();
    for (unsigned k = 0; k < settings_count; k++) {
        const struct setting_info *s = &settings_table[k];
        char name[SETTING_SPELLING_MAX], text[VARIABLES_VALUE_MAX];
        if (setting_is_tunable(s) != tunables)
            continue;
        json_array_append_new(a, json_pack("{s:s, s:o, s:I, s:I, s:I, s:s, s:s, s:b}", tunables ? "name" : "variable",
                                           variables_name(k, name), "value", string(variables_value(k, text)),
                                           "default", (json_int_t)s->preset, "least", (json_int_t)s->least, "most",
                                           (json_int_t)s->most, "source", variables_source(k), "meaning", s->meaning,
                                           "of_tests", (int)setting_is_of_tests(s)));
    }
    return a;
}

int page_json(FILE *out, const struct info *i)
{
    json_t *o =
        json_pack("{s:i, s:s, s:o, s:o, s:o, s:o}", "schema", 1, "baton", baton_version(), "problems", problems_json(i),
                  "facts", facts_json(i), "settings", settings_json(false), "tunables", settings_json(true));
    int rc = o != NULL ? json_dumpf(o, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : -1;
    json_decref(o);
    if (rc == 0)
        fputc('\n', out);
    else
        fputs("baton-info: no memory for JSON\n", stderr);
    return rc;
}

#else

int page_json(FILE *out, const struct info *i)
{
    (void)out, (void)i;
    fputs("baton-info: this build has no JSON: jansson was not found when Baton was built\n", stderr);
    return -1;
}

#endif
