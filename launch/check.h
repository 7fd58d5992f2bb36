/* SPDX-License-Identifier: BSD-3-Clause */
/* check: asks baton-info on each host of a run, and tells the problems of all hosts and what differs between them. */
#ifndef BATON_LAUNCH_CHECK_H
#define BATON_LAUNCH_CHECK_H

#define CHECK_REPORT_OPTION "--report" /* baton-info's argument, where it reports to batonrun by lines */

#endif
