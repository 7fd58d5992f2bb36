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
 * No build speaks a later version yet. tests/version/next makes one of these sources: it raises the version, and adds
 * to all that is written.
 */
#ifndef BATON_WIRE_VERSION_H
#define BATON_WIRE_VERSION_H

#define WIRE_VERSION 1 /* of this code */

#endif
