"""Lets PyPI's torchvision, a CUDA build, be imported beside a CPU build of torch.

Its C extension cannot be loaded there, so two operators are missing that its Python code registers shapes for. They are
declared just before it is imported; nothing that runs on a CPU calls them.
"""

import importlib.abc
import sys

OPERATORS = ("nms", "qnms")
_kept = []


class DeclareOperators(importlib.abc.MetaPathFinder):
    """Takes part in the import of torchvision once, and finds nothing."""

    def find_spec(self, name, path=None, target=None):
        """Declare the operators when torchvision is looked for."""
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch  # noqa: PLC0415  # not before torchvision is wanted: it takes seconds

            library = torch.library.Library("torchvision", "DEF")
            for operator in OPERATORS:
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _kept.append(library)


sys.meta_path.insert(0, DeclareOperators())
