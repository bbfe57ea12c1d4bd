"""The exact engines, typicality and the amortised forward pass through torch.

The same answers as the numpy engines, on any torch device. On CUDA the work is done by fused Triton
kernels; elsewhere by plain torch operations, which is also how the kernels are tested without a GPU.
Needs torch and numpy, nothing else.
"""
