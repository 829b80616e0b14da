"""Numbers that divide another one, for sentences that say which setting would work."""


def nearest_divisors(wanted: int, total: int) -> str:
    """The largest divisor of `total` below `wanted` and the smallest one above it, in words."""
    divisors = [n for n in range(1, total + 1) if total % n == 0]
    below = [n for n in divisors if n < wanted][-1:]
    above = [n for n in divisors if n > wanted][:1]
    return " and ".join(str(n) for n in below + above)
