/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile: which variables of MPI and UCX a rank needs on its node, and why. A pure function from facts: the shim asks
 * it on the node before the program starts (rank.c), and --explain for each kind of node beforehand.
 */
#ifndef BATON_LAUNCH_PROFILE_H
#define BATON_LAUNCH_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#define PROFILE_SETTINGS_MAX 16
#define PROFILE_FABRIC_BYTES 24
#define PROFILE_VERSION(major, minor, patch) ((uint32_t)(major)*10000 + (minor)*100 + (patch))

enum profile_mpi { PROFILE_OPEN_MPI, PROFILE_MPICH, PROFILE_OTHER_MPI };

/** What bytes between ranks go over. */
enum profile_kind { PROFILE_ONE_NODE, PROFILE_TCP, PROFILE_FABRIC };

/** What the settings of a rank depend on. */
struct profile_facts {
    /* the world's */
    enum profile_mpi mpi; /* of the library that Baton was built with */
    uint32_t mpi_version; /* 0: unknown */
    bool one_node, survive;
    /* the node's */
    uint32_t ucx_version;              /* 0: unknown */
    bool osc_ucx, pml_ucx;             /* these components of Open MPI can be used */
    bool port_is_active;               /* of an InfiniBand or RoCE adapter */
    char fabric[PROFILE_FABRIC_BYTES]; /* the one network of all its active ports; empty: several, or unknown */
    char interface[16]; /* the only one for TCP that leads to hardware, among several; empty: there is no such one */
    /* the rank's */
    uint32_t sharers, threads; /* ranks that share these hardware threads, this one among them; 0: unknown */
    char nic[64];              /* its own adapter and port, "mlx5_0:1"; empty: it has none */
};

struct profile_setting {
    const char *variable;
    char value[64];
    const char *reason;
    bool is_second_best; /* what is better is missing on the node */
};

/** Reads "Open MPI v4.1.4" or "MPICH Version: 4.2.1" into mpi and mpi_version. */
void profile_mpi(const char *library, struct profile_facts *out);

enum profile_kind profile_kind(const struct profile_facts *f);
const char *profile_name(enum profile_kind kind);

/** Fills in the settings, each variable once, and returns how many. Those that the user has set are the caller's to
 *  leave out. */
unsigned profile_find(const struct profile_facts *f, struct profile_setting settings[PROFILE_SETTINGS_MAX]);

/** Whether the user has set a variable, wherever users do. */
typedef bool (*profile_given_fn)(const void *arg, const char *variable);

/** The user's variable for which a setting is left out: the same one, or one that excludes it. NULL: there is none. */
const char *profile_own(const struct profile_setting *s, profile_given_fn is_given, const void *arg);

#endif
