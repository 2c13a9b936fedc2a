#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python_check.sh BIN [PYTHON] - the examples of docs/PYTHON.md, with this Python and the programs in BIN
#
# templates/jobctl.py must also be in the language of Python 3.9, that of Debian 11.
set -euo pipefail
bin=$(cd "$1" && pwd)
python=${2:-python3}
cd "$(dirname "$0")/.."
top=$PWD
dir=$(mktemp -d)
export HOME=$dir JOBCTL_HOME=$dir/state PATH=$bin:$PATH PYTHONPATH=$top/templates PYTHONDONTWRITEBYTECODE=1
unset JOBCTL_HOST
trap 'jobctl daemon stop >"$dir/stopped" || cat "$dir/stopped"; rm -rf "$dir"' EXIT
cd "$dir"
printf 'run: sh -c "echo $GREETING"\nresources: {gpus: 0}\n' >hello.yaml
"$python" - "$top" <<'PY'
import ast, doctest, pydoc, sys
import jobctl

with open(jobctl.__file__, encoding="utf-8") as f:
    ast.parse(f.read(), feature_version=(3, 9))
for name in jobctl.__all__:
    assert not isinstance(getattr(jobctl, name), type) or getattr(jobctl, name).__doc__, name
for name, value in vars(jobctl.Client).items():
    if callable(value) and not name.startswith("_"):
        assert value.__doc__ and "return" in value.__annotations__, name
assert "Submits a job and returns its row" in pydoc.plain(pydoc.render_doc(jobctl))
ended = doctest.testfile(sys.argv[1] + "/docs/PYTHON.md", module_relative=False, optionflags=doctest.ELLIPSIS)
assert ended.failed == 0 and ended.attempted >= 10, ended
print("Python %d.%d: %d examples" % (*sys.version_info[:2], ended.attempted))
PY
