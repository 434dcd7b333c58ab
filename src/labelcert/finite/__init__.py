"""Networks of finite width beside the kernel machines that are certified in their place."""

from labelcert.finite.margin import FiniteMargin, finite_margin

__all__ = ["FiniteMargin", "finite_margin"]
