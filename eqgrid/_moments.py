"""RunningMoments: the running mean and variance of a stream of arrays."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


@final
class RunningMoments(eqx.Module):
    """The mean and the population variance of all samples so far, elementwise.

    Updates use the parallel formula of Chan, Golub & LeVeque (1983), "Algorithms for Computing the
    Sample Variance". Two choices keep the precision in float32: the variance is stored, since a sum
    of squares loses precision over a long run; and deviations are taken from the running mean,
    since the squares of large numbers would hide a small variance.

    **Arguments:**

    - `count`: the number of samples. A float, since an int32 overflows in a long run.
    - `mean`, `variance`: arrays of the shape of one sample; 0 and 1 before the first sample.
    """

    count: Float[Array, ""]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]

    @staticmethod
    def empty(shape: tuple[int, ...]) -> "RunningMoments":
        """The moments of no samples, for samples of shape `shape`."""
        return RunningMoments(
            count=jnp.zeros((), dtype=float),
            mean=jnp.zeros(shape, dtype=float),
            variance=jnp.ones(shape, dtype=float),
        )

    def update(
        self,
        samples: Float[Array, "samples *shape"],
        counts: Bool[Array, " samples"] | None = None,
    ) -> "RunningMoments":
        """Adds a batch of samples; every sample has the same weight.

        **Arguments:**

        - `samples`: the samples, along the first axis.
        - `counts`: which samples to include; all by default.

        **Returns:** the moments of all earlier samples together with the new samples.

        **Raises:** `ValueError` when the samples have another shape than the moments.
        """
        self._check_shape("Each sample", samples.shape[1:])
        if counts is None:
            counts = jnp.ones(len(samples), bool)
        number = counts.sum().astype(float)
        mask = counts.reshape(-1, *[1] * self.mean.ndim)
        deviation = samples - self.mean[None]
        offset = _mean(deviation, mask, number)
        variance = _mean(jnp.square(deviation - offset[None]), mask, number)
        return self._combine(number, offset, variance)

    def merge(self, other: "RunningMoments") -> "RunningMoments":
        """The moments of the samples of both objects together; either may be empty.

        **Raises:** `ValueError` when the samples of both have different shapes.
        """
        self._check_shape("Each sample of `other`", other.mean.shape)
        return self._combine(other.count, other.mean - self.mean, other.variance)

    def standardize(
        self, x: Float[Array, "*shape"], epsilon: Float[Array, ""], clip: Float[Array, ""] | float
    ) -> Float[Array, "*shape"]:
        """Standardises one sample: `clip((x - mean) / sqrt(variance + epsilon), -clip, clip)`.

        **Raises:** `ValueError` when the sample has another shape than the moments.
        """
        self._check_shape("The sample", x.shape)
        # XLA rewrites the division in some programs, but not in others. The barrier prevents this,
        # so that equal moments give bitwise equal results in all programs.
        deviation = jax.lax.optimization_barrier(jnp.sqrt(self.variance + epsilon))
        return jnp.clip((x - self.mean) / deviation, -clip, clip)

    def _check_shape(self, what: str, shape: tuple[int, ...]) -> None:
        if shape != self.mean.shape:
            raise ValueError(
                f"{what} must have the shape {self.mean.shape} of the moments, but has {shape}."
            )

    def _combine(
        self,
        count: Float[Array, ""],
        offset: Float[Array, "*shape"],
        variance: Float[Array, "*shape"],
    ) -> "RunningMoments":
        """Adds `count` samples with the mean `self.mean + offset` and the given variance."""
        total = self.count + count
        theirs = count / jnp.maximum(total, 1)
        ours = 1 - theirs
        return RunningMoments(
            count=total,
            mean=self.mean + theirs * offset,
            variance=ours * self.variance + theirs * variance + ours * theirs * jnp.square(offset),
        )


def _mean(
    samples: Float[Array, "samples *shape"],
    mask: Bool[Array, "samples ..."],
    number: Float[Array, ""],
) -> Float[Array, "*shape"]:
    return jnp.where(mask, samples, 0.0).sum(axis=0) / jnp.maximum(number, 1.0)
