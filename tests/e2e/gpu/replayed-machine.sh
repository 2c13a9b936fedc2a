# SPDX-License-Identifier: Apache-2.0
# A whole machine is replayed: NVML from a scenario, /proc and /sys from a directory. Its facts are found although this
# machine is different: links, health, processes, network, limits, kind.
lib=$WORK/lib
export JOBCTL_SYSROOT=$WORK/root FAKE_NVML=$WORK/gpus LD_LIBRARY_PATH=$WORK/lib
mkdir "$lib"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"

put() { # PATH TEXT: a file of the machine
    mkdir -p "$JOBCTL_SYSROOT$(dirname "$1")"
    printf '%s\n' "$2" >"$JOBCTL_SYSROOT$1"
}
facts() { # conditions on f, a line each, or more within brackets
    { echo "import json; f = json.load(open('$WORK/facts')); gpu = f['gpus']"; cat; } >"$WORK/check.py"
    python3 "$WORK/check.py" || { cat "$WORK/facts"; exit 1; }
}
probe() { jobctl-agent probe "$WORK" >"$WORK/facts"; }

put /proc/self/status 'Cpus_allowed_list:	0-15'
put /proc/self/limits 'Max locked memory         unlimited            unlimited            bytes     '
put /proc/meminfo 'MemTotal:       1056763904 kB'
put /proc/mounts 'tmpfs /dev/shm tmpfs rw,nosuid,size=65536k 0 0'
put /proc/cpuinfo 'model name	: AMD EPYC 7742 64-Core Processor
flags		: fpu vme hypervisor lahf_lm'
put /proc/uptime '3600.00 7000.00'
put /proc/version 'Linux version 5.15.0-91-generic (x) #101-Ubuntu SMP'
put /proc/sys/kernel/hostname gpu-node-1
put /sys/fs/cgroup/cpu.max '800000 100000'
put /sys/devices/system/node/node0/cpulist 0-7
put /sys/devices/system/node/node1/cpulist 8-15
put /sys/bus/pci/devices/0000:0a:00.0/numa_node 1
put /sys/class/dmi/id/sys_vendor 'Amazon EC2'
put /sys/class/net/ens5/operstate up
put /sys/class/net/ens5/speed 100000
put /sys/class/net/ens5/device/x y
put /sys/class/net/docker0/operstate down
put /proc/net/route 'Iface	Destination	Gateway 	Flags
ens5	00000000	0100A8C0	0003	0	0	0	00000000
docker0	000011AC	00000000	0001	0	0	0	0000FFFF'
put /sys/class/infiniband/mlx5_0/ports/1/state '4: ACTIVE'
put /sys/class/infiniband/mlx5_0/ports/1/rate '400 Gb/sec (4X NDR)'
put /sys/class/infiniband/mlx5_0/ports/1/link_layer InfiniBand
put /sys/class/infiniband/mlx5_0/device/vendor 0x15b3
put /dev/kmsg '4,1,2,-;NVRM: Xid (PCI:0000:0B:00): 79, pid=1, GPU has fallen off the bus.
4,2,3,-;NVRM: Xid (PCI:0000:0b:00): 63, row remap'
put /proc/4242/comm python3
put /proc/4243/comm jobctl-train
printf 'A=b\0JOBCTL_NONCE=aa\0' >"$JOBCTL_SYSROOT/proc/4242/environ"
mkdir "$JOBCTL_SYSROOT/sys/class/iommu"
cat >"$FAKE_NVML" <<'END'
driver 535.54.03
cuda 12020
stride 32
gpu GPU-a 00000000:0A:00.0 24576 8.6 NVIDIA GeForce RTX 3090
gpu GPU-b 00000000:0B:00.0 24576 8.6 NVIDIA GeForce RTX 3090
gpu GPU-c 00000000:0C:00.0 81920 8.0 NVIDIA A100 80GB PCIe
links 0 1 4
path 0 1 10
p2p 0 2 3
proc 0 4242 512
proc 0 4243 -1
set 1 remapped 1
set 1 pending 1
set 1 recovery 1
set 1 ecc 2
mig 2 MIG-c0 9856
mig 2 MIG-c1 19968
END

COLAB_RELEASE_TAG=x NCCL_P2P_LEVEL=NVL probe
facts <<'END'
assert f["schema"] == 2 and f["hostname"] == "gpu-node-1"
assert f["cpus"] == 16 and f["cpu_list"] == "0-15" and f["cgroup_cpus"] == 8
assert f["memory_bytes"] == 1056763904 * 1024 and f["memlock_bytes"] == "unlimited"
assert f["shm_bytes"] == 64 << 20 and f["numa"][1] == {"node": 1, "cpus": "8-15"}
assert f["host_kind"] == "colab" and f["session"] == {"limit_s": 43200, "age_s": 3600, "ends_at_s": None}
assert f["virtual"] is True and f["iommu"] is False and f["wsl"] is False and f["vendor"] == "Amazon EC2"
assert f["environment"]["NCCL_P2P_LEVEL"] == "NVL"
assert ([(n["name"], n["up"], n["default_route"], n["device"], n["speed_mbps"]) for n in f["net"]] ==
      [("docker0", False, False, False, None), ("ens5", True, True, True, 100000)])
assert (f["rdma"] == [{"name": "mlx5_0", "port": 1, "active": True, "link": "infiniband",
                     "rate_gbps": 400, "vendor": "0x15b3", "numa": None}])
assert f["driver"] == "535.54.03" and f["cuda_driver"] == "12.2"
assert (f["pairs"] == [
    {"a": 0, "b": 1, "nvlinks": 4, "through": "gpu", "p2p": "ok", "path": "PIX"},
    {"a": 0, "b": 2, "nvlinks": 0, "through": None, "p2p": "topology not supported", "path": "SYS"},
    {"a": 1, "b": 2, "nvlinks": 0, "through": None, "p2p": "ok", "path": "SYS"}])
assert gpu[0]["numa"] == 1 and gpu[0]["ecc_uncorrected"] is None
assert (gpu[0]["processes"] == [
    {"pid": 4242, "name": "python3", "memory_bytes": 512 << 20, "jobctl": True},
    {"pid": 4243, "name": "jobctl-train", "memory_bytes": None, "jobctl": False}])
assert gpu[1]["remap"] == {"corrected": 0, "uncorrected": 1, "pending": True, "failed": False}
assert gpu[1]["recovery"] == "reset" and gpu[1]["ecc_uncorrected"] == 2
assert gpu[1]["xids"] == [79, 63] and gpu[0]["xids"] == []
assert gpu[2]["mig"] and [s["uuid"] for s in gpu[2]["mig_slices"]] == ["MIG-c0", "MIG-c1"]
END

# What a driver cannot say is unknown; what blocks for ever leaves a machine without GPUs.
rm "$JOBCTL_SYSROOT/dev/kmsg" "$JOBCTL_SYSROOT/proc/cpuinfo"
echo 'fail nvmlDeviceGetP2PStatus 3' >>"$FAKE_NVML"
probe
facts <<'END'
assert gpu[1]["xids"] is None and f["virtual"] is None and f["pairs"][0]["p2p"] is None
assert f["host_kind"] == "plain" and f["session"] is None
END
echo 'hang nvmlDeviceGetRemappedRows' >>"$FAKE_NVML"
JOBCTL_GPU_PROBE_MS=200 probe
facts <<'END'
assert f["gpus"] == [] and "does not respond" in f["gpu_note"] and f["cpus"] == 16
END
