"""What the tuner is worth: its explorers compared on one table of costs (`ci/bench-tuner --help`)."""
