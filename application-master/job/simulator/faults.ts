import type { Role } from '../../../conf/job.ts';
import type { Cluster, SimulatedContainer, SimulatedNode } from './cluster.ts';
import type { Storage } from './master.ts';
import type { Manners, Program, Training } from './training.ts';
import { type FaultKind, strike, trace, type World } from './world.ts';

export interface Fault {
  readonly name: string;
  /** True if the fault must not affect running tasks. */
  readonly harmless?: true;
  readonly strike: () => void;
}

export interface FaultTargets {
  readonly world: World;
  readonly roles: readonly Role[];
  readonly training: Training;
  readonly manners: Manners;
  readonly cluster: Cluster;
  readonly storage: Storage;
  readonly stallMaster: (ms: number) => void;
  readonly crashMaster: () => void;
}

export function allFaults(targets: FaultTargets): Fault[] {
  return [...programFaults(targets), ...containerFaults(targets), ...nodeFaults(targets), ...masterFaults(targets)];
}

/**
 * A fault can make programs crash. Returns the maximum number of these crashes that are charged to tasks before the job knows their cause.
 */
function extraChargesOf({ manners, roles }: FaultTargets): number {
  if (manners !== 'crashes') {
    return 0;
  }
  // In a ring, only the first crash is charged. Workers with parameter servers restart individually, so each of their crashes is charged.
  if (!roles.some((each) => each.servesParameters)) {
    return 1;
  }
  return roles.reduce((sum, each) => sum + (each.kind === 'gang' ? each.maxInstances : 0), 0);
}

function programFaults(targets: FaultTargets): Fault[] {
  const { world, training, manners } = targets;
  const extraCharges = extraChargesOf(targets);
  const aProgram = (act: (victim: Program) => void) => () => {
    const victim = world.random.pick([...training.programs]);
    if (victim !== undefined) {
      act(victim);
    }
  };
  const end = (code: number, signal: string) =>
    aProgram((victim) => {
      world.charges += victim.part === 'server' ? 1 + extraCharges : 1;
      strike(world, victim.containerId, signal === '' ? 'exit' : 'signal');
      training.end(victim, code, signal);
    });
  return [
    { name: 'program fails', strike: end(3, '') },
    { name: 'program is killed', strike: end(-1, 'SIGKILL') },
    {
      name: 'program is stopped',
      strike: aProgram((victim) => {
        if (victim.stopped) {
          return;
        }
        world.charges += 1 + extraCharges;
        strike(world, victim.containerId, 'stopped');
        training.stop(victim);
      }),
    },
    {
      name: 'program loses its peers',
      strike: aProgram((victim) => {
        if (victim.part === null || victim.mute || !training.hasPeers(victim)) {
          return;
        }
        // If a silent server makes workers crash, the machine cannot determine which program failed first.
        if (victim.part === 'server' && manners === 'crashes') {
          return;
        }
        world.charges += 1 + extraCharges;
        world.hasSilencedProgram = true;
        training.silence(victim);
      }),
    },
    { name: 'program fails at the end', strike: () => training.failAtEnd++ },
  ];
}

function containerFaults(targets: FaultTargets): Fault[] {
  const { world, cluster } = targets;
  const { random, timeline } = world;
  const extraCharges = extraChargesOf(targets);
  const live = ({ phase, executor }: SimulatedContainer) => phase === 'live' && executor?.alive === true && !executor.frozen;
  const aContainer = (charges: number, kind: FaultKind | null, act: (each: SimulatedContainer) => void) => () => {
    const each = random.pick([...cluster.containers.values()].filter(live));
    if (each === undefined) {
      return;
    }
    world.charges += charges;
    trace(world, () => `       at ${each.container.id}`);
    if (kind !== null) {
      strike(world, each.container.id, kind);
    }
    act(each);
  };
  const endByCluster = (charges: number, end: 'memory-exceeded' | 'preempted' | 'disks-failed', status: number) =>
    aContainer(charges, end === 'memory-exceeded' ? 'memory' : 'cluster', (each) => {
      each.fate ??= { end, status };
      if (random.chance(0.5)) {
        each.executor?.terminated();
      }
      timeline.after(random.between(10, 300), () => cluster.end(each, end, status));
    });
  const breakStream: Fault = {
    name: 'stream breaks',
    harmless: true,
    strike: aContainer(0, null, (each) => each.executor?.stream?.break()),
  };
  return [
    {
      name: 'executor is killed',
      strike: aContainer(1 + extraCharges, 'executor', (each) => {
        each.executor?.die();
        timeline.after(random.between(10, 500), () => cluster.end(each, 'exited', 137));
      }),
    },
    {
      name: 'executor is stopped',
      strike: aContainer(1 + extraCharges, 'executor', (each) => {
        if (each.executor === null) {
          return;
        }
        // A suspended executor cannot enforce its lease. If the node is disconnected or its NodeManager is down, the cluster cannot kill
        // the executor either. In that case, kill it here, because tony-ts gives no guarantee if two such faults occur together.
        if (each.node.cut || each.node.unmanaged) {
          each.executor.die();
        } else {
          each.executor.frozen = true;
        }
      }),
    },
    { name: 'memory exceeded', strike: endByCluster(1 + extraCharges, 'memory-exceeded', -104) },
    { name: 'preemption', strike: endByCluster(extraCharges, 'preempted', -102) },
    { name: 'disks fail', strike: endByCluster(extraCharges, 'disks-failed', -101) },
    // Listed twice to increase its probability.
    breakStream,
    breakStream,
  ];
}

function nodeFaults(targets: FaultTargets): Fault[] {
  const { world, cluster } = targets;
  const { random } = world;
  const extraCharges = extraChargesOf(targets);
  const oneNodeDown = () => cluster.nodes.some((node) => !node.up || node.cut || node.unmanaged);
  const aNode = (act: (node: SimulatedNode) => void) => () => {
    const node = random.pick(cluster.nodes);
    if (node === undefined || oneNodeDown() || cluster.nodes.length < 2) {
      return;
    }
    world.charges += [...cluster.containers.values()].filter((each) => each.node === node && each.phase !== 'ended').length + extraCharges;
    trace(world, () => `       at ${node.name}`);
    for (const each of cluster.containers.values()) {
      if (each.node === node && each.phase !== 'ended') {
        strike(world, each.container.id, 'cluster');
      }
    }
    act(node);
  };
  // Some outages last longer than any lease.
  const outageMs = () => (random.chance(0.2) ? random.between(100_000, 400_000) : random.between(500, 40_000));
  return [
    { name: 'node crashes', strike: aNode((node) => cluster.crash(node, random.between(1_000, 40_000))) },
    { name: 'node is cut off', strike: aNode((node) => cluster.cut(node, outageMs(), random.between(5_000, 50_000))) },
    { name: 'NodeManager dies', strike: aNode((node) => cluster.abandon(node, outageMs(), random.between(5_000, 50_000))) },
  ];
}

function masterFaults({ world, cluster, storage, stallMaster, crashMaster }: FaultTargets): Fault[] {
  const { random, timeline } = world;
  const crash: Fault = { name: 'master crashes', harmless: true, strike: crashMaster };
  return [
    { name: 'resource manager restarts', harmless: true, strike: () => cluster.restart(random.between(1_000, 15_000)) },
    { name: 'storage is slow', harmless: true, strike: () => (storage.slowUntil = timeline.now + random.between(1_000, 15_000)) },
    { name: 'master is stalled', harmless: true, strike: () => stallMaster(random.between(500, 20_000)) },
    crash,
    crash,
  ];
}
