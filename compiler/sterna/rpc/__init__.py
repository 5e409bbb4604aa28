"""Bundles on other machines.

    import sterna.rpc
    with sterna.rpc.connect("rpc://pi:9190") as device:
        bundle = device.load("model-pi")
        outputs = bundle.run({"image": x})
        timing = device.time(bundle, least=0.2)

`docs/rpc.md` describes the protocol and the server.
"""

from sterna.rpc.device import Device, connect
from sterna.rpc.timing import Timing

__all__ = ["Device", "Timing", "connect"]
