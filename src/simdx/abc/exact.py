"""The exact engine: both variants of the method without particles, batched over cases.

`multinomial` is M-SMC on a bank in closed form, `dirichlet` D-SMC up to prior draws shared by all
cases. See their modules for the mathematics.
"""

from simdx.abc.dirichlet import SharedDraws, dirichlet, prepare
from simdx.abc.multinomial import multinomial, multinomial_trace, simulation_weights

__all__ = [
    "SharedDraws",
    "dirichlet",
    "multinomial",
    "multinomial_trace",
    "prepare",
    "simulation_weights",
]
