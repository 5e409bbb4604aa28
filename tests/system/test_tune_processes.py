"""The processes that measure for `sterna tune`: what they start and leave ends with them."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from sterna.driver import reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.targets.description import load_target
from sterna.tuning.kernels import tasks_of
from sterna.tuning.measure import Local
from support.tuned_layers import two_layers

#: A browser that opens no page: it says where its own files are, and holds the other end of a pipe while it lives.
_BROWSER = """#!/bin/sh
for word; do case $word in --user-data-dir=*) folder=${word#*=};; esac; done
exec 3>"%s"
echo "$folder" >&3
exec sleep 1000
"""


@pytest.mark.skipif(os.name != "posix", reason="a session of processes is ended together there")
def test_a_browser_ends_with_the_process_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, pipe = tmp_path / "browser", tmp_path / "pipe"
    browser.write_text(_BROWSER % pipe)
    browser.chmod(0o755)
    os.mkfifo(pipe)
    monkeypatch.setenv("CHROMIUM", str(browser))
    options = Options(load_target("browser"), "llvm")
    [task, *_], _ = tasks_of(read_model(Source.of(two_layers(tmp_path)), reading(options)), options)
    with Local("chromium") as measurer:
        assert measurer._open() == ""
        assert measurer._folder is not None
        opened = os.open(pipe, os.O_RDWR)  # keeps the next line from waiting
        with pipe.open() as heard:
            folders = []

            def interrupted(*_: object) -> None:
                folders.append(Path(heard.readline().strip()))
                os.close(opened)
                raise KeyboardInterrupt

            monkeypatch.setattr(measurer, "_answer", interrupted)
            with pytest.raises(KeyboardInterrupt):
                measurer.measure(task, {})
            assert select.select([heard], [], [], 20)[0]
            assert heard.read() == ""  # nobody holds the other end any more
    [folder] = folders
    assert folder.name.startswith("sterna-page-")
    assert not folder.exists()
