"""A chain of inverted residual blocks, each with a kernel and an expansion of its own, or left out.

Cai et al., ProxylessNAS, ICLR 2019 (arXiv:1812.00332); DSNAS and others search chains like it.
"""

SPACES = {"proxyless": "smallgroup.spaces.proxyless.definition:ProxylessDefinition"}
"""What is registered, by name: `module:Class`."""
