# SPDX-License-Identifier: Apache-2.0
# Facts and plans on machines with GPUs, simulated by a stand-in for NVML: one A100 and two ranks, the same GPU listed
# twice, a GPU that has fallen off the bus, MIG slices, a driver that fails.
lib=$WORK/lib
mkdir "$lib"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$lib

plan() { # GPUS SPEC: prints the plan or the refusal
    echo "$2" >"$WORK/spec.json"
    FAKE_GPUS=$1 jobctl-agent plan --spec "$WORK/spec.json" 2>&1
}
has() { # TEXT...: the last output has each
    for t in "$@"; do
        case $out in *"$t"*) ;; *) echo "no '$t' in:"; echo "$out"; exit 1 ;; esac
    done
}

out=$(FAKE_GPUS=ab jobctl-agent probe)
has '"uuid": "GPU-a"' '"uuid": "GPU-b"' '"name": "Fake A100"' '"memory_bytes": 45097156608' \
    '"driver": "580.00"' '"cuda_driver": "13.0"' '"pci": "0000:0a:00.0"' '"compute": null'

out=$(plan a '{"run":"x","resources":{"gpus":"auto","ranks":2}}') && exit 1
has 'Duplicate GPU detected' 'Set `ranks: auto`' 'here 1' '`share_gpus: true`'
out=$(plan a '{"run":"x","resources":{"gpus":4}}') && exit 1
has 'resources.gpus is 4' '1 healthy GPU, Fake A100' '`gpus: auto`'
out=$(plan aa '{"run":"x"}')
has 'ranks: 1 (one rank for each of 1 distinct healthy GPU)' 'CUDA_VISIBLE_DEVICES=GPU-a'
out=$(plan ab '{"run":"x"}')
has 'ranks: 2' 'rank 1: Fake A100 GPU-b' 'CUDA_VISIBLE_DEVICES=0,1'
out=$(plan '!b' '{"run":"x"}')
has 'ranks: 1' 'CUDA_VISIBLE_DEVICES=GPU-b' 'GPU 0 is not used: no handle: GPU is lost'
out=$(plan A '{"run":"x"}')
has 'ranks: 1 (one rank' 'the job gets one slice, MIG-a' 'CUDA_VISIBLE_DEVICES=MIG-a'
out=$(plan Ab '{"run":"x"}')
has 'ranks: 1 (one rank' 'GPU 0 (Fake A100) is not used: it is in MIG mode' 'CUDA_VISIBLE_DEVICES=GPU-b'
out=$(plan init '{"run":"x"}')
has 'ranks: 1 (one rank, because no GPU is used' 'cannot initialize the NVIDIA driver: Driver Not Loaded'
out=$(plan crash '{"run":"x"}')
has 'ranks: 1 (one rank, because no GPU is used' 'the GPU probe ended without a result'
out=$(JOBCTL_GPU_PROBE_MS=300 plan hang '{"run":"x"}')
has 'ranks: 1 (one rank, because no GPU is used' 'the NVIDIA driver does not respond; a GPU may be failing'
