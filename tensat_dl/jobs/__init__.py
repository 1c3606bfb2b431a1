"""Independent jobs in several processes: on this machine, or on a cluster with Ray.

`Where` says where. Its `workers` do the `Job`s of a `Work`; `done` gives their results as they come. Answers do not
depend on where jobs run: a job is a function of its argument, and of nothing else.
"""
