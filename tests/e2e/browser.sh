# SPDX-License-Identifier: Apache-2.0
# browser.sh - skips tests of the dashboard in Chromium if their programs are missing: . "$TOP/tests/e2e/browser.sh"
#
# Bootstrap installs it with --all. DASHBOARD_SHOTS=DIR keeps the pictures.
chromium=$(command -v chromium) || { echo "chromium is not installed (deploy/bootstrap.sh --all)"; exit 77; }
driver=$(command -v chromedriver) || { echo "chromium-driver is not installed (deploy/bootstrap.sh --all)"; exit 77; }
python=/usr/bin/python3     # that of the packages
$python -c 'import selenium' || { echo "python3-selenium is not installed (deploy/bootstrap.sh --all)"; exit 77; }

# look SCRIPT LINK-FILE [ARGUMENT...]: with a new profile
look() {
    local got=0 script=$1 file=$2
    shift 2
    mkdir -p "$WORK/shots"
    HOME=$WORK $python "$TOP/tests/e2e/$script" "$file" "$WORK/shots" "$chromium" "$driver" "$@" || got=$?
    [ -z "${DASHBOARD_SHOTS:-}" ] || cp "$WORK"/shots/*.png "$DASHBOARD_SHOTS" || true
    [ $got = 0 ] || exit $got
}
