"""Networks of finite width, in PyTorch."""
