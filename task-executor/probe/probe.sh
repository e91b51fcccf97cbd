#!/bin/bash
# Prints facts about a node, as `tony-probe NAME=VALUE`, for `tony-ts doctor --probe`. Uses only bash and core utilities, because it must
# also run on nodes on which the shipped Node.js does not start. On these nodes, it writes the facts to stderr and fails, and YARN copies
# the facts into its diagnostics (at most 4096 bytes). On all other nodes, task-executor.mjs sends the facts (probe-node.ts).
export LC_ALL=C
node=runtime/bin/node

fact() { printf 'tony-probe %s=%.200s\n' "$1" "$(printf '%s' "$2" | tr -c '[:print:]' ' ')"; }
first() { head -n 1 2>/dev/null; }
quietly() { timeout 10 "$@" 2>/dev/null; }

facts() {
  fact user "$(id -un 2>/dev/null || id -u)"
  fact kernel "$(uname -sr)"
  fact machine "$(uname -m)"
  fact os "$(. /etc/os-release 2>/dev/null && printf '%s' "$PRETTY_NAME")"
  fact glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null | tr -cd '0-9.')"
  fact cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | first)"
  fact cpuFlags "$(sed -n 's/^flags[^:]*: //p' /proc/cpuinfo | first | tr ' ' '\n' | grep -xE 'avx|avx2|avx512f|fma' | sort | tr '\n' ' ')"
  fact cores "$(nproc)"
  fact memoryKb "$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
  fact cgroupMemoryBytes "$(cat /sys/fs/cgroup/memory.max "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.max" \
    /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | tail -n 1)"
  fact diskFreeKb "$(df -Pk . | sed -n '2s/^[^ ]* *[0-9]* *[0-9]* *\([0-9]*\).*/\1/p')"
  fact shmKb "$(df -Pk /dev/shm 2>/dev/null | sed -n '2s/^[^ ]* *[0-9]* *[0-9]* *\([0-9]*\).*/\1/p')"
  fact openFiles "$(ulimit -n)"
  fact ports "$(tr '\t' '-' </proc/sys/net/ipv4/ip_local_port_range)"
  for python in $(compgen -c python3 | grep -xE 'python3(\.[0-9]+)?' | sort -uV | head -n 12); do
    found=$(quietly "$python" -c 'import importlib.util as u, platform as p
print(p.python_version(), *[m for m in ("pip", "venv") if u.find_spec(m)])') && fact python "$python $found"
  done
  fact gpuDriver "$(sed -n 's/.*Kernel Module *\([0-9.]*\).*/\1/p' /proc/driver/nvidia/version 2>/dev/null | first)"
  fact gpuDevices "$(ls /dev | grep -cE '^nvidia[0-9]+$')"
  quietly nvidia-smi --query-gpu=name,memory.total --format=csv,noheader | while read -r gpu; do fact gpu "$gpu"; done
  fact docker "$(command -v docker)"
  fact runtimeGlibc "$( (find runtime/node_modules -name '*.node'; echo "$node") 2>/dev/null | xargs grep -aoh 'GLIBC_2\.[0-9]*' 2>/dev/null |
    sort -u | sed 's/.*_2\.//' | sort -n | tail -n 1 | sed 's/^/2./')"
}

version=$("$node" --version 2>&1)
started=$?
facts >facts
if [ "$started" = 0 ]; then
  fact runtime "$version" >>facts
  exec "$node" --max-old-space-size=64 tony/task-executor.mjs --probe
fi
fact runtimeError "$(printf '%s' "$version" | first)" >>facts
cat facts >&2
exit 64
