"""`sterna-runtime verify`."""

from __future__ import annotations

import argparse

from sterna_runtime.cli.plain import echo, print_errors, print_json
from sterna_runtime.cli.reports import golden_json, golden_mistake, golden_sentence
from sterna_runtime.cli.trial import refuse_file
from sterna_runtime.strings import load


def command(options: argparse.Namespace) -> int:
    """Replays a bundle's golden sets; returns the exit status."""
    refuse_file(options.bundle)
    with load(options.bundle, options.threads) as bundle:
        result = bundle.verify_golden(options.tolerance)
    mistake = golden_mistake(result)
    if options.as_json:
        print_json(golden_json(result, mistake))
    else:
        echo(golden_sentence(options.bundle.name, result, "agrees with" if result.ok else "does not agree with"))
    if mistake is not None:
        print_errors(mistake)
    return 0 if result.ok else 1
