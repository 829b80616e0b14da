"""The clock of live games, with time that a test makes."""

import asyncio

from playing import Time

from eqgrid_play.games import Clock


def ticks(work, *, late=0.0, count=6):
    """When each tick comes if the work after each takes so long, and how late it says it is."""
    time, found = Time(), []

    async def sleep(seconds):
        await time.sleep(seconds + late)

    async def run():
        async for said in Clock(4, time, sleep).ticks():
            found.append((round(time.now - 100, 6), round(said, 6)))
            if len(found) == count:
                return
            time.now += work[len(found) - 1]

    asyncio.run(run())
    return found


def test_ticks_come_at_a_fixed_rate_whatever_the_work_takes():
    found = ticks([0.0, 0.1, 0.2, 0.24, 0.0])
    assert found == [(0.25 * (i + 1), 0.0) for i in range(6)]


def test_late_ticks_do_not_move_the_next_ones():
    found = ticks([0.0] * 5, late=0.01)
    assert found == [(round(0.25 * (i + 1) + 0.01, 6), 0.01) for i in range(6)]


def test_late_ticks_are_caught_up_half_a_period_apart():
    times = [time for time, _ in ticks([0.0, 0.6, 0.0, 0.0, 0.0])]
    assert times == [0.25, 0.5, 1.1, 1.225, 1.35, 1.5]


def test_after_a_long_pause_no_tick_is_caught_up():
    times = [time for time, _ in ticks([0.0, 1.5, 0.0, 0.0, 0.0])]
    assert times == [0.25, 0.5, 2.0, 2.25, 2.5, 2.75]
