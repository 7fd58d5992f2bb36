/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_exceptions: compiled with -fno-exceptions. The form of a call that sets a code works as ever; the other one prints
 * the sentence and aborts.
 */
#include "baton.hpp"

#include "fake.hpp"

int main()
{
    std::error_code ec;
    baton::context b = baton::open(baton::open_params::from_env(ec), ec);
    if (ec || !b)
        return 1;
    fake::state.answer = BATON_EAGAIN;
    if (b.want({}, ec) != baton::call_id::none || ec != baton::errc::eagain)
        return 2;
    fake::state.answer = 0;
    if (b.want({}) == baton::call_id::none)
        return 3;
    fake::state.answer = BATON_EGONE;
    b.want({});
    return 4;
}
