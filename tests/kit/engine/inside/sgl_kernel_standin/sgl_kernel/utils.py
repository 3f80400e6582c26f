"""Importable, and nothing in it can be called."""

from sgl_kernel import Missing


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)
