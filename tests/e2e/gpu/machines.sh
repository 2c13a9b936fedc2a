# SPDX-License-Identifier: Apache-2.0
# Every machine of tests/facts is replayed (NVML from its scenario, /proc and /sys from its files), and the facts found
# are those that the plans are tested with (tests/unit/agent/plan/test_facts.c). FACTS_WRITE=1 regenerates
# tests/facts/*.json.
mkdir "$WORK/lib" "$WORK/found"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$WORK/lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"

replay() { # MACHINE: lines `root PATH TEXT` and `env NAME=VALUE`; the rest is NVML's
    local root=$WORK/$(basename "$1" .machine) word rest path set=()
    mkdir -p "$root"
    while read -r word rest; do
        case $word in
        root)
            path=${rest%% *}
            mkdir -p "$root${path%/*}"
            printf '%b\n' "${rest#"$path"}" | sed '1s/^ //' >"$root$path" ;;
        env) set+=("$rest") ;;
        esac
    done <"$1"
    env -i "${set[@]}" JOBCTL_MACHINE_DIR=none PATH="$PATH" HOME=/nonexistent LD_LIBRARY_PATH="$WORK/lib" \
        JOBCTL_SYSROOT="$root" FAKE_NVML="$1" jobctl-agent probe /
}

for machine in "$TOP"/tests/facts/*.machine; do
    name=$(basename "$machine" .machine)
    replay "$machine" >"$WORK/found/$name.json"
done
python3 - "$WORK/found" "$TOP/tests/facts" "${FACTS_WRITE:-}" <<'END'
import json, os, sys
found, kept, write = sys.argv[1:]
for name in sorted(os.listdir(found)):
    f = json.load(open(os.path.join(found, name))) # but what is of this machine
    for key in 'arch', 'containers', 'disk', 'disk_free_bytes', 'hostname', 'kernel', 'machine', 'nccl', 'nccl_profiler':
        del f[key]
    text = json.dumps(f, indent=1) + '\n'
    path = os.path.join(kept, name)
    if write:
        open(path, 'w').write(text)
    assert open(path).read() == text, name + ': other facts than recorded:\n' + text
END
