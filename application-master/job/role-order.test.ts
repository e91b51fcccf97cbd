import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { frozen, type RoleChanges, role, workers } from '../../conf/job.fixture.ts';
import { JobScenario } from './simulator/job-scenario.ts';
import { LIMITS } from './state/job-state.ts';

const load = (changes: RoleChanges = {}) => role({ name: 'load', ...changes });
const afterLoad = { after: [{ role: 'load', state: 'succeeded' }] } as const;
const never = { policy: 'never', maxRestarts: 3 } as const;
const endAfter = (roles: string[], timeoutMs: number, late: 'stop' | 'fail' = 'stop') => ({ endAfter: { roles, timeoutMs, late } });
const chief = (changes: RoleChanges = {}) => role({ name: 'chief', kind: 'gang', chief: true, ...changes });
const follower = (changes: RoleChanges = {}) => role({ name: 'worker', instances: 2, kind: 'gang', ...changes });

describe('roles that wait for other roles', () => {
  const staged = frozen({ roles: [load(), workers(afterLoad), role({ name: 'evaluator' })] });

  it('a role that waits for another role requests no container until the other role has succeeded, and then forms the gang', () => {
    const scene = new JobScenario(staged);
    scene.register();
    scene.hello(scene.allocate('load'));
    expect(scene.status()).toMatchObject({ state: 'starting', message: 'Role worker waits until load has succeeded.' });
    scene.serve();
    expect([scene.wanted('worker'), scene.task('worker:0').state, scene.task('evaluator:0').state]).toEqual([0, 'requested', 'running']);
    expect(scene.status()).toMatchObject({ state: 'running', message: 'Role worker waits until load has succeeded.' });
    expect(scene.task('worker:1').waitsFor).toEqual([{ role: 'load', state: 'succeeded' }]);
    expect(scene.task('load:0').waitsFor).toBeUndefined();
    const id = scene.container('load:0');
    scene.exit(id, 0);
    expect([scene.wanted('worker'), scene.task('load:0').state]).toEqual([0, 'succeeded']);
    scene.end(id, 'exited', 0);
    expect(scene.wanted('worker')).toBe(2);
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', message: '', generations: 1 });
    expect(scene.history).toContain('role-waits until load has succeeded');
    expect(scene.history).toContain('role-released load has succeeded');
    for (const name of ['worker:0', 'worker:1', 'evaluator:0']) {
      scene.exit(scene.container(name), 0);
    }
    expect(scene.result?.state).toBe('succeeded');
  });

  it('a role may wait for another role without a limit, and its time for containers starts at the end of the wait', () => {
    const scene = JobScenario.running(frozen({ roles: [load(), workers(afterLoad), role({ name: 'late', ...afterLoad })] }));
    scene.wait(10 * 60_000);
    expect(scene.status()).toMatchObject({ state: 'running' });
    scene.leave('load:0');
    scene.wait(59_000);
    expect(scene.history.filter((line) => line.includes('timeout'))).toEqual([]);
    expect(scene.status()).toMatchObject({ state: 'waiting' });
    scene.wait(2_000);
    expect(scene.history.filter((line) => line.includes('timeout'))).toHaveLength(2);
  });

  it('a role that waits for another role starts when all tasks of the other role run', () => {
    const scene = new JobScenario(
      frozen({ roles: [workers(), role({ name: 'evaluator', after: [{ role: 'worker', state: 'running' }] })] }),
    );
    scene.register();
    const ids = [scene.allocate('worker'), scene.allocate('worker')];
    for (const id of ids) {
      scene.hello(id);
    }
    scene.started(ids[0] ?? '', 1);
    expect(scene.wanted('evaluator')).toBe(0);
    scene.started(ids[1] ?? '', 1);
    expect(scene.wanted('evaluator')).toBe(1);
  });

  it('a role does not start after a succeeded ranked role while other ranked tasks may repeat the work of that role', () => {
    const report = role({ name: 'report', after: [{ role: 'chief', state: 'succeeded' }] });
    const scene = JobScenario.running(frozen({ roles: [chief(), follower(), report] }));
    scene.leave('chief:0');
    expect(scene.wanted('report')).toBe(0);
    scene.leave('worker:0');
    const failed = scene.container('worker:1');
    scene.exit(failed, 1);
    scene.end(failed, 'stopped-by-master');
    scene.serve();
    expect(scene.task('chief:0').state).toBe('running');
    for (const name of ['chief:0', 'worker:0', 'worker:1']) {
      expect(scene.wanted('report')).toBe(0);
      scene.leave(name);
    }
    expect(scene.wanted('report')).toBe(1);
  });

  it('the job fails with the reason if the awaited role fails permanently', () => {
    const scene = JobScenario.running(frozen({ roles: [load({ restart: never }), workers(afterLoad)] }));
    scene.exit(scene.container('load:0'), 3);
    expect(scene.result).toMatchObject({ state: 'failed', message: expect.stringContaining('exited with code 3') });
    expect(scene.result?.message).toContain('Role worker has not started, because it waits until load has succeeded.');
  });

  it('the job fails if a role waits for a sidecar that fails permanently', () => {
    const scene = JobScenario.running(frozen({ roles: [load({ restart: never, kind: 'sidecar' }), workers(afterLoad)] }));
    scene.exit(scene.container('load:0'), 3);
    expect(scene.result?.message).toMatch(
      /^Role worker cannot start: it waits until load has succeeded, but load:0 has failed: its program on h\d:1 exited with code 3\.$/,
    );
  });

  it('a role that waits for another role delays neither TensorBoard nor the extra tasks of an elastic role', () => {
    const tensorboard = role({ name: 'tensorboard', kind: 'sidecar' });
    const evaluator = role({ name: 'evaluator', after: [{ role: 'worker', state: 'succeeded' }] });
    const scene = JobScenario.running(
      frozen({
        roles: [workers({ maxInstances: 3 }), evaluator, tensorboard],
        tensorboard: { logdir: null, serve: true, resources: { memoryMb: 1024, vcores: 1 } },
      }),
    );
    scene.serve();
    expect(scene.task('tensorboard:0').state).toBe('running');
    expect(scene.status().elastic).toMatchObject({ running: 3 });
  });
});

