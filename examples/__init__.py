"""The example models, as a package so that wheels carry them."""
