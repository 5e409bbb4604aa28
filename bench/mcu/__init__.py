"""Firmware on emulated boards: what it takes of flash, memory, stack and instructions."""
