"""The bill before it is spent: each step worked through with what is known already."""
