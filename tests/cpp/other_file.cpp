/* SPDX-License-Identifier: BSD-3-Clause */
/* other_file: see other_file.hpp. */
#ifndef BATON_NO_MPI
#define BATON_NO_MPI
#endif
#include "baton.hpp"

#include "other_file.hpp"

std::string_view other_file::key_of(const baton::event &event)
{
    return event.key();
}

std::error_code other_file::gone()
{
    return baton::errc::egone;
}

int other_file::throws_through(void (*function)())
{
    try {
        function();
    } catch (const baton::error &e) {
        return e.code().value();
    }
    return 0;
}
