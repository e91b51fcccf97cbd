import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { frozen, type RoleChanges, role, workers } from '../../conf/job.fixture.ts';
import { JobScenario } from './simulator/job-scenario.ts';
import { LIMITS } from './state/job-state.ts';

const NEVER = { policy: 'never', maxRestarts: 3 } as const;
/** Clocks of the executors of c1, c2 and c3, relative to the ApplicationMaster's clock. */
const CLOCKS: Readonly<Record<string, number>> = { c1: -5_000, c2: 7_000_000, c3: 0 };

function running(changes: RoleChanges = {}): JobScenario {
  const scene = JobScenario.running(frozen({ roles: [workers(changes)] }), CLOCKS);
  for (const containerId of ['c1', 'c2', 'c3'].slice(0, changes.instances ?? 2)) {
    alive(scene, containerId);
  }
  return scene;
}

/** A heartbeat that shows that the program has not failed by now. */
function alive(scene: JobScenario, containerId: string): void {
  const usage = { memoryBytes: 1, cpuCores: 1, gpus: [], stopped: false };
  scene.say({ type: 'heartbeat', containerId, generation: 1, usage, progress: null, clock: scene.clock(containerId) });
}

interface Fate {
  readonly code: number;
  readonly signal?: string;
  /** Time of the exit in ms, relative to now. */
  readonly at?: number;
  readonly stderr?: string;
}

function exited(scene: JobScenario, containerId: string, { code, signal = '', at = 0, stderr = '' }: Fate): void {
  const exit = { generation: 1, code, signal, stderrTail: stderr, permanent: false, clock: scene.clock(containerId) + at };
  scene.say({ type: 'exited', containerId, exit });
}

const KILLED = { code: -1, signal: 'SIGKILL' };
const VICTIM = { code: 1, stderr: 'Connection closed by peer' };