/** Starts a later attempt, to which the ResourceManager reports the containers of the earlier one. */
function next(scene: JobScenario, job = staged): JobScenario {
  const later = new JobScenario(job, 2, scene.snapshot);
  later.now = scene.now + 30_000;
  later.register(
    scene.state.tasks.flatMap(({ container }) =>
      container === null ? [] : [{ id: container.id, role: container.role, node: container.node, nodeHttp: '', memoryMb: 1024 }],
    ),
  );
  return later;
}

const staged = frozen({ roles: [load(), workers(afterLoad)] });

describe('later attempts', () => {
  it('a later attempt keeps waiting in the first stage, and continues with the second stage', () => {
    const scene = JobScenario.running(staged);
    const later = next(scene);
    expect([later.wanted('worker'), later.task('worker:0').waitsFor]).toEqual([0, [{ role: 'load', state: 'succeeded' }]]);
    later.hello(later.container('load:0'), { phase: 'running', generation: 1 });
    later.leave('load:0');
    later.serve();
    expect(later.task('worker:1').state).toBe('running');
  });

  it('a later attempt continues the second stage, even if the first stage ended earlier', () => {
    const scene = JobScenario.running(staged);
    scene.leave('load:0');
    scene.serve();
    const later = next(scene);
    expect(later.task('worker:0').waitsFor).toBeUndefined();
    for (const name of ['worker:0', 'worker:1']) {
      later.hello(later.container(name), { phase: 'running', generation: 1 });
    }
    expect(later.status()).toMatchObject({ state: 'running', generations: 1 });
    expect(later.of('launch')).toEqual([]);
  });

  it('a later attempt requests containers for a stage that had none when the attempt failed', () => {
    const scene = JobScenario.running(staged);
    scene.leave('load:0');
    const later = next(scene);
    expect([later.task('load:0').state, later.wanted('load'), later.wanted('worker')]).toEqual(['succeeded', 0, 2]);
  });

  it('a later attempt requests no containers until the containers of the first stage have ended', () => {
    const scene = JobScenario.running(staged);
    const id = scene.container('load:0');
    scene.exit(id, 0);
    const later = new JobScenario(staged, 2, scene.snapshot);
    later.say({ type: 'tick' });
    later.register([{ id, role: 'load', node: 'h1:1', nodeHttp: '', memoryMb: 1024 }]);
    expect([later.task('load:0').state, later.wanted('worker')]).toEqual(['succeeded', 0]);
    later.end(id, 'stopped-by-master');
    expect(later.wanted('worker')).toBe(2);
  });

  it('a later attempt counts the time before its start towards `endAfter` and `timeout`', () => {
    const job = frozen({ roles: [load(), role({ name: 'db', timeoutMs: 50_000, ...endAfter(['load'], 45_000) })] });
    const scene = JobScenario.running(job);
    scene.exit(scene.container('load:0'), 0);
    const ofEnd = next(scene, job);
    ofEnd.hello(ofEnd.container('db:0'), { phase: 'running', generation: 1 });
    ofEnd.wait(14_000);
    expect(ofEnd.result).toBeNull();
    ofEnd.wait(2_000);
    expect(ofEnd.status().state).toBe('succeeded');
    const limited = JobScenario.running(frozen({ roles: [role({ name: 'db', timeoutMs: 50_000 })] }));
    const ofLimit = next(limited, frozen({ roles: [role({ name: 'db', timeoutMs: 50_000 })] }));
    ofLimit.hello(ofLimit.container('db:0'), { phase: 'running', generation: 1 });
    ofLimit.wait(21_000);
    expect(ofLimit.failure('db:0')).toContain('ran longer than its time limit of 50 s (roles.db.timeout)');
  });
});

