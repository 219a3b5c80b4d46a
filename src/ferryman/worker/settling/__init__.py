"""How a worker ends its claims: outcomes are written under the fence, then reported."""
