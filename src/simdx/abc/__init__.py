"""Approximate Bayesian computation on a bank of simulations: pure, batched numerics.

prior                    the prior over labels, one object for both variants
space                    blocks of unit vectors, centred or not; the bank in it as atoms; typicality
multinomial, dirichlet   M-SMC in closed form; D-SMC up to shared prior draws, or with a simulator
particles                the paper's Algorithm 1, on a bank or with a simulator (its loop is in smc)

Arrays in, arrays out: no texts, no files, no models.
"""
