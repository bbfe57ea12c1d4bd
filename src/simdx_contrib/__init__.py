"""Methods beside the core, in the same wheel, found through entry points as a third party's would be.

`likelihood` and `voices` let a language model score the case. `setfit`, `setfit-real` and `zerogen` fine-tune
on the bank. `nli` and `gliclass` ask a model that was trained for zero-shot classification.
"""
