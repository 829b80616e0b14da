"""How well a pendulum can be swung up: value iteration on a fine grid, in NumPy alone."""

import numpy as np

STEPS = 200
ANGLES, SPEEDS, TORQUES = 201, 201, np.linspace(-2.0, 2.0, 9)


def turn(angle, speed, torque):
    """The cost of a step, and where it leads."""
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    cost = wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2
    speed = np.clip(speed + 0.05 * (15.0 * np.sin(angle) + 3.0 * torque), -8.0, 8.0)
    return cost, angle + 0.05 * speed, speed


def corners(angle, speed):
    """The four places of the grid around each state, and their weights."""
    column = (angle / (2 * np.pi) % 1.0) * ANGLES
    row = (speed + 8.0) / 16.0 * (SPEEDS - 1)
    left, low = np.floor(column).astype(int), np.minimum(row.astype(int), SPEEDS - 2)
    right_share, high_share = column - left, row - low
    places, weights = [], []
    for step, share in ((0, 1 - right_share), (1, right_share)):
        for rise, height in ((0, 1 - high_share), (1, high_share)):
            places.append((left + step) % ANGLES * SPEEDS + low + rise)
            weights.append(share * height)
    return np.stack(places), np.stack(weights)


def costs_to_go():
    """The least cost of what is left of an episode, for every step of it and place of the grid."""
    angle = 2 * np.pi * np.arange(ANGLES)[:, None, None] / ANGLES
    speed = np.linspace(-8.0, 8.0, SPEEDS)[None, :, None]
    cost, angle, speed = turn(*np.broadcast_arrays(angle, speed, TORQUES))
    places, weights = corners(angle, speed)
    later = [np.zeros(ANGLES * SPEEDS)]
    for _ in range(STEPS):
        expected = cost + sum(w * later[-1][p] for p, w in zip(places, weights, strict=True))
        later.append(expected.min(axis=-1).reshape(-1))
    return later[::-1]


def best_returns(starts):
    """What each start comes to when every step takes the torque with the least cost to go.

    **Returns:** what is played so, and what the grid says it costs.
    """
    later = costs_to_go()
    places, weights = corners(*starts.T)
    said = -(weights * later[0][places]).sum(axis=0)
    angle, speed = starts.T
    played = np.zeros(len(starts))
    for to_go in later[1:]:
        cost, next_angle, next_speed = turn(angle[:, None], speed[:, None], TORQUES)
        places, weights = corners(next_angle, next_speed)
        best = (cost + (weights * to_go[places]).sum(axis=0)).argmin(axis=-1)[:, None]
        step = [np.take_along_axis(x, best, axis=1)[:, 0] for x in (cost, next_angle, next_speed)]
        played -= step[0]
        angle, speed = step[1:]
    return played, said
