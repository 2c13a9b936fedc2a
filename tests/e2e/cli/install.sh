# SPDX-License-Identifier: Apache-2.0
# alone: it calls make, which may link programs anew
# make install: the installed files run from anywhere, also from a path with spaces; make uninstall leaves nothing.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

# The programs as they are: nothing is compiled but what the state of the checkout asks for.
make_in() { env -u MAKEFLAGS -u MAKELEVEL make -s -C "$TOP" NVCC= "$@"; }
root="$WORK/a root" prefix=/opt/jobctl
make_in install DESTDIR="$root" PREFIX=$prefix >log 2>&1 || { cat log; exit 1; }
for f in bin/jobctl bin/jobctl-agent bin/jobctl-train lib/jobctl/lib/libjobctl_ncclprof.so share/man/man1/jobctl.1 \
    share/man/man5/jobctl.yaml.5 share/man/man8/jobctl-agent.8 share/bash-completion/completions/jobctl \
    share/zsh/site-functions/_jobctl share/fish/vendor_completions.d/jobctl.fish lib/systemd/user/jobctl.service \
    lib/tmpfiles.d/jobctl.conf \
    share/jobctl/templates/sana-icons.yaml share/jobctl/build-slurm share/jobctl/slurm/controller/slurm/main.c \
    share/doc/jobctl/README.md share/doc/jobctl/LICENSE; do
    [ -s "$root$prefix/$f" ] || { echo "there is no $f"; exit 1; }
done
grep -qxF 'ExecStart="/opt/jobctl/bin/jobctl" daemon' "$root$prefix/lib/systemd/user/jobctl.service"

# Moved away from where it was put, it still finds its programs, its plugin and its templates.
mv "$root$prefix" "$WORK/else where"
export PATH="$WORK/else where/bin:${PATH#*:}"
[ "$(command -v jobctl)" = "$WORK/else where/bin/jobctl" ]
printf 'name: hello\nrun: "echo rank $RANK; readlink /proc/$PPID/exe"\nresources: {gpus: 0, cpus: 1}\n' >hello.yaml
code 0 jobctl submit --follow hello.yaml
has "rank 0" out
jobctl logs last >out
has "else where/lib/jobctl/bin/jobctl-agent" out
jobctl-agent probe >facts.json
[ "$(read_json get nccl_profiler <facts.json)" = "$WORK/else where/lib/jobctl/lib/libjobctl_ncclprof.so" ]
code 0 jobctl submit --follow "$WORK/else where/share/jobctl/templates/sana-icons.yaml" --set train.steps=2 --set train.schedule.warmup=1 \
    --set checkpoint.dir="$WORK/checkpoints" --set train.sample.after=false --set train.sample.before=false
[ -d "$WORK/checkpoints/step-00000002" ] || { ls -R "$WORK/checkpoints"; exit 1; }

# jobctl-slurm is built where libslurm is.
if [ -e "$BIN/jobctl-slurm" ]; then
    rm "$WORK/else where/lib/jobctl/bin/jobctl-slurm"
    code 0 "$WORK/else where/share/jobctl/build-slurm"
    has "for Slurm" out
    [ -x "$WORK/else where/lib/jobctl/bin/jobctl-slurm" ]
    code 4 "$WORK/else where/share/jobctl/build-slurm" "$WORK/nowhere"
    has "there is no folder" err
fi

# Over itself while the daemon runs; then removed, with what is not ours left alone.
mkdir -p "$root/opt"
mv "$WORK/else where" "$root$prefix"
make_in install DESTDIR="$root" PREFIX=$prefix
"$root$prefix/bin/jobctl" version >out
has "pid" out
echo other >"$root$prefix/share/man/man1/other.1"
make_in uninstall DESTDIR="$root" PREFIX=$prefix
[ "$(find "$root" ! -type d)" = "$root$prefix/share/man/man1/other.1" ] || { find "$root" ! -type d; exit 1; }
[ -z "$(find "$root$prefix" -mindepth 1 -name jobctl)" ] || { find "$root" -name jobctl; exit 1; }

# The unit, where systemd can judge it.
command -v systemd-analyze >/dev/null || { echo "no systemd-analyze: the unit was not verified"; exit 0; }
"$TOP/deploy/install.sh" install "$BIN/.." "" "$WORK/installed" jobctl jobctl-agent
man=$(command -v man >/dev/null && echo yes || echo no)
MANPATH=$WORK/installed/share/man XDG_RUNTIME_DIR=$WORK systemd-analyze --user --man=$man verify \
    "$WORK/installed/lib/systemd/user/jobctl.service" >out 2>&1 && [ ! -s out ] || { cat out; exit 1; }
