import { frozen, role } from '../../../conf/job.fixture.ts';
import type { FrozenJob, Role, RoleKind } from '../../../conf/job.ts';
import type { SimulatedNode } from './cluster.ts';
import type { Random } from './random.ts';

export function inventJob(random: Random): FrozenJob {
  const maxRestarts = random.between(0, 4);
  const policy = random.chance(0.1) ? ('never' as const) : ('on-failure' as const);
  const restart = { policy, maxRestarts, onExitCodes: null };
  const kind: RoleKind = random.chance(0.85) ? 'gang' : 'independent';
  const roles: Role[] = [role({ name: 'worker', instances: random.between(1, 4), kind, chief: true, restart })];
  const worker = roles[0] as Role;
  if (kind === 'gang' && random.chance(0.35)) {
    roles[0] = { ...worker, maxInstances: worker.instances + random.between(1, 4) };
  }
  if (random.chance(0.2)) {
    const leads = random.chance(0.5);
    roles.unshift(role({ name: 'helper', instances: random.between(1, 2), kind, chief: leads, restart }));
    if (leads) {
      roles[1] = { ...(roles[1] as Role), chief: false };
    }
  }
  if (random.chance(0.4)) {
    roles.push(role({ name: 'evaluator', restart }));
  }
  inventOrder(random, roles, restart);
  const serves = kind === 'gang' && random.chance(0.3);
  if (serves || random.chance(0.2)) {
    roles.push(role({ name: 'ps', kind: 'service', servesParameters: serves, instances: random.between(1, 2), restart }));
  }
  const sidecar = random.chance(0.4);
  if (sidecar) {
    roles.push(role({ name: 'tensorboard', kind: 'sidecar', restart, spare: random.chance(0.7) }));
  }
  const number = random.between(1, 9999);
  const jobId = `application_1_${number}`;
  // In every third job, programs may keep running for longer than all other limits.
  const gracePeriodMs = number % 3 === 0 ? 45_000 : 3_000;
  const job = frozen({
    roles: roles.map((each) => (each.spare ? each : { ...each, gracePeriodMs })),
    restart: { maxRestarts: number % 5 === 0 ? number % 4 : null },
    successPolicy: random.chance(0.8) ? 'all' : number % 2 === 0 ? 'chief' : 'ended',
    heartbeat: { intervalMs: 1_000, missed: random.between(4, 10) },
    tensorboard: { logdir: null, serve: roles.some(({ spare }) => spare), resources: { memoryMb: 1024, vcores: 1 } },
    strategy: serves ? { type: 'parameter-server', staleness: null } : { type: 'all-reduce' },
  });
  // Every second job has long leases.
  return { ...job, jobId, cluster: { kind: 'yarn', hadoop: {}, ...(number % 2 === 0 && { masterReplacementMs: 300_000 }) } };
}

/** Makes some gangs wait for a preparation role, and some evaluators wait for the workers. */
function inventOrder(random: Random, roles: Role[], restart: Role['restart']): void {
  if (random.chance(0.25)) {
    roles.push(role({ name: 'prepare', instances: random.between(1, 2), restart }));
    roles[0] = { ...(roles[0] as Role), after: [{ role: 'prepare', state: random.chance(0.7) ? 'succeeded' : 'running' }] };
  }
  const evaluator = roles.findIndex(({ name }) => name === 'evaluator');
  if (evaluator >= 0 && random.chance(0.5)) {
    const state = random.chance(0.5) ? 'succeeded' : 'running';
    roles[evaluator] = { ...(roles[evaluator] as Role), after: [{ role: 'worker', state }] };
  }
}

/**
 * Creates the nodes. If `roomy` is true, the job fits even while one node is down. Otherwise, the nodes do not have enough room for the
 * job.
 */
export function inventNodes(random: Random, roomy: boolean, tasks: number): SimulatedNode[] {
  const count = random.between(1, 4);
  const slots = roomy ? (count === 1 ? tasks + 4 : Math.ceil((tasks + 4) / (count - 1))) : Math.max(1, Math.floor((tasks - 1) / count));
  return Array.from({ length: count }, (_, at) => ({ name: `node${at + 1}:1`, slots, up: true, cut: false, unmanaged: false }));
}
