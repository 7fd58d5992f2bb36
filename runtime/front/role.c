/* SPDX-License-Identifier: BSD-3-Clause */
/* role: who this rank is, from the environment that batonrun sets. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "baton.h"

#include "base/error.h"
#include "base/layout.h"
#include "base/sized.h"
#include "base/settings.h"

static int number(const char *variable, uint32_t preset, uint32_t least, uint32_t *out)
{
    const char *text = getenv(variable);
    uint64_t value = preset;
    bool plain = text == NULL || (text[0] != '\0' && text[strspn(text, "0123456789")] == '\0');
    if (!plain || (text != NULL && settings_number(text, &value) != 0) || value < least ||
        value > BATON_ENGINE_RANKS_MAX)
        return error_set(BATON_ESETTING, "%s=%.64s is not a number from %u to %d", variable, text, least,
                         BATON_ENGINE_RANKS_MAX);
    *out = (uint32_t)value;
    return 0;
}

static int not_set(const char *variable)
{
    return error_set(BATON_ESETTING,
                     "%s is not set: start the ranks by batonrun, which sets it, or set it or BATON_LAYOUT yourself",
                     variable);
}

static int role(baton_role_t *out)
{
    static const char *const names[] = {
        [BATON_ROLE_PREFILL] = "prefill", [BATON_ROLE_DECODE] = "decode", [BATON_ROLE_BOTH] = "both"};
    const char *text = getenv("BATON_ROLE");
    if (text == NULL)
        return not_set("BATON_ROLE");
    for (int i = BATON_ROLE_PREFILL; i <= BATON_ROLE_BOTH; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (baton_role_t)i;
            return 0;
        }
    return error_set(BATON_ESETTING, "BATON_ROLE=%.64s is none of prefill, decode, both", text);
}

/* By the world's layout, and the number that the launcher gave this rank. */
static int read_layout(const char *text, baton_open_params_t *p)
{
    struct layout l;
    int32_t rank = layout_world_rank(getenv);
    if (!layout_read(text, &l))
        return error_set(BATON_ESETTING, "BATON_LAYOUT=%.64s is not \"ExTxP ExTxP\", prefill engines first", text);
    if (rank < 0)
        return error_set(BATON_ESETTING, "BATON_LAYOUT is set, and no launcher told this rank its number "
                                         "(OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID)");
    if (!layout_find(&l, (uint32_t)rank, p))
        return error_set(BATON_ESETTING, "BATON_LAYOUT=%.64s has no rank %d", text, rank);
    return 0;
}

/* The rank's number in an engine of that size. Only the one rank of a size of 1 need not be told. */
static int place(const char *variable, const char *size_variable, uint32_t size, uint32_t *out)
{
    if (size > 1 && getenv(variable) == NULL)
        return error_set(BATON_ESETTING, "%s=%u, and %s is not set: each rank has a number of its own, from 0 to %u",
                         size_variable, size, variable, size - 1);
    return number(variable, 0, 0, out);
}

/* By a variable for each thing. */
static int read_variables(baton_open_params_t *params)
{
    const char *engine = getenv("BATON_ENGINE");
    baton_open_params_t p = *params;
    int rc;
    memset(p.engine, 0, sizeof p.engine);
    if (engine == NULL)
        return not_set("BATON_ENGINE");
    if (engine[0] == '\0' || strlen(engine) >= sizeof p.engine)
        return error_set(BATON_ESETTING, "BATON_ENGINE=%.64s is not a name of 1 to %d bytes", engine,
                         BATON_ENGINE_NAME_MAX - 1);
    memcpy(p.engine, engine, strlen(engine));
    rc = role(&p.role);
    if (rc == 0)
        rc = number("BATON_TP", 1, 1, &p.tp);
    if (rc == 0)
        rc = number("BATON_PP", 1, 1, &p.pp);
    if (rc == 0)
        rc = place("BATON_TP_RANK", "BATON_TP", p.tp, &p.tp_rank);
    if (rc == 0)
        rc = place("BATON_PP_RANK", "BATON_PP", p.pp, &p.pp_rank);
    if (rc == 0 && (p.tp_rank >= p.tp || p.pp_rank >= p.pp))
        rc = error_set(BATON_ESETTING, "BATON_TP_RANK %u of %u or BATON_PP_RANK %u of %u lies outside", p.tp_rank, p.tp,
                       p.pp_rank, p.pp);
    if (rc == 0)
        *params = p;
    return rc;
}

int baton_role_from_env(baton_open_params_t *params)
{
    const char *layout = getenv("BATON_LAYOUT");
    bool alone = getenv("BATON_ENGINE") == NULL && getenv("BATON_ROLE") == NULL;
    baton_open_params_t p;
    int rc = sized_take(params, "baton_open_params_t", &p, sizeof p);
    if (rc == 0)
        rc = layout != NULL && alone ? read_layout(layout, &p) : read_variables(&p);
    if (rc == 0)
        sized_give_back(&p, sizeof p, params);
    return rc;
}
