/* SPDX-License-Identifier: BSD-3-Clause */
/* baton-bench's options: what each word sets, the defaults of each operation, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "bench/options.h"
#include "unit/with_line.h"

static struct line line;

static struct options good(const char *text)
{
    struct why why;
    struct options o;
    line_set(&line, text);
    if (options_read(&o, line.argc, line.argv, &why) != 0)
        fail_msg("\"%s\": %s", text, why.text);
    return o;
}

static void defaults(void **state)
{
    (void)state;
    const struct options o = good("pull");
    assert_int_equal(o.op, OP_PULL);
    assert_int_equal(o.block.count, 3);
    assert_int_equal(o.block.value[2], 1 << 20);
    assert_int_equal(o.batch.value[2], 1024);
    assert_true(o.seconds == 3 && o.stop_seconds == 15);
    assert_int_equal(o.seed, 1);
    assert_int_equal(o.transfers, 64);
    assert_int_equal(o.want_ms, 5000);
    assert_int_equal(o.load, 1 << 30);
    assert_int_equal(o.format, FORMAT_TABLE);
    assert_int_equal(o.latency.state, STATE_ALL);
    assert_int_equal(o.latency.from, 0);
    assert_false(o.latency.verdicts);
    assert_false(o.busy || o.pin || o.help || o.pool || o.iters || o.stop_engines);
    assert_null(o.json);
    assert_null(o.stop_engine);
    assert_int_equal(good("submit").batch.value[0], 1024);
    assert_int_equal(good("fairness").batch.count, 2);
    assert_int_equal(good("memory").block.value[0], 512);
    assert_int_equal(good("distances").block.value[0], 64 << 10);
    assert_int_equal(good("distances").batch.value[0], 64);
    assert_string_equal(good("distances --network f").network, "f");
    assert_int_equal(good("memory").blocks.value[1], 100000);
    assert_int_equal(good("wrapped").block.count, 2);
    assert_int_equal(good("wrapped").batch.value[0], 1024);
    assert_int_equal(good("latency").block.count, 3);
    assert_int_equal(good("latency").batch.value[1], 8);
    assert_int_equal(good("latency").latency.from, 1 << FROM_WANT);
    assert_false(good("latency").latency.verdicts);
    assert_string_equal(options_op_name(&(struct options){.op = OP_LATENCY, .busy = true}), "latency+busy");
    assert_int_equal(good("interference").block.value[0], 64 << 10);
    assert_string_equal(good("interference --with BATON_TUNE=spin_us=1").with, "BATON_TUNE=spin_us=1");
    assert_string_equal(good("interference --with BATON_TUNE=rma_bytes=4M").with, "BATON_TUNE=rma_bytes=4M");
    assert_string_equal(good("interference --with BATON_TRACE=t=1").with, "BATON_TRACE=t=1");
    good("interference --with BATON_FAULT=corrupt@move");
    good("interference --with BATON_METRICS=0");
    good("interference --with BATON_REACTOR_CPUS=1");
    assert_int_equal(good("incast").block.count, 2);
    assert_int_equal(good("allpairs").batch.value[0], 256);
    assert_string_equal(options_op_name(&(struct options){.op = OP_FANOUT, .busy = true}), "fanout+busy");
    assert_int_equal(good("regions").block.value[0], 4096);
    assert_int_equal(good("regions").regions.value[1], 256);
    assert_int_equal(good("worlds").block.value[2], 1 << 20);
    assert_int_equal(good("worlds").batch.value[1], 64);
}

static void every_option(void **state)
{
    (void)state;
    const struct options o = good("--want-ms 7 handshake --stop-engine prefill1 --stop-seconds 4 --busy");
    assert_int_equal(o.op, OP_HANDSHAKE);
    assert_true(o.stop_seconds == 4);
    assert_int_equal(o.want_ms, 7);
    assert_string_equal(o.stop_engine, "prefill1");
    assert_string_equal(options_op_name(&o), "handshake+busy");
    assert_int_equal(good("memory --blocks 2 --transfers 8").blocks.value[0], 2);
    assert_int_equal(good("memory --blocks 2 --transfers 8").transfers, 8);
    assert_int_equal(good("regions --regions 4,8").regions.value[1], 8);
    assert_int_equal(good("idle --seconds 0.5").iters, 0);
    assert_true(good("idle --seconds 0.5").seconds == 0.5);
    assert_int_equal(good("fairness --load 5 --stop-engines 2").load, 5);
    assert_int_equal(good("fairness --load 5 --stop-engines 2").stop_engines, 2);
    const struct options p = good("--block 4K --batch 3,5 push --pool 1M --iters 9 --seed 0 --pin --csv --json f");
    assert_int_equal(p.seed, 0);
    assert_int_equal(p.block.value[0], 4096);
    assert_int_equal(p.batch.value[1], 5);
    assert_int_equal(p.pool, 1 << 20);
    assert_int_equal(p.iters, 9);
    assert_true(p.pin);
    assert_int_equal(p.format, FORMAT_CSV);
    assert_string_equal(p.json, "f");
    assert_string_equal(options_op_name(&p), "push");
    assert_int_equal(good("fairness --stop-engines 0").stop_engines, 0);
    assert_int_equal(good("pull --csv --table").format, FORMAT_TABLE);
    assert_int_equal(good("pull --table --csv").format, FORMAT_CSV);
    assert_int_equal(good("latency --state busy").latency.state, STATE_BUSY);
    assert_int_equal(good("latency --from ready,want").latency.from, 1 << FROM_WANT | 1 << FROM_READY);
    assert_int_equal(good("latency --from offer").latency.from, 1 << FROM_OFFER);
    assert_int_equal(good("latency --from offer --from ready").latency.from, 1 << FROM_READY);
    assert_int_equal(good("latency --from all").latency.from, (1 << FROM_CALLS) - 1);
    assert_string_equal(options_from_name(FROM_READY), "ready");
    assert_true(good("latency --verdicts").latency.verdicts);
    assert_int_equal(good("latency").latency.memory, OWN_SLAB);
    assert_int_equal(good("latency --memory private").latency.memory, OWN_PRIVATE);
    assert_int_equal(good("latency --memory mapped").latency.memory, OWN_MAPPED);
    const struct options osu = good("latency --format osu");
    assert_int_equal(osu.format, FORMAT_OSU);
    assert_int_equal(osu.latency.state, STATE_POLLED);
    assert_int_equal(osu.latency.from, 1 << FROM_WANT);
    assert_true(osu.batch.count == 1 && osu.batch.value[0] == 1);
    assert_int_equal(good("latency --format osu --from offer").latency.from, 1 << FROM_OFFER);
    assert_int_equal(good("push --format osu").batch.value[0], 64);
    assert_true(good("--help").help);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "no operation is given: pull, push, latency, submit, memory, handshake, shapes, fairness, distances, "
             "wrapped, regions, fanout, incast, allpairs, interference, idle, scale, worlds"},
        {"pull --with A=1", "pull takes no --with"},
        {"interference --with A=1",
         "--with needs a setting that Baton reads when a context is opened, and A is none; baton-info lists them"},
        {"interference --with BATON_NOSUCH=1", "and BATON_NOSUCH is none; the nearest is BATON_"},
        {"interference --with BATON_SPINUS=1", "and BATON_SPINUS is none; the nearest is BATON_TUNE=spin_us"},
        {"interference --with BATON_ENGINE=x", "and BATON_ENGINE is none; baton-info lists them"},
        {"interference --with BATON_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=1", "--with must be VARIABLE=VALUE"},
        {"interference --with BATON_TUNE=fail_rank=", "--with BATON_TUNE=fail_rank=\"\" is not a number"},
        {"interference --with BATON_TUNE=spin_us=fast", "--with BATON_TUNE=spin_us=\"fast\" is not a number"},
        {"interference --with BATON_TUNE=handoff=3",
         "--with BATON_TUNE=handoff=\"3\" is out of range; it may be 0 to 2: "},
        {"interference --with BATON_SPIN_US=1",
         "--with BATON_SPIN_US is not a variable but a tunable: set BATON_TUNE="},
        {"interference --with A", "--with must be VARIABLE=VALUE, and is \"A\""},
        {"interference --with =1", "--with must be VARIABLE=VALUE"},
        {"interference --batch 1,2", "interference takes one --batch"},
        {"fetch", "the operation must be one of pull, push"},
        {"pull push", "\"push\" is not an option"},
        {"pull --bogus", "\"--bogus\" is no option"},
        {"pull --block", "\"--block\" lacks its value"},
        {"pull --block 31", "--block must be 1 to 32 numbers from 32 to 1G"},
        {"pull --block 48", "--block must be multiples of 32, and has 48"},
        {"pull --batch 0", "--batch must be 1 to 32 numbers from 1 to 16M"},
        {"memory --blocks 1", "--blocks must be 1 to 32 numbers from 2 to 256M"},
        {"regions --regions 3,256", "--regions must divide the largest of them, and 3 does not divide 256"},
        {"regions --regions 1025", "--regions must be 1 to 32 numbers from 1 to 1024"},
        {"idle --iters 2", "idle takes no --iters"},
        {"regions --block 4K,8K", "regions takes one --block"},
        {"regions --batch 3", "regions takes no --batch"},
        {"handshake --block 4K", "handshake takes no --block"},
        {"handshake --batch 3", "handshake takes no --batch"},
        {"shapes --block 4K", "shapes takes no --block"},
        {"shapes --batch 3", "shapes takes no --batch"},
        {"idle --block 4K", "idle takes no --block"},
        {"idle --batch 3", "idle takes no --batch"},
        {"scale --block 4K", "scale takes no --block"},
        {"scale --busy --batch 3", "scale takes no --batch"},
        {"pull --pool 4095", "--pool must be a whole number from 4096"},
        {"pull --iters 0", "--iters must be"},
        {"pull --seconds 0", "--seconds must be a number from 0.001 to 86400"},
        {"handshake --want-ms 3600001", "--want-ms must be a whole number from 1 to 3600000"},
        {"handshake --stop-engine x --stop-seconds 7", "--stop-seconds must be 8 at least"},
        {"distances --block 4K,64K", "distances takes one --block and one --batch"},
        {"distances --csv", "distances takes no --csv"},
        {"submit --format osu", "--format osu is for pull, push and latency"},
        {"pull --format osu --batch 1,2", "--format osu takes one --batch"},
        {"pull --format xml", "--format must be one of table, csv, osu"},
        {"pull --state busy", "pull takes no --state"},
        {"pull --state all", "pull takes no --state"}, /* nor what it has anyway */
        {"pull --from want", "pull takes no --from"},
        {"pull --verdicts", "pull takes no --verdicts"},
        {"pull --memory private", "pull takes no --memory"},
        {"latency --memory device", "--memory must be one of slab, private, mapped"},
        {"pull --load 1G", "pull takes no --load"},
        {"push --stop-engines 1", "push takes no --stop-engines"},
        {"pull --blocks 2", "pull takes no --blocks"},
        {"latency --regions 1", "latency takes no --regions"},
        {"submit --pool 1M", "submit takes no --pool"},
        {"memory --iters 1", "memory takes no --iters"},
        {"handshake --seconds 1", "handshake takes no --seconds"},
        {"handshake --seed 1", "handshake takes no --seed"},
        {"regions --seed 1", "regions takes no --seed"},
        {"idle --seed 1", "idle takes no --seed"},
        {"scale --seed 1", "scale takes no --seed"},
        {"worlds --state streak", "worlds takes no --state"},
        {"handshake --stop-seconds 15", "--stop-seconds needs --stop-engine"},
        {"regions --busy", "regions takes no --busy"},
        {"regions --pin", "regions takes no --pin"},
        {"pull --transfers 64", "pull takes no --transfers"},
        {"fairness --want-ms 5000", "fairness takes no --want-ms"},
        {"scale --stop-engine x", "scale takes no --stop-engine"},
        {"idle --stop-seconds 15", "idle takes no --stop-seconds"},
        {"distances --format table", "distances takes no --format"},
        {"distances --table", "distances takes no --table"},
        {"distances --json f", "distances takes no --json"},
        {"latency --state streak --from offer,ready", "--state streak needs want in --from"},
        {"latency --state streak --verdicts", "--state streak is not for --verdicts"},
        {"latency --from want,",
         "--from must be one or more of want, offer, ready, all with commas between them, and is \"want,\""},
        {"latency --from wantofferreadyall", "--from must be one or more of want"},
        {"latency --from ,all", "--from must be one or more of want"},
        {"latency --format osu --from want,ready", "--format osu takes one call of --from"},
        {"pull --network f", "pull takes no --network"},
        {"fairness --stop-engines 65537", "--stop-engines must be a whole number from 0 to 65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct why why;
        struct options o;
        line_set(&line, cases[i][0]);
        assert_int_equal(options_read(&o, line.argc, line.argv, &why), -1);
        if (strstr(why.text, cases[i][1]) == NULL)
            fail_msg("%s: \"%s\" does not say %s", cases[i][0], why.text, cases[i][1]);
    }
}

static void tunables_are_replaced_by_name(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        /* given, changes, together */
        {NULL, "spin_us=1", "spin_us=1"},
        {"", "spin_us=1", "spin_us=1"},
        {"spin_us=0", "spin_us=1", "spin_us=1"},
        {"rma_bytes=4M,spin_us=0,nice=1", "spin_us=1", "rma_bytes=4M,nice=1,spin_us=1"},
        {"spin_us=0,nice=1", "nice=2,spin_us=1", "nice=2,spin_us=1"},
        {"spin=0,spin_us_more=2", "spin_us=1", "spin=0,spin_us_more=2,spin_us=1"},
        {"nice=2", "", ""},
        {"nice", "nice=2", "nice=2"}, /* it is no tunable: the one that is replaces it */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *found = options_tuned(cases[i][0], cases[i][1]);
        assert_string_equal(found, cases[i][2]);
        free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_option),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(tunables_are_replaced_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
