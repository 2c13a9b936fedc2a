#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh BUILD VERSION - BUILD/jobctl_VERSION_ARCH.deb from a copy of the tree in BUILD/deb, judged by lintian
#
# DEBEMAIL and DEBFULLNAME are the maintainer of the package.
set -euo pipefail
build=$1 version=$2
cd "$(dirname "$0")/.."
copy=$build/deb/jobctl-$version
maintainer="${DEBFULLNAME:-jobctl maintainers} <${DEBEMAIL:-maintainers@jobctl.org}>"

lacking=()
for p in build-essential dpkg-dev debhelper; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' $p 2>/dev/null || true)" = installed ] || lacking+=($p)
done
[ ${#lacking[@]} = 0 ] || { echo "deb.sh: needs ${lacking[*]}: sudo apt-get install ${lacking[*]}" >&2; exit 4; }

files() {
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard
    else
        find . -type f ! -path './build/*' -print0
    fi
}
rm -rf "$build/deb"
mkdir -p "$copy"
files | tar -c --null --ignore-failed-read --files-from=- | tar -x -C "$copy"
cp -R deploy/debian "$copy/debian"
depends=$(deploy/bootstrap.sh --list | paste -sd, | sed 's/,/, /g')
sed -i "s|@MAINTAINER@|$maintainer|; s|@BUILD_DEPENDS@|$depends|" "$copy/debian/control"
cat >"$copy/debian/changelog" <<END
jobctl ($version) unstable; urgency=medium

  * See /usr/share/doc/jobctl/CHANGES.md.

 -- $maintainer  $(date -u -R -d "$DATE")
END
(cd "$copy" && DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}" \
    dpkg-buildpackage -us -uc -b >../log 2>&1) || { tail -n 20 "$build/deb/log" >&2; exit 1; }
mv "$build"/deb/jobctl_"$version"_*.deb "$build"
deb=$(ls "$build"/jobctl_"$version"_*.deb)
echo "  $deb"
command -v lintian >/dev/null || { echo "  no lintian found: not judged"; exit 0; }
lintian --allow-root --fail-on error,warning "$deb"
