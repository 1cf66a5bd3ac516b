"""What is a tensor, what is compiled, and where the sites are: on ast alone, without running anything."""
