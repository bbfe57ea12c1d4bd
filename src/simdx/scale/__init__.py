"""From one process to a cluster: many cases through Ray Data, banks from many servers, large label sets.

Nothing here computes an answer of its own. Cases are cut into blocks before anything runs, a block's
answer is the classifier's, and it lies in a file of its own when it is done. So the number of workers, a
worker's death and a second run change neither an answer nor how often it is given.
"""
