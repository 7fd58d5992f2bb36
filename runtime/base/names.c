/* SPDX-License-Identifier: BSD-3-Clause */
/* names: what events and statuses are called, for an engine's log. Any thread. */
#include "baton.h"

const char *baton_event_name(baton_event_type_t type)
{
    switch (type) {
    case BATON_EVENT_OFFER:
        return "offer";
    case BATON_EVENT_WANT:
        return "want";
    case BATON_EVENT_GIVEN_UP:
        return "given up";
    case BATON_EVENT_VERDICT:
        return "verdict";
    case BATON_EVENT_ENGINES:
        return "engines";
    }
    return "unknown";
}

const char *baton_status_name(baton_status_t status)
{
    switch (status) {
    case BATON_STATUS_DONE:
        return "done";
    case BATON_STATUS_FAILED:
        return "failed";
    case BATON_STATUS_EXPIRED:
        return "expired";
    case BATON_STATUS_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}
