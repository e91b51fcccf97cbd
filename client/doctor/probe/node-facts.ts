import type { ProbedNode } from '../../../conf/node-probe.ts';

/** Parsed facts about one node. Missing facts are '' or null. */
export interface NodeFacts {
  readonly node: string;
  /** Reason why there are no facts about the node, or '' if there are some. */
  readonly notProbed: string;
  readonly user: string;
  readonly os: string;
  readonly kernel: string;
  readonly machine: string;
  readonly glibc: string;
  /** Oldest glibc version with which the shipped runtime works. */
  readonly runtimeGlibc: string;
  /** Version of Node.js in the shipped runtime, or '' if Node.js did not start. */
  readonly runtime: string;
  readonly runtimeError: string;
  readonly cpu: string;
  readonly cpuFlags: readonly string[];
  readonly cores: number | null;
  readonly memoryBytes: number | null;
  /** Memory limit that cgroups enforce, or null if there is no limit. */
  readonly cgroupMemoryBytes: number | null;
  readonly diskFreeBytes: number | null;
  readonly shmBytes: number | null;
  readonly openFiles: string;
  /** Port range in which tasks can listen. */
  readonly ports: string;
  /** Command and version of each Python interpreter, and whether it has the `pip` and `venv` modules. */
  readonly pythons: readonly string[];
  readonly gpuDriver: string;
  /** Number of NVIDIA devices that are visible in a container without GPUs. */
  readonly gpuDevices: number;
  readonly gpus: readonly string[];
  readonly docker: boolean;
  readonly storage: string | null;
  readonly tried: number;
  readonly unreached: ProbedNode['unreached'];
}

/** cgroup v1 reports about 2^63 to indicate that there is no limit. */
const NO_LIMIT = 2 ** 60;

export function nodeFacts({ node, notProbed, facts, storage, tried, unreached }: ProbedNode): NodeFacts {
  const text = (name: string): string => facts[name]?.[0] ?? '';
  const amount = (name: string): number | null => (/^\d+$/.test(text(name)) ? Number(text(name)) : null);
  const kilobytes = (name: string): number | null => {
    const found = amount(name);
    return found === null ? null : found * 1024;
  };
  const limit = amount('cgroupMemoryBytes');
  return {
    node,
    notProbed,
    user: text('user'),
    os: text('os'),
    kernel: text('kernel'),
    machine: text('machine'),
    glibc: text('glibc'),
    runtimeGlibc: text('runtimeGlibc'),
    runtime: text('runtime'),
    runtimeError: text('runtimeError'),
    cpu: text('cpu'),
    cpuFlags: text('cpuFlags').split(' ').filter(Boolean),
    cores: amount('cores'),
    memoryBytes: kilobytes('memoryKb'),
    cgroupMemoryBytes: limit === null || limit > NO_LIMIT ? null : limit,
    diskFreeBytes: kilobytes('diskFreeKb'),
    shmBytes: kilobytes('shmKb'),
    openFiles: text('openFiles'),
    ports: text('ports'),
    pythons: facts.python ?? [],
    gpuDriver: text('gpuDriver'),
    gpuDevices: amount('gpuDevices') ?? 0,
    gpus: facts.gpu ?? [],
    docker: text('docker') !== '',
    storage,
    tried,
    unreached,
  };
}
