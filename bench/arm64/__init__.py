"""Instructions, cycles and cache traffic of an inference on ARM, counted under QEMU where there is no such machine."""
