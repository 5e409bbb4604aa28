"""Firmware: programs around bundles for microcontrollers, built, run on emulated boards and measured."""
