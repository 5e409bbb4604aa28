"""Schedules: how a kernel is computed, as data; and the strategies that propose them."""
