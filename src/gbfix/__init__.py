"""gbfix: find torch.compile graph breaks in source code, rewrite them, and prove each rewrite."""

__version__ = "0.1.0"
