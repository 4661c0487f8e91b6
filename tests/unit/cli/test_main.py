"""How a process of `mvsink` ends: at once, but with all that it has to say and to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUN = """
import atexit, sys, threading, time
from dbt.adapters.mvsink.cli import main
def cli():
    {body}
main.cli = cli
main.main()
"""
ENDS = {
    "a code": ("sys.exit(3)", 3, "", ""),
    "no code": ("sys.exit()", 0, "", ""),
    "success": ("sys.exit(0)", 0, "", ""),
    "no exception": ("pass", 0, "", ""),
    "a text": ("sys.exit('no such thing')", 1, "", "no such thing"),
    "an error": ("raise RuntimeError('no such thing')", 1, "", "RuntimeError: no such thing"),
    "what is in a buffer": ("print('a' * 10**6); sys.exit(2)", 2, "a" * 10**6, ""),
    "a handler": ("atexit.register(print, 'done'); sys.exit(0)", 0, "done", ""),
    "a thread": (
        "threading.Thread(target=lambda: (time.sleep(0.2), print('done'))).start(); sys.exit(0)",
        0,
        "done",
        "",
    ),
}


@pytest.mark.parametrize(("body", "code", "out", "error"), ENDS.values(), ids=ENDS)
def test_how_a_process_ends(body, code, out, error):
    done = subprocess.run([sys.executable, "-c", RUN.format(body=body)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (code, out)
    assert done.stderr.strip().endswith(error) and (error != "" or not done.stderr)


def test_a_log_is_written_to_the_end(tmp_path):
    body = (
        "import logging, logging.handlers as h; "
        f"kept = h.MemoryHandler(99, target=logging.FileHandler({str(tmp_path / 'log')!r})); "
        "logging.getLogger().addHandler(kept); logging.warning('the last line'); sys.exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", RUN.format(body=body)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text() == "the last line\n"


def test_nothing_is_freed_object_by_object():
    body = "import gc; sys.exit(0)"
    last = "class Late:\n    def __del__(self): print('freed')\nlate = Late()\n"
    done = subprocess.run(
        [sys.executable, "-c", last + RUN.format(body=body)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")