// These cases come from TonY's end-to-end tests for dependency timeouts: the chief ends, and the workers run forever.
describe('roles with endAfter', () => {
  it('the job fails if a role with endAfter exceeds its time limit', () => {
    const scene = JobScenario.running(frozen({ roles: [chief(), follower(endAfter(['chief'], 10_000, 'fail'))] }));
    scene.exit(scene.container('chief:0'), 0);
    scene.wait(9_500);
    expect(scene.result).toBeNull();
    scene.wait(6_000);
    expect(scene.result).toMatchObject({ state: 'failed' });
    expect(scene.result?.message).toMatch(
      /^worker:0 had not ended 10 s after the end of role chief\. Raise roles\.worker\.endAfter\.timeout/,
    );
  });

  it('a role with endAfter is stopped after its time limit, and the job succeeds', () => {
    const scene = JobScenario.running(frozen({ roles: [chief(), follower(endAfter(['chief'], 10_000))] }));
    const ids = [scene.container('worker:0'), scene.container('worker:1')];
    scene.exit(scene.container('chief:0'), 0);
    scene.wait(9_500);
    expect(scene.task('worker:1').state).toBe('running');
    scene.wait(1_000);
    expect(scene.ordered('stop-program')).toEqual(expect.arrayContaining(ids));
    expect(scene.of('stop-program').filter(({ containerId, atOnce }) => atOnce && ids.includes(containerId))).toEqual([]);
    expect([scene.task('worker:0').state, scene.status().state]).toEqual(['stopped', 'succeeded']);
  });

  it('a role with endAfter is stopped together with the parameter servers', () => {
    const ps = role({ name: 'ps', kind: 'service', servesParameters: true });
    const scene = JobScenario.running(frozen({ roles: [chief(), follower(endAfter(['chief'], 0)), ps] }));
    scene.exit(scene.container('chief:0'), 0);
    scene.wait(6_000);
    expect(scene.result?.state).toBe('succeeded');
  });

  it('the job fails if a role with endAfter fails before its time limit', () => {
    const scene = JobScenario.running(
      frozen({ roles: [chief(), follower({ restart: never, ...endAfter(['chief'], 10_000) }), role({ name: 'evaluator' })] }),
    );
    scene.exit(scene.container('chief:0'), 0);
    scene.wait(5_000);
    scene.exit(scene.container('worker:0'), 1);
    expect(scene.status()).toMatchObject({ state: 'failed', message: expect.stringContaining('worker:0 failed') });
  });

  it('a role with endAfter is stopped while the job continues, and its late messages change nothing', () => {
    const scene = JobScenario.running(
      frozen({ roles: [load(), role({ name: 'db', ...endAfter(['load'], 0) }), role({ name: 'report' })] }),
    );
    const db = scene.container('db:0');
    scene.exit(scene.container('load:0'), 0);
    scene.say({ type: 'tick' });
    expect([scene.task('db:0').state, scene.ordered('stop-program').includes(db)]).toEqual(['stopped', true]);
    scene.exit(db, 143);
    scene.end(db, 'exited', 143);
    expect([scene.task('db:0').state, scene.task('db:0').failures, scene.wanted('db')]).toEqual(['stopped', 0, 0]);
    expect(scene.history).toContain('task-stopped role load had ended');
    expect(scene.result).toBeNull();
    scene.exit(scene.container('report:0'), 0);
    expect(scene.result?.state).toBe('succeeded');
  });

  it('a role with endAfter gets its full time again if the other role repeats its work', () => {
    const scene = JobScenario.running(frozen({ roles: [chief(), follower(endAfter(['chief'], 20_000))] }));
    scene.exit(scene.container('chief:0'), 0);
    scene.wait(15_000);
    scene.exit(scene.container('worker:1'), 1);
    scene.serve();
    scene.wait(15_000);
    scene.exit(scene.container('chief:0'), 0);
    scene.wait(15_000);
    expect(scene.task('worker:0').state).toBe('running');
  });

  it('a role with endAfter is not requested again after it was stopped before it had a container', () => {
    const scene = new JobScenario(frozen({ roles: [load(), role({ name: 'db', ...endAfter(['load'], 0) }), role({ name: 'report' })] }));
    scene.register();
    const id = scene.allocate('load');
    scene.hello(id);
    scene.started(id, 1);
    scene.exit(id, 0);
    expect([scene.task('db:0').state, scene.wanted('db')]).toEqual(['stopped', 0]);
  });
});

