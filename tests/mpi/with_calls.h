/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: all functions of MPI that Baton calls but those that only look (mpi/wraps checks that), for tests to which the
 * linker leads the calls. Before it is included, WRAP(name, params, args) makes the function that is called in place of
 * MPI_name, and so do MAKES and FREES, of functions that make or free something, with its kind in front: OWN, of this
 * process, or SHARED, of all ranks together. It has no guard: it is a list.
 */
MAKES(SHARED, Comm_idup, (MPI_Comm c, MPI_Comm *out, MPI_Request *r), (c, out, r))
MAKES(SHARED, Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *out), (c, color, key, out))
MAKES(SHARED, Comm_split_type, (MPI_Comm c, int t, int key, MPI_Info i, MPI_Comm *out), (c, t, key, i, out))
MAKES(OWN, Comm_create_keyval, (MPI_Comm_copy_attr_function * f, MPI_Comm_delete_attr_function *d, int *k, void *e),
      (f, d, k, e))
WRAP(Comm_set_attr, (MPI_Comm c, int k, void *v), (c, k, v))
WRAP(Comm_delete_attr, (MPI_Comm c, int k), (c, k))
FREES(OWN, Comm_free_keyval, (int *k), (k))
FREES(SHARED, Comm_free, (MPI_Comm * c), (c))
MAKES(OWN, Comm_group, (MPI_Comm c, MPI_Group *g), (c, g))
FREES(OWN, Group_free, (MPI_Group * g), (g))
WRAP(Group_translate_ranks, (MPI_Group a, int n, const int from[], MPI_Group b, int to[]), (a, n, from, b, to))
MAKES(OWN, Info_create, (MPI_Info * i), (i))
FREES(OWN, Info_free, (MPI_Info * i), (i))
WRAP(Info_set, (MPI_Info i, const char *key, const char *value), (i, key, value))
WRAP(Iallreduce, (const void *s, void *d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
     (s, d, n, t, o, c, r))
WRAP(Iallgather, (const void *s, int sn, MPI_Datatype st, void *d, int dn, MPI_Datatype dt, MPI_Comm c, MPI_Request *r),
     (s, sn, st, d, dn, dt, c, r))
WRAP(Ibcast, (void *d, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (d, n, t, root, c, r))
WRAP(Ireduce_scatter_block, (const void *s, void *d, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
     (s, d, n, t, o, c, r))
WRAP(Isend, (const void *d, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r),
     (d, n, t, to, tag, c, r))
WRAP(Irecv, (void *d, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (d, n, t, from, tag, c, r))
WRAP(Iprobe, (int from, int tag, MPI_Comm c, int *flag, MPI_Status *s), (from, tag, c, flag, s))
WRAP(Recv, (void *d, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s), (d, n, t, from, tag, c, s))
WRAP(Test, (MPI_Request * r, int *flag, MPI_Status *s), (r, flag, s))
WRAP(Testall, (int n, MPI_Request r[], int *flag, MPI_Status s[]), (n, r, flag, s))
WRAP(Testsome, (int n, MPI_Request r[], int *num, int at[], MPI_Status s[]), (n, r, num, at, s))
WRAP(Wait, (MPI_Request * r, MPI_Status *s), (r, s))
WRAP(Cancel, (MPI_Request * r), (r))
MAKES(SHARED, Win_allocate_shared, (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void *base, MPI_Win *w),
      (n, unit, i, c, base, w))
MAKES(SHARED, Win_create, (void *base, MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, MPI_Win *w),
      (base, n, unit, i, c, w))
WRAP(Win_get_attr, (MPI_Win w, int k, void *v, int *flag), (w, k, v, flag))
WRAP(Win_shared_query, (MPI_Win w, int rank, MPI_Aint *n, int *unit, void *base), (w, rank, n, unit, base))
WRAP(Win_get_name, (MPI_Win w, char *name, int *length), (w, name, length))
WRAP(Win_lock_all, (int a, MPI_Win w), (a, w))
WRAP(Win_unlock_all, (MPI_Win w), (w))
WRAP(Win_flush, (int rank, MPI_Win w), (rank, w))
WRAP(Win_flush_all, (MPI_Win w), (w))
WRAP(Win_sync, (MPI_Win w), (w))
FREES(SHARED, Win_free, (MPI_Win * w), (w))
WRAP(Rget, (void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w, MPI_Request *r),
     (d, n, t, p, at, tn, tt, w, r))
WRAP(Rput,
     (const void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w, MPI_Request *r),
     (d, n, t, p, at, tn, tt, w, r))
WRAP(Get, (void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w),
     (d, n, t, p, at, tn, tt, w))
WRAP(Put, (const void *d, int n, MPI_Datatype t, int p, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w),
     (d, n, t, p, at, tn, tt, w))
