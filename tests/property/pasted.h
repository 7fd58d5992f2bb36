/* SPDX-License-Identifier: BSD-3-Clause */
/* pasted: pairs that failed once, as they were printed when made small. Initialisers of struct pair. */
{.layers = 1,
 .tokens = 5,
 .planes = 1,
 .head_size = 1,
 .num_splits = 1,
 .heads = {1},
 .num_tensors = 1,
 .tensor = {{.layer = 0}},
 .side = {{.tp = 1, .pp = 1, .block_tokens = {3}}, {.tp = 1, .pp = 1, .block_tokens = {5}}}},
