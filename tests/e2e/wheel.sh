# SPDX-License-Identifier: Apache-2.0
# wheel.sh - a wheel of the programs in $BIN, and Python environments: . "$TOP/tests/e2e/wheel.sh"
python=/usr/bin/python3
$python -c 'import ensurepip, venv' 2>/dev/null || { echo "python3-venv is not installed"; exit 77; }

# make_wheel - $wheel is its path, of $version
make_wheel() {
    local shell
    version=$(jobctl version | sed -n '1s/^jobctl //p')
    mkdir -p "$WORK/build/completions"
    ln -s "$BIN" "$BIN/../lib" "$WORK/build"
    for shell in bash zsh fish; do jobctl completions $shell >"$WORK/build/completions/$shell"; done
    "$TOP/deploy/pack.sh" wheel "$WORK/build" "$version" 2001-02-03 jobctl jobctl-agent jobctl-train jobctl-ssh \
        jobctl-fetch >"$WORK/pack.log"
    wheel=$(ls "$WORK"/build/*.whl)
}

# make_jupyter DIR - DIR/python: an environment with a kernel, where pip installs, and what the notebooks use of Colab
make_jupyter() {
    local google
    $python -m venv --system-site-packages "$1/python"
    "$1/python/bin/python" -m ipykernel install --sys-prefix >/dev/null 2>&1
    google=$(echo "$1"/python/lib/python3.*/site-packages)/google
    mkdir -p "$google"
    touch "$google/__init__.py"
    printf 'class drive:\n    mount = print\nclass output:\n    eval_js = print\n' >"$google/colab.py"
}
