"""Many cases in worker processes or on Ray Data.

The input is cut into blocks before anything runs, and each block has a file of its own in the output.
So the number of workers, a worker's death and a second run change neither an answer nor how often it is
given.
"""