describe('time limits', () => {
  const limited = (changes: RoleChanges = {}) => frozen({ roles: [workers({ timeoutMs: 20_000, ...changes })] });

  it('a task fails at its time limit, uses up one of its restarts, and gets the full time again for its next program', () => {
    const scene = JobScenario.running(limited({ restart: { policy: 'on-failure', maxRestarts: 1 } }));
    scene.wait(20_000);
    expect(scene.failure('worker:0')).toMatch(/^its program on h1:1 ran longer than its time limit of 20 s/);
    scene.serve();
    scene.wait(19_500);
    expect(scene.task('worker:0')).toMatchObject({ state: 'running', failures: 1 });
    scene.wait(1_000);
    expect(scene.status()).toMatchObject({ state: 'failed', message: expect.stringContaining('ran longer than its time limit') });
  });

  it('a program at its time limit may store a checkpoint: YARN stops the container only if its executor does not end', () => {
    const scene = JobScenario.running(limited());
    const old = scene.container('worker:0');
    scene.wait(20_000);
    expect([scene.ordered('stop-program'), scene.ordered('stop-container')]).toEqual([[old], []]);
    scene.wait(11_000);
    expect(scene.ordered('stop-container')).toEqual([old]);
  });

  it('a job that ends at a time limit waits until the program has stored its checkpoint', () => {
    const scene = JobScenario.running(limited({ restart: { policy: 'never', maxRestarts: 0 } }));
    scene.wait(21_000);
    expect([scene.status().state, scene.result]).toEqual(['failed', null]);
    for (const containerId of scene.ordered('stop-program')) {
      scene.end(containerId, 'exited', 0);
    }
    expect(scene.result?.message).toContain('ran longer than its time limit');
  });

  it('a time limit does not count the time in which the program is not running', () => {
    const scene = new JobScenario(limited());
    scene.register();
    scene.hello(scene.allocate('worker'));
    scene.allocate('worker');
    scene.wait(50_000);
    scene.serve();
    scene.wait(19_000);
    expect([scene.task('worker:0').failures, scene.status().state]).toEqual([0, 'running']);
  });
});

describe('onExitCodes', () => {
  const one = (changes: RoleChanges) => JobScenario.running(frozen({ roles: [role({ name: 'worker', chief: true, ...changes })] }));

  it('a task with onExitCodes restarts only after these exit codes', () => {
    const scene = one({ restart: { onExitCodes: [75] } });
    scene.exit(scene.container('worker:0'), 75);
    scene.serve();
    expect(scene.task('worker:0')).toMatchObject({ state: 'running', failures: 1 });
    scene.exit(scene.container('worker:0'), 3);
    expect(scene.result?.message).toMatch(/^worker:0 failed, and its role restarts only after exit code 75 \(restart\.onExitCodes\): /);
  });

  it('onExitCodes does not lift the limit on the number of restarts', () => {
    const scene = one({ restart: { maxRestarts: 1, onExitCodes: [75] } });
    scene.exit(scene.container('worker:0'), 75);
    scene.serve();
    scene.exit(scene.container('worker:0'), 75);
    expect(scene.result?.message).toContain('only 1 restart is allowed');
  });

  it('a task with onExitCodes also restarts after failures that are not exits of its program', () => {
    const scene = one({ restart: { onExitCodes: [] } });
    scene.end(scene.container('worker:0'), 'disks-failed');
    scene.serve();
    expect(scene.task('worker:0').state).toBe('running');
    scene.silent.add(scene.container('worker:0'));
    scene.wait(12_000);
    scene.serve();
    expect(scene.result).toBeNull();
  });

  it('onExitCodes counts an end by signal n as exit code 128 + n', () => {
    const scene = one({ restart: { onExitCodes: [137] } });
    scene.exit(scene.container('worker:0'), -1, { signal: 'SIGKILL' });
    scene.wait(LIMITS.truthMs + 500);
    scene.serve();
    expect(scene.task('worker:0')).toMatchObject({ state: 'running', failures: 1 });
    scene.exit(scene.container('worker:0'), -1, { signal: 'SIGSEGV' });
    scene.wait(LIMITS.truthMs + 500);
    expect(scene.result?.state).toBe('failed');
  });
});

