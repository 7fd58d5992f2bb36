/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * other_file: a second file that includes baton.hpp, without <mpi.h>. In one test it is a library that shows no symbols
 * but these functions.
 */
#ifndef BATON_TESTS_OTHER_FILE_HPP
#define BATON_TESTS_OTHER_FILE_HPP

#include <string_view>
#include <system_error>

namespace baton
{
class event;
}

#pragma GCC visibility push(default)
namespace other_file
{
/* A view of the event's own key. */
std::string_view key_of(const baton::event &event);

/* A code of Baton's, made here. */
std::error_code gone();

/* The code of the baton::error that the function throws; 0 if it throws none. */
int throws_through(void (*function)());
} // namespace other_file
#pragma GCC visibility pop

#endif
