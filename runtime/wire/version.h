/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version: of the formats of what ranks send and publish.
 *
 * All numbers are little-endian. Messages, cards, rows and tables begin with a magic and the version that they are written
 * in; messages and cards also tell their length. A decoder takes any version >= 1 that has the fields which it knows, and
 * ignores what follows them. A field that came later stands behind those of earlier versions, and is 0 where it is not
 * sent. What is published for every reader (cards, rows, tables) is written in the version of its build; a message is
 * written in the older version of its two sides, which their directory rows say.
 *
 * For tests, a build with BATON_WIRE_FIRST plays version 1, and one with BATON_WIRE_NEXT the version that comes after: it
 * says so, and adds to all that it writes.
 */
#ifndef BATON_WIRE_VERSION_H
#define BATON_WIRE_VERSION_H

#if defined BATON_WIRE_NEXT
#define WIRE_VERSION 3
#elif defined BATON_WIRE_FIRST
#define WIRE_VERSION 1
#else
#define WIRE_VERSION 2
#endif

/* The first versions in which */
#define WIRE_HASHES 2 /* envelopes carry hashes, */
#define WIRE_NAMES 2  /* requests have attempts, and keys of WIRE_KEY_1 bytes and more, */
#define WIRE_ENDS 2   /* and the word of a want's end is answered. */

#define WIRE_KEY_1 64u /* bytes of the field of a key in version 1, NUL included */

#endif
