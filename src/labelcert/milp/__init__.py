"""Mixed-integer programs: the paper's formulation, a compact one, and the solvers that run them.

``model`` holds a program as sparse arrays, ``paper``, ``compact`` and ``linear`` build programs from a problem,
``relaxation`` proves ranges before the search, ``solvers`` runs programs. What an answer is worth is decided by
the engine (:mod:`labelcert.engines.milp`), not here.
"""
