"""Networks of finite width beside the kernel machines that are certified in their place."""

from labelcert.finite.margin import FiniteMargin, finite_margin
from labelcert.finite.stressing import Stress, stress

__all__ = ["FiniteMargin", "Stress", "finite_margin", "stress"]
