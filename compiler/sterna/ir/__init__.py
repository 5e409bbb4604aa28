"""What every level shares (symbolic integers, element types) and the graph."""
