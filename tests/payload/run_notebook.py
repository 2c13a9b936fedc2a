# SPDX-License-Identifier: Apache-2.0
"""run_notebook.py NOTEBOOK OUT FIELD=VALUE... - run a notebook from top to bottom, as Jupyter does, into OUT.

A FIELD is one of its form: a line `FIELD = ...  # @param {type: "..."}`, which Colab changes in the same way.
"""
import asyncio
import re
import sys

import nbformat
from nbclient import NotebookClient

asyncio.set_event_loop(asyncio.new_event_loop())
notebook = nbformat.read(sys.argv[1], as_version=4)
form = next(c for c in notebook.cells if c.cell_type == "code")
for field in sys.argv[3:]:
    name, value = field.split("=", 1)
    line = re.search(rf'^{name} = (.*)  # @param {{type: "(string|integer|raw)"}}$', form.source, re.M)
    new = repr(value) if line[2] == "string" else value
    form.source = form.source[:line.start(1)] + new + form.source[line.end(1):]
try:
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
finally:
    nbformat.write(notebook, sys.argv[2])
