/* SPDX-License-Identifier: BSD-3-Clause */
/* pasted: initialisers of struct pair. These pairs failed once, and are kept as they were printed when made small. */
{.layers = 1,
 .tokens = 5,
 .planes = 1,
 .head_size = 1,
 .num_splits = 1,
 .heads = {1},
 .num_tensors = 1,
 .tensor = {{.layer = 0}},
 .side = {{.tp = 1, .pp = 1, .block_tokens = {3}}, {.tp = 1, .pp = 1, .block_tokens = {5}}}},