describe('the limit on restarts of the whole job', () => {
  const job = (maxRestarts: number, roles: Parameters<typeof frozen>[0]['roles']) =>
    JobScenario.running(frozen({ restart: { maxRestarts }, roles }));
  const fail = (scene: JobScenario, task: string) => {
    scene.exit(scene.container(task), 3);
    scene.wait(LIMITS.truthMs + 500);
    scene.serve();
  };

  it('counts the failures of all tasks together, and a failure that restarts the gang once', () => {
    const scene = job(2, [workers({ instances: 4 }), role({ name: 'other' })]);
    fail(scene, 'worker:1');
    fail(scene, 'other:0');
    expect(scene.result).toBeNull();
    fail(scene, 'worker:2');
    expect(scene.result?.state).toBe('failed');
    expect(scene.result?.message).toMatch(
      /^worker:2 failed, but only 2 restarts are allowed in the whole job \(restart\.maxRestarts\): its program .* exited with code 3/,
    );
  });

  it('counts neither failures that the cluster caused nor those of sidecars', () => {
    const scene = job(0, [workers({ instances: 1 }), role({ name: 'watcher', kind: 'sidecar' })]);
    scene.end(scene.container('worker:0'), 'preempted');
    scene.serve();
    fail(scene, 'watcher:0');
    expect(scene.task('watcher:0').state).toBe('running');
    expect(scene.result).toBeNull();
    fail(scene, 'worker:0');
    expect(scene.result?.message).toContain('only 0 restarts are allowed in the whole job');
  });

  it('a later attempt continues the count', () => {
    const scene = job(1, [workers({ instances: 2 })]);
    fail(scene, 'worker:1');
    const later = next(scene, frozen({ restart: { maxRestarts: 1 }, roles: [workers({ instances: 2 })] }));
    for (const task of ['worker:0', 'worker:1']) {
      later.hello(later.container(task), { phase: 'running', generation: 2 });
    }
    later.serve();
    later.exit(later.container('worker:0'), 3, { generation: 2 });
    later.wait(LIMITS.truthMs + 500);
    expect(later.result?.message).toContain('only 1 restart is allowed in the whole job');
  });

  it('a task without which the job continues uses no restart when it is given up', () => {
    const helper = role({ name: 'helper', restart: { policy: 'never' } });
    const scene = JobScenario.running(
      frozen({ restart: { maxRestarts: 1 }, successPolicy: 'chief', roles: [workers({ instances: 1 }), helper] }),
    );
    fail(scene, 'helper:0');
    fail(scene, 'worker:0');
    expect(scene.result).toBeNull();
    fail(scene, 'worker:0');
    expect(scene.result?.state).toBe('failed');
  });
});

it('for any order of the roles, no role runs before the roles for which it waits have succeeded', () => {
  const names = ['a', 'b', 'c', 'd', 'e'];
  const edges = fc.array(fc.tuple(fc.nat(4), fc.nat(4)), { maxLength: 8 });
  fc.assert(
    fc.property(edges, fc.shuffledSubarray(names, { minLength: 5 }), fc.boolean(), (pairs, order, ranked) => {
      // Every edge leads from an earlier name to a later one, so the graph has no cycles.
      const after = (name: string) =>
        pairs.flatMap(([one, other]) =>
          one < other && names[other] === name ? [{ role: names[one] ?? '', state: 'succeeded' as const }] : [],
        );
      const scene = JobScenario.running(
        frozen({
          roles: order.map((name) =>
            role({ name, chief: name === 'a', kind: ranked && name === 'e' ? 'gang' : 'independent', after: after(name) }),
          ),
        }),
      );
      const succeeded = new Set<string>();
      for (let round = 0; round < names.length && scene.result === null; round++) {
        const running = names.filter((name) => scene.task(`${name}:0`).state === 'running');
        for (const name of running) {
          expect(after(name).every((condition) => succeeded.has(condition.role))).toBe(true);
        }
        for (const name of running) {
          scene.leave(`${name}:0`);
          succeeded.add(name);
        }
        scene.serve();
      }
      expect([scene.result?.state, succeeded.size]).toEqual(['succeeded', 5]);
    }),
  );
});
