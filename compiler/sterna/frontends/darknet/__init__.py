"""DarkNet: a description of layers (`.cfg`), and their weights beside it (`.weights`)."""
