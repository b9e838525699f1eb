"""Runs blocks: scopes, plans, the interpreter, ``run_program`` and the operator kernels."""
