# SPDX-License-Identifier: Apache-2.0
# The wheel: pip installs it into a venv, where it is used; the same files give the same bytes; it is refused if its
# name would be wrong.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/wheel.sh"
make_wheel
"$TOP/deploy/wheel_check.sh" "$wheel" $python

# The same files elsewhere, with other times and another umask.
stage=$(ls -d "$WORK"/build/stage/*)
mkdir "$WORK/other"
(umask 077 && cp -r "$stage" "$WORK/other/tree")
SOURCE_DATE_EPOCH=981158400 "$TOP/deploy/wheel.py" "$WORK/other/tree" "$version" "$WORK/other"
cmp "$wheel" "$WORK/other/${wheel##*/}"

# A program for a newer C library than that of the name.
LC_ALL=C sed -i 's/GLIBC_2\.[0-9][0-9]/GLIBC_2.99/' "$WORK/other/tree/lib/jobctl/bin/jobctl-agent"
code 1 env SOURCE_DATE_EPOCH=0 "$TOP/deploy/wheel.py" "$WORK/other/tree" "$version" "$WORK/other"
has 'lib/jobctl/bin/jobctl-agent needs glibc 2.99, which manylinux_2_' err