describe('the first failure of a generation is charged and told', () => {
  it('a program that a signal has killed is blamed, not the peer that fails because of it', () => {
    for (const signal of ['SIGKILL', 'SIGSEGV', 'SIGTERM']) {
      const scene = running({ restart: NEVER });
      exited(scene, 'c2', { code: -1, signal });
      scene.now += 300;
      exited(scene, 'c1', VICTIM);
      scene.wait(LIMITS.truthMs + 1_000);
      expect(scene.result?.message).toMatch(new RegExp(`^worker:1 failed, and its role allows no restart: .* was killed by ${signal}`));
      expect(scene.state.firstFailure?.failure).toMatchObject({ role: 'worker', index: 1 });
    }
  });

  it('onExitCodes judges the first failure, not its consequences', () => {
    const scene = running({ restart: { onExitCodes: [137] } });
    exited(scene, 'c2', KILLED);
    scene.now += 300;
    exited(scene, 'c1', VICTIM);
    scene.wait(LIMITS.truthMs + 1_000);
    scene.serve();
    expect(scene.task('worker:0')).toMatchObject({ state: 'running', failures: 0 });
    expect(scene.task('worker:1')).toMatchObject({ state: 'running', failures: 1 });
  });

  it('a report that arrives late does not change the order of the failures', () => {
    const scene = running();
    scene.now += 400;
    exited(scene, 'c1', VICTIM);
    scene.say({ type: 'tick' });
    expect(scene.task('worker:0')).toMatchObject({ failures: 0 });
    scene.now += 900;
    exited(scene, 'c2', { code: 3, at: -1_200 });
    expect(scene.task('worker:0')).toMatchObject({ failures: 0 });
    expect(scene.task('worker:1')).toMatchObject({ failures: 1 });
  });

  it('a peer that was still running at the time of the exit does not delay the charge', () => {
    const scene = running();
    scene.now += 10;
    exited(scene, 'c1', { code: 3 });
    expect(scene.task('worker:0')).toMatchObject({ failures: 0 });
    scene.now += 1;
    alive(scene, 'c2');
    scene.say({ type: 'tick' });
    expect(scene.task('worker:0')).toMatchObject({ failures: 1 });
  });

  it('an executor that ended together with its program is blamed, not the peer', () => {
    const scene = running({ restart: NEVER });
    scene.now += 200;
    exited(scene, 'c1', VICTIM);
    scene.now += 2_000;
    scene.end('c2', 'exited', 137);
    scene.wait(1_000);
    expect(scene.result?.message).toMatch(/^worker:1 failed/);
  });

  it('YARN explains a death by a signal, also when a peer has failed in the meantime', () => {
    const scene = running({ restart: NEVER });
    exited(scene, 'c2', KILLED);
    scene.now += 300;
    exited(scene, 'c1', VICTIM);
    scene.now += 2_000;
    scene.end('c2', 'memory-exceeded', -104);
    expect(scene.status().message).toContain('worker:1 failed');
    expect(scene.status().message).toContain('was killed for using more than its 1 GiB of memory');
  });

  it('a peer that is suspended is blamed for the exits that follow', () => {
    const scene = running();
    scene.now += 200;
    exited(scene, 'c1', VICTIM);
    const usage = { memoryBytes: 1, cpuCores: 0, gpus: [], stopped: true };
    scene.now += 500;
    scene.say({ type: 'heartbeat', containerId: 'c2', generation: 1, usage, progress: null, clock: scene.clock('c2') });
    scene.say({ type: 'tick' });
    expect(scene.task('worker:1')).toMatchObject({ failures: 1 });
    expect(scene.failure('worker:1')).toContain('was stopped by a signal');
  });

  it('an elastic job drops the worker that fails again and again, not its peers', () => {
    const scene = JobScenario.running(
      frozen({ roles: [workers({ instances: 1, maxInstances: 3, restart: { policy: 'on-failure', maxRestarts: 1 } })] }),
    );
    for (let round = 0; round < 2; round++) {
      scene.wait(25_000);
      scene.serve();
      const generation = scene.state.generation;
      const report = (name: string, fate: Fate): void => {
        const { code, signal = '', stderr = '' } = fate;
        const exit = { generation, code, signal, stderrTail: stderr, permanent: false };
        scene.say({ type: 'exited', containerId: scene.container(name), exit });
      };
      report('worker:2', KILLED);
      scene.now += 200;
      report('worker:0', VICTIM);
      report('worker:1', VICTIM);
      scene.wait(LIMITS.truthMs + 1_000);
      scene.serve();
    }
    expect(scene.task('worker:0')).toMatchObject({ failures: 0 });
    expect(scene.task('worker:1')).toMatchObject({ failures: 0 });
    expect(scene.task('worker:2')).toMatchObject({ state: 'failed', failures: 2 });
    expect(scene.status().state).toBe('running');
  });

  it('the time limit of one task does not hide the failure of another', () => {
    const scene = running({ timeoutMs: 10_000 });
    scene.wait(9_900);
    exited(scene, 'c1', { code: 3 });
    scene.now += 200;
    scene.say({ type: 'tick' });
    alive(scene, 'c2');
    scene.say({ type: 'tick' });
    expect(scene.task('worker:0')).toMatchObject({ failures: 1 });
    expect(scene.task('worker:1')).toMatchObject({ failures: 0 });
  });

  it('an evaluator does not wait for the gang', () => {
    const scene = JobScenario.running(frozen({ roles: [workers(), role({ name: 'evaluator' })] }));
    exited(scene, scene.container('evaluator:0'), { code: 3 });
    expect(scene.task('evaluator:0')).toMatchObject({ failures: 1 });
  });

  it('for any clocks, delays and order of arrival, the program that exited first is charged', () => {
    const task = fc.record({ exitAt: fc.integer({ min: 0, max: 2_000 }), delay: fc.integer({ min: 0, max: 3_000 }), killed: fc.boolean() });
    fc.assert(
      fc.property(fc.array(task, { minLength: 3, maxLength: 3 }), (tasks) => {
        const times = tasks.map(({ exitAt }) => exitAt).sort((a, b) => a - b);
        fc.pre((times[1] as number) - (times[0] as number) > 150);
        const scene = running({ instances: 3 });
        const start = scene.now;
        const reports = tasks.map(({ exitAt, delay, killed }, at) => ({
          containerId: `c${at + 1}`,
          exitAt,
          arrival: exitAt + delay,
          killed,
        }));
        for (const { containerId, exitAt, arrival, killed } of reports.toSorted((a, b) => a.arrival - b.arrival)) {
          scene.now = start + arrival;
          exited(scene, containerId, { ...(killed ? KILLED : VICTIM), at: exitAt - arrival });
        }
        const first = tasks.findIndex(({ exitAt }) => exitAt === times[0]);
        expect([0, 1, 2].filter((index) => scene.task(`worker:${index}`).failures > 0)).toEqual([first]);
      }),
    );
  });
});
