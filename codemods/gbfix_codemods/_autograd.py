"""What of autograd, training and hooks was measured to break in default mode on torch 2.13, by what to do instead."""

from __future__ import annotations

BACKWARD = (
    "torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad", "torch.autograd.functional.vjp",
    "torch.autograd.functional.jvp", "torch.autograd.functional.jacobian", "torch.autograd.functional.hessian",
)  # fmt: skip
LEAVES = (
    "torch.Tensor.requires_grad_",
    "torch.Tensor.requires_grad",
    "torch.Tensor.retain_grad",
    "torch.Tensor.grad_fn",
)
CREATED = tuple(
    f"torch.{name}"
    for name in ("zeros", "ones", "empty", "full", "tensor", "rand", "randn", "arange", "zeros_like", "ones_like", "randn_like")
)  # fmt: skip
PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.UninitializedParameter")
# Making these makes parameters. The others of torch.nn, activations and losses, are traced.
MODULES = tuple(
    f"torch.nn.{name}"
    for name in (
        "Linear", "LazyLinear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
        "ConvTranspose3d", "Embedding", "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell",
        "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "GroupNorm", "LayerNorm", "RMSNorm", "PReLU",
        "MultiheadAttention", "Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer",
    )
)  # fmt: skip
OPTIMIZERS = (
    "torch.optim.*",
    "torch.amp.GradScaler",
    "torch.amp.GradScaler.*",
    "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.GradScaler.*",
)
HOOKS = (
    "torch.nn.Module.register_forward_hook", "torch.nn.Module.register_forward_pre_hook",
    "torch.nn.Module.register_full_backward_hook", "torch.nn.Module.register_full_backward_pre_hook",
)  # fmt: skip
HOOKED = ("torch.nn.Module.register_full_backward_hook.__call__",)
ADVICE = {
    BACKWARD: "compile the forward pass and its loss, and leave the gradients to code that is not compiled",
    LEAVES: "set it before the compiled code, or keep the tensor that needs it outside",
    CREATED: "make the leaf outside of the compiled code and pass it in",
    PARAMETERS: "make the parameter once, in `__init__`",
    MODULES: "make the module once, in `__init__`",
    OPTIMIZERS: "step the optimizer outside of the compiled code, or compile the step as a function of its own",
    HOOKS: "register the hook before the module is compiled",
    HOOKED: "torch._dynamo.config.compiled_autograd lets such modules be traced; or use a tensor hook, which is traced",
}
CALLS = tuple(name for names in ADVICE for name in names)
