/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version: the version of the formats, and the rules that all of them keep.
 *
 * All numbers are little-endian. Messages, cards, rows and tables begin with a magic and their version; messages and
 * cards also have their length. A decoder takes any version >= 1 that has the fields that it knows, and ignores what
 * follows them. A field of a later version stands behind those of earlier versions, and is 0 where it is not sent.
 * Cards, rows and tables are for every reader: they are written in the version of their build. A message is written in
 * the older version of its two sides; the directory rows say which versions they speak.
 *
 * For tests, a build with BATON_WIRE_FIRST plays version 1, and one with BATON_WIRE_NEXT the version that comes after:
 * it says so, and adds to all that it writes.
 */
#ifndef BATON_WIRE_VERSION_H
#define BATON_WIRE_VERSION_H

#define WIRE_VERSION_HERE 2 /* of this code */

#if defined BATON_WIRE_NEXT
#define WIRE_VERSION (WIRE_VERSION_HERE + 1)
#elif defined BATON_WIRE_FIRST
#define WIRE_VERSION 1
#else
#define WIRE_VERSION WIRE_VERSION_HERE
#endif
#define WIRE_IS_NEXT (WIRE_VERSION > WIRE_VERSION_HERE)

/* The first version in which */
#define WIRE_HASHES 2 /* envelopes have hashes */
#define WIRE_NAMES 2  /* requests have attempts, and keys of WIRE_KEY_1 bytes and more */
#define WIRE_STAGES 2 /* ranks stage bytes for each other (staged/note.h) */
#define WIRE_ENDS 2   /* DONE, CANCEL and RELEASE are answered */

#define WIRE_KEY_1 64u /* bytes of the field of a key in version 1, NUL included */

#endif
