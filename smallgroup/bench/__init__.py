"""How fast it is, measured fairly: the textbook form and the fast path of the same computation, in turn, in one run.

`textbook` is the plain reference, and an independent derivation of a group's step; `timing` lets contenders take turns;
`step`, `operations`, `scaling` and `memory` are what `smallgroup bench` measures. Ratios are what counts: seconds say
more about the machine than about the program.
"""
