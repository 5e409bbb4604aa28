"""Running bundles for other processors on this machine, by emulators."""
