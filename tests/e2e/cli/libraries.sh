# SPDX-License-Identifier: Apache-2.0
# The build with a library missing: a required one is named in an error; without libwebp the build continues and reports
# it.
. "$TOP/tests/e2e/expect.sh"
cd "$TOP"
cc=${CC:-cc}
# cc-without HEADER: a compiler for which this header is not installed
cc_without() {
    printf '#!/bin/sh\nfor f; do case $f in *.c) ! grep -q "%s" "$f" || exit 1 ;; esac; done\nexec %s "$@"\n' \
        "$1" "$cc" >"$WORK/cc"
    chmod +x "$WORK/cc"
}

cc_without webp/
code 0 deploy/libs.sh "$WORK/webp.mk" "$WORK/cc"
has 'LIBS_LACKING := libwebp' webp.mk
has -DWITHOUT_LIBWEBP webp.mk
grep -qx 'LIBS_MISSING := *' "$WORK/webp.mk"
! grep -E '^(TRAIN|ALL)_LD' "$WORK/webp.mk" | grep -q webp || exit 1
for f in engine/image/image_codec.c tests/unit/engine/image/test_image.c; do
    "$cc" -std=gnu11 -D_GNU_SOURCE -I. -Wall -Wextra -Werror -DWITHOUT_LIBWEBP -fsyntax-only "$f"
done

cc_without yaml.h
code 0 deploy/libs.sh "$WORK/yaml.mk" "$WORK/cc"
grep -qx 'LIBS_MISSING := libyaml' "$WORK/yaml.mk"
grep -qx 'LIBS_LACKING := *' "$WORK/yaml.mk"

# A program that is installed after the first look, as by `make demo` on a bare machine: make looks again.
cd "$WORK"
mkdir tools
export PATH="$WORK/tools:$PATH" PKG_CONFIG=later-pkg-config
printf 'libs.mk:\n\t@%s/deploy/libs.sh $@ %s\ninclude libs.mk\nmissing:\n\t@echo "missing: $(LIBS_MISSING)."\n' "$TOP" "$cc" >Makefile
says 'missing: later-pkg-config.' make -s missing
ln -s "$(command -v pkg-config)" tools/later-pkg-config
says 'missing: .' make -s missing

# Who has neither root nor sudo is told the line for an administrator, and nothing is changed.
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"tools/$1" && chmod +x "tools/$1"; } # NAME COMMAND
stand_in id 'echo 1000'
stand_in sudo 'exit 1'
stand_in dpkg-query 'exit 1'
stand_in apt-get "touch $WORK/called"
code 4 "$TOP/deploy/try.sh" demo
has 'apt-get update && apt-get install -y --no-install-recommends gcc make pkg-config libc6-dev libjansson-dev' err
[ ! -e called ]
