# SPDX-License-Identifier: Apache-2.0
# PyTorch scripts that save on a stop request: one with DataLoader workers, whose end would raise an error during the
# save, and one that torchrun starts in two processes.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
python=/usr/bin/python3
if ! $python -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null; then
    echo "python3-torch is not installed (deploy/bootstrap.sh --all installs it)"
    exit 77
fi
cat >train.py <<'PY'
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
name = sys.argv[1] + os.environ["LOCAL_RANK"]
asked = []
loader = DataLoader(TensorDataset(torch.arange(2000.0)), num_workers=2, multiprocessing_context="fork")
w = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([w], lr=1e-9)
step = 0
while not asked:
    for x, in loader:
        (w * x).sum().backward()
        optimizer.step()
        time.sleep(0.01)
        step += 1
        if step == 1:                   # as users do it, after the workers have begun: they do not inherit it
            signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
            open(name + ".ready", "w").close()
        if asked:                       # a save takes a while
            torch.save({"w": w, "step": step}, name + ".tmp")
            while not os.path.exists("written"):
                time.sleep(0.01)
            os.rename(name + ".tmp", name + ".pt")
            break
print(name, "has saved step", step)
PY
starts() { # NAME COMMAND [LINE...]
    printf '%s\n' "name: $1" "workdir: $WORK" 'resources: {gpus: 0, ranks: 1, cpus: 1}' "env: {TMPDIR: $WORK}" \
        'grace: 3m' 'run: |' "  $2" '  true' "${@:3}" >"$1.yaml"
    jobctl submit -q "$1.yaml"
}
# --redirects and --tee: without them, PyTorch 1.13 does not start anything with Python 3.11.
torchrun="$python -m torch.distributed.run --nproc_per_node 2 --redirects 1 --tee 1 --rdzv_backend c10d"
torchrun+=" --rdzv_endpoint localhost:0"
loader=$(starts loader "$python train.py loader")
everybody=$(starts everybody "$python train.py everybody" 'stop_to: session')
launcher=$(starts launcher "$torchrun train.py launcher" 'retry: {max: 0}')

# The workers live while their script saves.
wait_for 120 "the loader trains" test -e loader0.ready
wait_for 120 "everybody trains" test -e everybody0.ready
jobctl cancel "$loader" "$everybody"
wait_for 60 "the loader saves" test -e loader0.tmp
# What the rule is for: where everybody gets the signal, the end of the workers breaks the save.
code 3 jobctl wait "$everybody" --timeout 120
says "DataLoader worker" jobctl logs "$everybody"
gone everybody0.pt
gone loader0.pt

# torchrun hands the signal on to its two.
launched() { [ -e launcher0.ready ] && [ -e launcher1.ready ] || job_is "$launcher" state done; }
wait_for 120 "torchrun has started two" launched
if job_is "$launcher" state done; then
    touch written
    code 3 jobctl wait "$loader" --timeout 60
    says "loader0 has saved step" jobctl logs "$loader"
    echo "torchrun of this PyTorch does not work: $(jobctl logs "$launcher" | tail -n 1)"
    exit 77
fi
jobctl cancel "$launcher"
wait_for 60 "both save" test -e launcher0.tmp -a -e launcher1.tmp
touch written
for id in $loader $launcher; do
    code 3 jobctl wait "$id" --timeout 120
done
for name in loader0 launcher0 launcher1; do
    [ -e $name.pt ] || { echo "$name is not saved"; jobctl logs "$loader"; jobctl logs "$launcher"; exit 1; }
done
says "loader0 has saved step" jobctl logs "$loader"
says "launcher1 has saved step" jobctl logs "$launcher"
