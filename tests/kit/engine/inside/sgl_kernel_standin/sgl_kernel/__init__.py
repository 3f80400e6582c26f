"""What SGLang imports of its kernels when it serves a dense model on a CPU without AMX.

There is no CPU build of the kernels to install. One function is called and is written in plain torch; every other name
can be imported, and says so when it is called.
"""

import torch

__version__ = "0.4.10+standin"

_CPU_OPERATORS = (
    "fused_dual_residual_rmsnorm_cpu",
    "fused_gdn_gating_cpu",
    "fused_moe_router_cpu",
    "fused_qk_gemma_rmsnorm_cpu",
    "fused_qk_gemma_rmsnorm_with_gate_cpu",
    "fused_qkvzba_split_reshape_cat_contiguous_cpu",
    "fused_sigmoid_gating_delta_rule_update_cpu",
    "fused_sigmoid_mul_cpu",
    "rmsnorm_cpu",
)
_library = torch.library.Library("sgl_kernel", "FRAGMENT")
for _operator in _CPU_OPERATORS:
    _library.define(f"{_operator}(Tensor x) -> Tensor")


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, pool_len):
    """Write each request's new cache places into its row of the table, one after the other."""
    begin = 0
    for row, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True):
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[begin : begin + count].to(req_to_token.dtype)
        begin += count


class Missing:
    """A kernel that is not here."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *arguments, **options):
        """Say so."""
        raise NotImplementedError(f"sgl_kernel.{self.name} is not among the stand-ins for a CPU")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)
