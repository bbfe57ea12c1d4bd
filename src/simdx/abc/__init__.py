"""Approximate Bayesian computation on a bank of simulations: pure, batched numerics.

prior                    the prior over labels, one object for both variants
space                    blocks of unit vectors, centred or not; the bank in it as atoms
multinomial, dirichlet   M-SMC in closed form; D-SMC up to prior draws shared by all cases
particles                the paper's Algorithm 1, case by case (its loop is in smc)
live                     a simulator callback in place of the bank
second_order, typicality what is read off the answers

Arrays in, arrays out: no texts, no files, no models.
"""
