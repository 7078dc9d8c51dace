"""What may be chosen: operations, cells, genotypes."""
