import { counted, formatBytes } from '../../../conf/values/quantities.ts';
import { firstNames } from '../../../platform/text/first-names.ts';
import { compareGlibc } from '../../python/wheel-name.ts';
import { type CheckResult, type Finding, fail, ok, warn } from '../diagnosis.ts';
import type { NodeFacts } from './node-facts.ts';

const MOST_NAMED = 5;
/** Free disk space that the unpacked runtime requires. */
const LEAST_DISK_BYTES = 1e9;
const LEAST_SHM_BYTES = 64 * 1024 * 1024;

interface Expectation {
  /** User who runs the probe. */
  readonly user: string;
  /** Number of GPUs that YARN schedules on each node. */
  readonly yarnGpus: ReadonlyMap<string, number>;
}

/** Returns one finding for each problem, with the names of the affected nodes, or a single good finding if there are no problems. */
export function probeFindings(nodes: readonly NodeFacts[], expected: Expectation): Finding[] {
  const probed = nodes.filter(({ notProbed }) => notProbed === '');
  const verdicts: readonly (readonly [string, CheckResult | null])[] = [
    ['probe', unprobed(nodes)],
    ['runtime', runtimeVerdict(probed)],
    ['processor', cpuVerdict(probed)],
    ['HDFS on nodes', storageVerdict(probed)],
    ['ports', portsVerdict(probed)],
    ['GPUs', gpuVerdict(probed, expected.yarnGpus)],
    ['Python', pythonVerdict(probed)],
    ['disk', diskVerdict(probed)],
    ['shared memory', sharedMemoryVerdict(probed)],
    ['container user', userVerdict(probed, expected.user)],
  ];
  const problems = verdicts.flatMap(([name, verdict]) => (verdict === null ? [] : [{ name, ...verdict }]));
  return problems.length > 0 ? problems : [{ name: 'probe', ...ok(`no problems on ${counted(probed.length, 'node')}`) }];
}

function named(nodes: readonly { readonly node: string }[]): string {
  return firstNames(
    nodes.map(({ node }) => node),
    MOST_NAMED,
  );
}

function unprobed(nodes: readonly NodeFacts[]): CheckResult | null {
  const missing = nodes.filter(({ notProbed }) => notProbed !== '');
  const reasons = missing.slice(0, MOST_NAMED).map(({ node, notProbed }) => `${node}: ${notProbed}`);
  const more = missing.length > MOST_NAMED ? [`and ${missing.length - MOST_NAMED} more nodes`] : [];
  return missing.length === 0
    ? null
    : warn(
        `not probed: ${[...reasons, ...more].join('; ')}`,
        'Probe these nodes with --node when they have room, or allow more time with --timeout.',
      );
}

function runtimeVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const failed = nodes.filter(({ runtime }) => runtime === '');
  const [first] = failed;
  if (first === undefined) {
    return null;
  }
  const { glibc, runtimeGlibc, runtimeError } = first;
  const isOld = glibc !== '' && runtimeGlibc !== '' && compareGlibc(glibc, runtimeGlibc) < 0;
  const why = isOld
    ? `the node has glibc ${glibc}, and the runtime needs ${runtimeGlibc}`
    : runtimeError || 'Node.js fails without a message';
  return fail(
    `the shipped Node.js does not start on ${named(failed)}: ${why}`,
    'Keep jobs off these nodes with nodeLabel, run containers in a Docker image (docker in job.yaml), or install Node.js on the nodes and use runtime: system.',
  );
}

function cpuVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const lacking = nodes.filter(({ machine, cpuFlags }) => machine === 'x86_64' && !cpuFlags.includes('avx'));
  return lacking.length === 0
    ? null
    : fail(
        `the processors of ${named(lacking)} lack AVX, which TensorFlow's library needs`,
        'Keep TensorFlow jobs off these nodes with nodeLabel, or train with another backend.',
      );
}

function storageVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const failed = nodes.filter(({ storage }) => storage !== null && storage !== '');
  const [first] = failed;
  return first === undefined
    ? null
    : fail(
        `programs on ${named(failed)} cannot read HDFS: ${first.storage}`,
        'Open the web ports of the NameNodes and DataNodes to these nodes (dfs.namenode.http-address, dfs.datanode.http.address).',
      );
}

function portsVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const blocked = nodes.flatMap(({ node, unreached, ports }) => unreached.map((other) => ({ from: node, ports, ...other })));
  const [first] = blocked;
  if (first === undefined) {
    return null;
  }
  const pairs = blocked.slice(0, MOST_NAMED).map(({ from, node, reason }) => `${from} cannot reach ${node} (${reason})`);
  const more = blocked.length > MOST_NAMED ? `; and ${blocked.length - MOST_NAMED} more pairs` : '';
  return fail(
    `${pairs.join('; ')}${more}`,
    `Open the ports ${first.ports || 'of net.ipv4.ip_local_port_range'} between the nodes: a job's tasks listen on free ports in this range.`,
  );
}

function gpuVerdict(nodes: readonly NodeFacts[], yarnGpus: ReadonlyMap<string, number>): CheckResult | null {
  const scheduled = nodes.filter(({ node }) => (yarnGpus.get(node) ?? 0) > 0);
  const without = scheduled.filter(({ gpuDriver }) => gpuDriver === '');
  if (without.length > 0) {
    return warn(
      `YARN schedules GPUs on ${named(without)}, but no NVIDIA driver is loaded there`,
      'Install the driver, or correct the GPUs that the NodeManagers report (yarn.nodemanager.resource-plugins).',
    );
  }
  const shared = scheduled.filter(({ gpuDevices }) => gpuDevices > 0);
  return shared.length === 0
    ? null
    : warn(
        `a container without GPUs can open the GPUs of ${named(shared)}: YARN does not isolate them`,
        'Enable GPU isolation (LinuxContainerExecutor with the cgroups devices module, or Docker). Otherwise, tasks on a node share its GPUs.',
      );
}

function pythonVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const without = nodes.filter(({ pythons }) => pythons.length === 0);
  return without.length === 0
    ? null
    : warn(
        `${named(without)} have no python3`,
        'Only Python programs need it. Install python3, or ship an environment with python.archive in job.yaml.',
      );
}

function diskVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const full = nodes.filter(({ diskFreeBytes }) => diskFreeBytes !== null && diskFreeBytes < LEAST_DISK_BYTES);
  return full.length === 0
    ? null
    : warn(
        `the disks for containers have less than ${formatBytes(LEAST_DISK_BYTES)} free on ${named(full)}`,
        'Free space in yarn.nodemanager.local-dirs.',
      );
}

function sharedMemoryVerdict(nodes: readonly NodeFacts[]): CheckResult | null {
  const small = nodes.filter(({ shmBytes }) => shmBytes === null || shmBytes < LEAST_SHM_BYTES);
  return small.length === 0
    ? null
    : warn(
        `/dev/shm has less than 64 MiB on ${named(small)}`,
        'Enlarge it: PyTorch data loaders and NCCL collective operations exchange data there.',
      );
}

function userVerdict(nodes: readonly NodeFacts[], user: string): CheckResult | null {
  const others = nodes.filter((node) => node.user !== '' && node.user !== user);
  return others.length === 0
    ? null
    : warn(
        `containers run as ${[...new Set(others.map((node) => node.user))].join(', ')} instead of ${user} on ${named(others)}`,
        'The programs of all users can read and stop each other. To separate users, configure LinuxContainerExecutor. Without Kerberos, it also needs yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users: false.',
      );
}
