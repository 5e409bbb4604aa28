"""The tuner: it tries what strategies may choose, on real devices, and keeps what is faster (docs/tuning.md)."""
