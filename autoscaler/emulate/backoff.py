"""How long a container waits before it is started again.

A crash doubles the wait: 10 s, 20 s, 40 s … 300 s, forgotten after ten minutes of running. A restart that a resize
asked for counts as a crash too, with a recorded pattern: 1-3 s apart the 4th, 6th and 8th took 12, 25 and 50 s, and
twelve seconds apart five in a row were fine.
"""

FIRST = 10.0
LONGEST = 300.0
FORGOTTEN_AFTER = 600.0
SPACED = 12.0  # restarts by a resize at least this far apart do not add up


def after_crash(crashes: int) -> float:
    """Seconds before the start that follows the `crashes`-th crash of a series; the first restart is at once."""
    if crashes <= 1:
        return 0.0
    return float(min(LONGEST, FIRST * 2 ** (crashes - 2)))


def after_quick_restart(count: int) -> float:
    """Seconds before the `count`-th restart by a resize in close succession."""
    if count < 4 or count % 2:
        return 0.0
    return float(min(LONGEST, 12.5 * 2 ** (count // 2 - 2)))
