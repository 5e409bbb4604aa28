"""Neural networks of Core ML: layers of specification 1 to 3 on tensors of five dimensions, and those since."""
