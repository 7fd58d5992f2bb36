/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check: cases of one process. A check that fails is printed with both operands, and its case goes on. main() returns
 * check::end().
 */
#ifndef BATON_TESTS_CHECK_HPP
#define BATON_TESTS_CHECK_HPP

#include <cstdio>
#include <iostream>

namespace check
{
struct counts {
    int cases = 0, failed_cases = 0, failures = 0;
};
inline counts all;

inline std::ostream &failed(const char *file, int line)
{
    all.failures++;
    return std::cerr << "# " << file << ":" << line << ": ";
}

inline void that(bool holds, const char *file, int line, const char *text)
{
    if (!holds)
        failed(file, line) << text << " does not hold\n";
}

template <class A, class B> void equal(const A &a, const B &b, const char *file, int line, const char *text)
{
    if (!(a == b))
        failed(file, line) << text << ": " << a << " and " << b << "\n";
}

inline void run(const char *name, void (*function)())
{
    all.failures = 0;
    function();
    all.cases++;
    all.failed_cases += all.failures > 0;
    std::cout << (all.failures > 0 ? "not ok " : "ok ") << all.cases << " - " << name << std::endl;
}

inline int end()
{
    std::cout << "1.." << all.cases << std::endl;
    return all.failed_cases > 0 ? 1 : 0;
}
} // namespace check

#define CHECK(condition) check::that((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) check::equal((a), (b), __FILE__, __LINE__, #a " == " #b)
#define RUN(function) check::run(#function, function)

#endif
