/* SPDX-License-Identifier: BSD-3-Clause */
/* process: whether the processes of ranks live, by descriptors of theirs (pidfd), which the system never confuses. */
#ifndef BATON_SHM_PROCESS_H
#define BATON_SHM_PROCESS_H

#include "core/port.h"

/** One process; `id` 0: not known. The descriptor is opened when it is first asked for. */
struct process {
    int id, descriptor;
};

struct process process_of(int id);
enum port_alive process_alive(struct process *p);
void process_forget(struct process *p);

#endif
