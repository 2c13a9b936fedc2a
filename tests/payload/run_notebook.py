# SPDX-License-Identifier: Apache-2.0
"""run_notebook.py NOTEBOOK OUT - run a notebook from top to bottom, as Jupyter does, and keep what it showed."""
import asyncio
import sys

import nbformat
from nbclient import NotebookClient

asyncio.set_event_loop(asyncio.new_event_loop())
notebook = nbformat.read(sys.argv[1], as_version=4)
try:
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
finally:
    nbformat.write(notebook, sys.argv[2])
