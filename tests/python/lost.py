# SPDX-License-Identifier: BSD-3-Clause
"""A rank is killed: what the other hears, and how it leaves: `lost.py exit` by baton.exit, `lost.py end` by its end.

Runs under batonrun --survive with one rank on each side. The decode rank is killed, the prefill rank prints.
"""
import asyncio
import os
import signal
import sys
import time

import baton
from baton import aio
from with_world import geometry, events_of


async def wants(context):
    """One call is answered as an event of the loop, and its blocks come back or it is given up."""
    async with aio.Events(context) as events:
        want = events.want("never", "decode0", [5], 16, timeout_ms=20000)
        try:
            await want
        except baton.EPEER as error:
            print(f"raised: {error}")
        except aio.GivenUp as error:
            assert error.errno == baton.EPEER.errno and not error.transfer.ended.done(), error
            print(f"raised: {error}")


def main():
    with baton.Context(baton.OpenParams.from_env()) as context:
        context.create_cache(geometry())
        context.start()
        if context.params.role == baton.Role.DECODE:
            call = context.offer("first", [1], 16)
            events_of(context, [call])
            os.kill(os.getpid(), signal.SIGKILL)
        call = context.want("first", "decode0", [2], 16)
        assert events_of(context, [call])[call].status == baton.Status.DONE
        asyncio.run(asyncio.wait_for(wants(context), 30))
        begin = time.monotonic()
        try:
            context.close()
        except baton.EPEER as error:
            print(f"close: {error}")
        assert time.monotonic() - begin < 20
        context.close()  # it is gone
        if sys.argv[1] == "exit":
            baton.exit(0)


main()
