"""Amortised inference (ABI): a small network that answers what D-SMC would, in one forward pass.

    train          observations from simulated text, what D-SMC says about each, and Adam on that (torch)
    network        the trained network: numpy forward pass, file format, what it may be used for; as a method
    fidelity       network against D-SMC, case by case

The D-SMC posterior of an observation z depends on z only through c = class_means @ z (K numbers) and on
the prior. So the network's first layer is built as (256 x K) times the class means: it is trained on c,
then folded into an ordinary d -> 256 -> 256 -> K network. What it must cover is K-dimensional, however
wide the embedding, and text it has never seen differs from its training observations only in c.
"""
