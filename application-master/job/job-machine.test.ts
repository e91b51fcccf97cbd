import { describe, expect, it } from 'vitest';
import { frozen, role, workers } from '../../conf/job.fixture.ts';
import type { PythonEnvironment } from '../../conf/python.ts';
import { jobMessage } from '../../conf/status/job-message.ts';
import { restartsOf } from '../../conf/status/status.ts';
import { assignmentOf } from './job-machine.ts';
import { JobScenario } from './simulator/job-scenario.ts';
import type { Action } from './state/events.ts';
import { LIMITS } from './state/job-state.ts';

const evaluator = role({ name: 'evaluator' });
const twoWorkers = frozen({ roles: [workers()] });
const withEvaluator = frozen({ roles: [workers(), evaluator] });

describe('jobs without failures', () => {
  it('a job requests every role, launches containers immediately, forms the gang, and ends when all tracked tasks have ended', () => {
    const scene = new JobScenario(withEvaluator);
    expect(scene.status().state).toBe('starting');
    scene.register();
    expect([scene.wanted('worker'), scene.wanted('evaluator')]).toEqual([2, 1]);
    expect([scene.allocate('worker'), scene.allocate('worker'), scene.allocate('evaluator')]).toEqual(['c1', 'c2', 'c3']);
    expect(scene.of('launch').map(({ containerId, role, index }) => `${containerId} ${role}:${index}`)).toEqual([
      'c1 worker:0',
      'c2 worker:1',
      'c3 evaluator:0',
    ]);
    expect([scene.wanted('worker'), scene.wanted('evaluator')]).toEqual([0, 0]);
    scene.hello('c2');
    expect(scene.ordered('start')).toEqual([]);
    scene.hello('c1');
    expect(scene.ordered('start')).toEqual(['c1', 'c2']);
    expect(scene.of('start')[0]).toMatchObject({
      generation: 1,
      members: [
        { role: 'worker', index: 0, host: 'h1', port: 1001, taskRank: 0 },
        { role: 'worker', index: 1, host: 'h1', port: 1002, taskRank: 1 },
      ],
    });
    scene.hello('c3');
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 1, message: '' });
    scene.exit('c1', 0);
    scene.exit('c3', 0);
    expect(scene.result).toBeNull();
    scene.exit('c2', 0);
    expect(scene.result).toEqual({ state: 'succeeded', message: '' });
    expect(scene.ordered('stop-program').sort()).toEqual(['c1', 'c2', 'c3']);
    expect(scene.actions.at(-1)?.type).toBe('finish');
  });

  it('a job is not recovering while its first gang forms, although an unranked task is already running', () => {
    const scene = new JobScenario(withEvaluator);
    scene.register();
    const id = scene.allocate('evaluator');
    scene.hello(id);
    scene.started(id, 1);
    expect(scene.status()).toMatchObject({ state: 'starting' });
    scene.wait(6_000);
    expect(scene.status()).toMatchObject({ state: 'waiting' });
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running' });
  });

  it('a job starts an unranked task as soon as its executor has registered', () => {
    const scene = new JobScenario(withEvaluator);
    scene.register();
    const id = scene.allocate('evaluator');
    scene.hello(id);
    expect(scene.ordered('start')).toEqual([id]);
  });

  it('a job starts a task only after the snapshot that names it is stored', () => {
    const scene = new JobScenario(withEvaluator);
    scene.storageAway = true;
    scene.register();
    scene.serve();
    expect(scene.ordered('launch')).toHaveLength(3);
    expect(scene.ordered('start')).toEqual([]);
    const [first] = scene.of('persist');
    if (first !== undefined) {
      scene.save(first.snapshot);
    }
    expect(scene.ordered('start')).toEqual([]);
    const last = scene.of('persist').at(-1);
    if (last !== undefined) {
      scene.save(last.snapshot);
    }
    expect(scene.ordered('start').sort()).toEqual(['c1', 'c2', 'c3']);
  });

  it('a job gives rank 0 to the chief, and ranks the other tasks in the order of the roles', () => {
    const scene = JobScenario.running(
      frozen({ roles: [role({ name: 'worker', instances: 2, kind: 'gang' }), role({ name: 'chief', kind: 'gang', chief: true })] }),
    );
    expect(scene.of('start')[0]?.members.map(({ role, index, taskRank }) => `${taskRank} ${role}:${index}`)).toEqual([
      '0 chief:0',
      '1 worker:0',
      '2 worker:1',
    ]);
  });

  it.each([
    ['when it has failed', (scene: JobScenario) => scene.exit(scene.container('worker:0'), 3)],
    ['when it is killed', (scene: JobScenario) => scene.say({ type: 'kill', reason: 'enough' })],
  ])('a job waits for the longest grace period of the programs that still run %s', (_, end) => {
    const restart = { policy: 'never' } as const;
    const scene = JobScenario.running(
      frozen({ roles: [workers({ instances: 1, restart, gracePeriodMs: 1_000 }), role({ name: 'store', gracePeriodMs: 60_000 })] }),
    );
    const store = scene.container('store:0');
    end(scene);
    expect(scene.actions.filter(({ type }) => type === 'stop-program')).not.toContainEqual(expect.objectContaining({ atOnce: true }));
    scene.wait(50_000);
    expect(scene.result).toBeNull();
    expect(scene.ordered('stop-container')).not.toContain(store);
    scene.wait(13_000);
    expect(scene.result).not.toBeNull();
  });

  it('the timeouts of a gang begin after the grace periods of its earlier programs', () => {
    const grace = { gracePeriodMs: 200_000 };
    const scene = JobScenario.running(frozen({ gang: { timeoutMs: 60_000 }, roles: [workers(grace)] }));
    const survivor = scene.container('worker:0');
    scene.exit(scene.container('worker:1'), 3);
    expect(scene.ordered('prepare')).toEqual([survivor]);
    scene.wait(190_000);
    expect(scene.container('worker:0')).toBe(survivor);
    expect(scene.history.some((line) => line.startsWith('gang-timeout') || line.startsWith('gang-returned'))).toBe(false);
    scene.ready(survivor, 2);
    scene.serve();
    expect(scene.state.generation).toBe(2);
  });

  it('a checkpoint that a program stores in its grace period counts', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ gracePeriodMs: 60_000 })] }));
    const survivor = scene.container('worker:0');
    scene.exit(scene.container('worker:1'), 3);
    const progress = { step: 40, metrics: {}, checkpointStep: 40, notices: [], ending: false, earlyEnd: null, lostRank: null };
    scene.say({ type: 'heartbeat', containerId: survivor, generation: 1, usage: null, progress, clock: 0 });
    expect(scene.state.training.checkpointStep).toBe(40);
    scene.wait(61_000);
    scene.say({
      type: 'heartbeat',
      containerId: survivor,
      generation: 1,
      usage: null,
      progress: { ...progress, checkpointStep: 50 },
      clock: 0,
    });
    expect(scene.state.training.checkpointStep).toBe(40);
  });

  it('a job releases containers that it did not request, even after its end', () => {
    const scene = JobScenario.running(twoWorkers);
    expect(scene.ordered('release')).toEqual([]);
    const surplus = scene.allocate('worker');
    expect(scene.ordered('release')).toEqual([surplus]);
    scene.say({ type: 'kill', reason: 'enough' });
    const late = scene.allocate('worker');
    expect(scene.ordered('release')).toEqual([surplus, late]);
  });

  it('a job stops untracked tasks and sidecars at its end, and waits a limited time for them', () => {
    const scene = JobScenario.running(
      frozen({
        roles: [workers({ instances: 1 }), role({ name: 'ps', kind: 'service' }), role({ name: 'tensorboard', kind: 'sidecar' })],
      }),
    );
    const ps = scene.container('ps:0');
    scene.exit(scene.container('worker:0'), 0);
    expect(scene.status().state).toBe('succeeded');
    expect(scene.ordered('stop-program')).toHaveLength(3);
    expect(scene.result).toBeNull();
    scene.end(ps, 'exited', 0);
    expect(scene.result).toBeNull();
    scene.wait(5_500);
    expect(scene.ordered('stop-container')).toHaveLength(1);
    expect(scene.result?.state).toBe('succeeded');
  });

  it.each([
    ['has no rank', { kind: 'independent', restart: { policy: 'on-failure', maxRestarts: 0 } }],
    ['has no rank and is never restarted', { kind: 'independent', restart: { policy: 'never', maxRestarts: 3 } }],
    ['has a rank', { kind: 'gang', restart: { policy: 'on-failure', maxRestarts: 1 } }],
  ] as const)('a job continues after the final failure of a task that %s when the chief decides', (_, changes) => {
    const chief = workers({ name: 'chief', instances: 1, kind: changes.kind });
    const scene = JobScenario.running(
      frozen({ successPolicy: 'chief', roles: [chief, role({ name: 'helper', instances: 2, ...changes })] }),
    );
    const attempts = changes.restart.policy === 'never' ? 1 : changes.restart.maxRestarts + 1;
    for (let attempt = 0; attempt < attempts; attempt++) {
      expect(scene.task('helper:1').state).toBe('running');
      scene.exit(scene.container('helper:1'), 3);
      scene.serve();
    }
    expect(scene.task('helper:1').state).toBe('failed');
    expect(scene.task('helper:0').state).toBe('running');
    expect(scene.status()).toMatchObject({ state: 'running', failure: { role: 'helper', index: 1 } });
    expect(scene.history.join()).toContain('the chief decides how the job ends');
    scene.end(scene.container('chief:0'), 'preempted');
    scene.serve();
    scene.wait(11_000);
    scene.serve();
    expect(scene.status().state).toBe('running');
    if (changes.kind === 'gang') {
      expect(
        scene
          .of('start')
          .at(-1)
          ?.members.map(({ role, taskRank }) => [role, taskRank]),
      ).toEqual([
        ['chief', 0],
        ['helper', 1],
      ]);
    }
    scene.exit(scene.container('chief:0'), 0);
    expect(scene.status().state).toBe('succeeded');
  });

  it('a job fails with the final failure of the chief or of a parameter server if success is chief', () => {
    const never = { policy: 'never', maxRestarts: 0 } as const;
    const servers = role({ name: 'ps', kind: 'service', servesParameters: true, restart: never });
    for (const name of ['worker:0', 'ps:0']) {
      const scene = JobScenario.running(frozen({ successPolicy: 'chief', roles: [workers({ restart: never }), servers] }));
      scene.exit(scene.container('worker:1'), 3);
      expect(scene.status().state).toBe('running');
      scene.exit(scene.container(name), 3);
      expect(scene.status()).toMatchObject({ state: 'failed', message: expect.stringContaining(name) });
    }
  });

  it('a job succeeds with the chief if success is chief', () => {
    const scene = JobScenario.running(frozen({ successPolicy: 'chief', roles: [workers()] }));
    scene.exit(scene.container('worker:0'), 0);
    expect(scene.status().state).toBe('succeeded');
  });

  it('a job keeps running until every tracked task has succeeded', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit(scene.container('worker:0'), 0);
    scene.wait(60_000);
    expect(scene.status().state).toBe('running');
  });
});

describe('silent executors', () => {
  it('a silent executor is stopped and replaced, and the next generation starts when all members are ready', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.silent.add('c2');
    scene.wait(9_500);
    expect(scene.ordered('stop-container')).toEqual([]);
    scene.wait(1_000);
    expect(scene.ordered('stop-container')).toEqual(['c2']);
    expect(scene.ordered('prepare')).toEqual(['c1']);
    expect(scene.wanted('worker')).toBe(1);
    expect(scene.status()).toMatchObject({
      state: 'recovering',
      message: 'worker:1: its executor on h2:1 sent no heartbeat for 10 s',
      failedTask: { role: 'worker', index: 1 },
    });
    scene.serve();
    expect(
      scene
        .of('start')
        .filter(({ generation }) => generation === 2)
        .map(({ containerId }) => containerId),
    ).toEqual(['c1', 'c3']);
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
    expect(scene.task('worker:1')).toMatchObject({ failures: 1, attempts: 2, programStarts: 2 });
    expect(scene.task('worker:0')).toMatchObject({ failures: 0, attempts: 1, programStarts: 2 });
  });

  it('a silent executor is not lost when its stream breaks and it reconnects in time', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.say({ type: 'stream-lost', containerId: 'c2' });
    scene.silent.add('c2');
    scene.wait(8_000);
    scene.silent.delete('c2');
    scene.hello('c2', { generation: 1, phase: 'running' });
    scene.wait(30_000);
    expect(scene.status()).toMatchObject({ state: 'running', generations: 1 });
    expect(scene.ordered('prepare')).toEqual([]);
  });

  it('a silent executor is lost when it does not reconnect', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.say({ type: 'stream-lost', containerId: 'c2' });
    scene.silent.add('c2');
    scene.wait(10_500);
    expect(scene.ordered('stop-container')).toEqual(['c2']);
  });

  it('a silent executor is not lost after the ApplicationMaster itself was suspended', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.now += 60_000;
    scene.say({ type: 'tick' });
    scene.wait(20_000);
    expect(scene.task('worker:0').failures + scene.task('worker:1').failures).toBe(0);
  });

  it('a silent executor receives the start order again when the order was lost with the stream', () => {
    const scene = new JobScenario(twoWorkers);
    scene.register();
    scene.allocate('worker');
    scene.allocate('worker');
    scene.hello('c1');
    scene.hello('c2');
    scene.say({ type: 'stream-lost', containerId: 'c1' });
    scene.hello('c1');
    expect(scene.ordered('start')).toEqual(['c1', 'c2', 'c1']);
    expect(scene.of('start')[2]?.members).toEqual(scene.of('start')[0]?.members);
  });

  it('a silent executor receives the prepare order again when the order was lost with the stream', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 1);
    scene.say({ type: 'stream-lost', containerId: 'c1' });
    scene.hello('c1', { generation: 1, phase: 'running' });
    expect(scene.of('prepare').map(({ containerId, generation }) => `${containerId} ${generation}`)).toEqual(['c1 2', 'c1 2']);
  });

  it('a silent executor is lost when it sends heartbeats but does not answer an order', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 1);
    scene.wait(31_000);
    expect(scene.ordered('stop-container')).toContain('c1');
    expect(scene.failure('worker:0')).toBe('its executor on h1:1 did not respond within 30 s to the order to prepare its program');
  });

  it('a silent executor blocks an unranked successor until its lease has ended, because two evaluators must not write the same files', () => {
    const scene = JobScenario.running(withEvaluator);
    const first = scene.container('evaluator:0');
    scene.silent.add(first);
    scene.wait(10_500);
    scene.serve();
    const second = scene.container('evaluator:0');
    expect(scene.ordered('start')).not.toContain(second);
    // A lost node does not prove that its processes have ended.
    scene.end(first, 'node-lost');
    expect(scene.ordered('start')).not.toContain(second);
    scene.wait(155_000);
    expect(scene.ordered('start')).toContain(second);
    expect(scene.status()).toMatchObject({ generations: 1 });
  });
});

describe('containers that the cluster gives up', () => {
  const beat = (scene: JobScenario, containerId: string) =>
    scene.say({ type: 'heartbeat', containerId, generation: 1, usage: null, progress: null });

  function lost(end: 'node-lost' | 'preempted'): { scene: JobScenario; first: string; second: string } {
    const scene = JobScenario.running(withEvaluator);
    const first = scene.container('evaluator:0');
    scene.end(first, end);
    scene.serve();
    return { scene, first, second: scene.container('evaluator:0') };
  }

  it.each(['node-lost', 'preempted'] as const)(
    'a container that the cluster gives up is ordered to stop immediately; its replacement starts when it has left (%s)',
    (end) => {
      const { scene, first, second } = lost(end);
      expect(scene.of('stop-program')).toMatchObject([{ containerId: first, atOnce: true }]);
      expect(scene.ordered('start')).not.toContain(second);
      scene.exit(first, -1, { signal: 'SIGKILL' });
      expect(scene.ordered('start')).not.toContain(second);
      scene.say({ type: 'left', containerId: first });
      expect(scene.ordered('start')).toContain(second);
      expect(scene.task('evaluator:0').failures).toBe(0);
    },
  );

  it('a container that the cluster gives up appears in the status as the reason why its replacement waits', () => {
    const { scene, first } = lost('node-lost');
    expect(scene.status()).toMatchObject({
      state: 'running',
      message: 'evaluator:0 waits until its previous program on h3:1 has ended; the previous executor has been ordered to stop.',
      predecessorsEndInMs: null,
    });
    scene.say({ type: 'stream-lost', containerId: first });
    scene.wait(60_000);
    expect(scene.status()).toMatchObject({
      message: 'evaluator:0 waits until its previous program on h3:1 has ended; the previous executor is not reachable.',
      predecessorsEndInMs: 100_000,
    });
    expect(jobMessage(scene.status())).toMatch(/ not reachable\. The unreachable executors end their programs within 1 min 40 s\.$/);
  });

  it('a container that the cluster gives up blocks its replacement while it sends heartbeats, and receives the stop order again', () => {
    const { scene, first, second } = lost('node-lost');
    for (let minute = 0; minute < 5; minute++) {
      scene.wait(60_000);
      beat(scene, first);
    }
    expect(scene.ordered('start')).not.toContain(second);
    expect(scene.ordered('stop-program').filter((id) => id === first).length).toBeGreaterThan(5);
    scene.say({ type: 'stream-lost', containerId: first });
    scene.wait(110_000);
    expect(scene.ordered('start')).not.toContain(second);
    scene.wait(55_000);
    expect(scene.ordered('start')).toContain(second);
  });

  it('a container that the cluster gives up counts as ended when it was preempted and its stream closes, or after a short wait', () => {
    const ended = lost('preempted');
    ended.scene.say({ type: 'stream-lost', containerId: ended.first });
    expect(ended.scene.ordered('start')).toContain(ended.second);
    const silent = lost('preempted');
    silent.scene.wait(10_500);
    expect(silent.scene.ordered('start')).toContain(silent.second);
  });

  it('a container that the cluster gives up does not delay a ranked task, because the new generation rejects the old program', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.end('c2', 'node-lost');
    expect(scene.of('stop-program')).toMatchObject([{ containerId: 'c2', atOnce: true }]);
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
  });

  it('a container that the cluster gives up is ordered to stop even if its program has not been started yet', () => {
    const scene = new JobScenario(twoWorkers);
    scene.register();
    const id = scene.allocate('worker');
    scene.hello(id);
    scene.end(id, 'node-lost');
    expect(scene.ordered('stop-program')).toEqual([id]);
  });

  it('a container that the cluster gives up may still be running when the ResourceManager reports that it was released', () => {
    const scene = JobScenario.running(withEvaluator);
    const first = scene.container('evaluator:0');
    scene.silent.add(first);
    scene.wait(10_500);
    scene.serve();
    const second = scene.container('evaluator:0');
    scene.end(first, 'released');
    expect(scene.ordered('start')).not.toContain(second);
    scene.hello(first, { role: 'evaluator', generation: 1, phase: 'running' });
    scene.say({ type: 'left', containerId: first });
    expect(scene.ordered('start')).toContain(second);
  });

  it('the status shows the remaining lease of a container that the cluster gives up until its executor has left or the lease has ended', () => {
    const { scene, first } = lost('node-lost');
    const orphan = { role: 'evaluator', index: 0, containerId: first, node: 'h3:1', attached: true };
    expect(scene.status().orphanedContainers).toEqual([{ ...orphan, mayRunForMs: 160_000 }]);
    scene.say({ type: 'stream-lost', containerId: first });
    scene.wait(60_000);
    expect(scene.status().orphanedContainers).toEqual([{ ...orphan, attached: false, mayRunForMs: 100_000 }]);
    scene.wait(100_000);
    expect(scene.status().orphanedContainers).toEqual([]);

    const other = lost('node-lost');
    other.scene.say({ type: 'left', containerId: other.first });
    expect(other.scene.status().orphanedContainers).toEqual([]);
    expect(lost('preempted').scene.status().orphanedContainers).toEqual([]);
  });

  it('a container that the cluster gives up is saved for the next attempt, because the ResourceManager does not report it again', () => {
    const { scene, first } = lost('node-lost');
    scene.say({ type: 'stream-lost', containerId: first });
    const next = new JobScenario(withEvaluator, 2, scene.snapshot);
    expect(next.status().orphanedContainers).toMatchObject([{ containerId: first, node: 'h3:1', attached: false }]);
  });

  it('a container that the cluster gives up is ordered to stop when it sends a heartbeat after the job has forgotten it', () => {
    const { scene, first } = lost('node-lost');
    scene.say({ type: 'stream-lost', containerId: first });
    scene.wait(400_000);
    const orders = scene.ordered('stop-program').length;
    beat(scene, first);
    expect(scene.ordered('stop-program').slice(orders)).toEqual([first]);
  });
});

describe('lost nodes', () => {
  const lostIn = (actions: readonly Action[]) =>
    actions.flatMap((action) => (action.type === 'record' && action.entry.type === 'node-lost' ? [action.entry] : []));
  const lose = (scene: JobScenario, containerId: string) =>
    lostIn(scene.say({ type: 'container-ended', containerId, end: 'node-lost', exitStatus: -100, diagnostics: '' }));

  it('a lost node is recorded once for all of its containers, and again only after the job has used it again', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 3 })] }));
    scene.register();
    for (const node of ['h1:1', 'h2:1', 'h2:1']) {
      scene.hello(scene.allocate('worker', node));
    }
    scene.serve();
    const [, second = '', third = ''] = scene.state.tasks.map(({ container }) => container?.id);
    const entry = { at: scene.now, type: 'node-lost', node: 'h2:1', message: 'it ran 2 tasks of the job' };
    expect(lose(scene, second)).toEqual([entry]);
    expect(lose(scene, third)).toEqual([]);
    const again = scene.allocate('worker', 'h2:1');
    expect(lose(scene, again)).toEqual([{ ...entry, message: 'it ran 1 task of the job' }]);
  });

  it('a lost node is also recorded when its only container was already ordered to stop', () => {
    const scene = JobScenario.running(withEvaluator);
    const first = scene.container('evaluator:0');
    scene.silent.add(first);
    scene.wait(10_500);
    expect(lose(scene, first)).toMatchObject([{ node: 'h3:1', message: 'it ran only containers that were ordered to stop' }]);
    expect(lose(scene, 'c99')).toEqual([]);
  });
});

describe('failing programs', () => {
  it('a failing program restarts while restarts remain; then the job fails and reports its last and its first failure', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ restart: { policy: 'on-failure', maxRestarts: 2 } })] }));
    for (const stderr of ['Error: out of cheese', 'Error: second', 'Error: third']) {
      expect(scene.status().state).toBe('running');
      scene.exit(scene.container('worker:1'), 3, { stderr: `noise\n${stderr}\n` });
      scene.wait(1_000);
      scene.serve();
    }
    expect(scene.status()).toMatchObject({ state: 'failed', generations: 3, failedTask: { role: 'worker', index: 1 } });
    expect(scene.task('worker:1')).toMatchObject({ state: 'failed', failures: 3, exit: { code: 3, signal: null } });
    scene.wait(6_000);
    expect(scene.result?.message).toBe(
      [
        'worker:1 failed 3 times, but only 2 restarts are allowed: its program on h3:1 exited with code 3.',
        'Last lines of its stderr:',
        'noise',
        'Error: third',
        "The job's first failure: worker:1: its program on h2:1 exited with code 3",
        'Last lines of its stderr:',
        'noise',
        'Error: out of cheese',
      ].join('\n'),
    );
  });

  it('the lines of a first failure that ended with the same error are not repeated', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ restart: { policy: 'on-failure', maxRestarts: 1 } })] }));
    for (const index of [0, 1]) {
      scene.exit(scene.container(`worker:${index}`), 1, { stderr: `rank ${index}\nKeyError: 'rate'\n` });
      scene.serve();
    }
    scene.wait(6_000);
    expect(scene.result?.message.split('\n')).toEqual([
      'worker:1 failed after 1 restart without a new checkpoint: its program on h2:1 exited with code 1.',
      'Last lines of its stderr:',
      'rank 1',
      "KeyError: 'rate'",
      "The job's first failure: worker:0 on h1:1, with the same error",
    ]);
  });

  it('repeated failures without a new checkpoint fail the job, even if a different worker fails each time', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ instances: 8, restart: { policy: 'on-failure', maxRestarts: 2 } })] }));
    for (const index of [3, 5, 1]) {
      expect(scene.status().state).toBe('running');
      scene.exit(scene.container(`worker:${index}`), 3);
      scene.serve();
    }
    expect(scene.status()).toMatchObject({ state: 'failed', generations: 3 });
    expect(scene.status().message).toMatch(/^worker:1 failed after 2 restarts without a new checkpoint: its program on h2:1 exited/);
  });

  it('each worker may fail once if new checkpoints are written in between', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ instances: 8, restart: { policy: 'on-failure', maxRestarts: 1 } })] }));
    for (const index of [1, 2, 3, 4, 5, 6, 7]) {
      const progress = {
        step: index,
        metrics: {},
        checkpointStep: index * 100,
        lostRank: null,
        notices: [],
        earlyEnd: null,
        ending: false,
      };
      scene.say({ type: 'heartbeat', containerId: scene.container('worker:0'), generation: index, usage: null, progress });
      scene.exit(scene.container(`worker:${index}`), 3);
      scene.serve();
    }
    expect(scene.status()).toMatchObject({ state: 'running', generations: 8, checkpointStep: 700 });
  });

  it('a failing program fails the job immediately if the restart policy is never', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ restart: { policy: 'never', maxRestarts: 3 } })] }));
    scene.exit('c1', 1, { stderr: 'TypeError: x is not a function' });
    expect(scene.status()).toMatchObject({
      state: 'failed',
      message:
        'worker:0 failed, and its role allows no restart: its program on h1:1 exited with code 1.\nLast lines of its stderr:\nTypeError: x is not a function',
    });
  });

  it('an error that a restart would repeat fails the job immediately, unless onExitCodes lists exit codes', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 1, { stderr: 'TonyError: epochs is 0', permanent: true });
    expect(scene.status()).toMatchObject({
      state: 'failed',
      message:
        'worker:1 failed with an error that a restart would repeat: its program on h2:1 exited with code 1.\nLast lines of its stderr:\nTonyError: epochs is 0',
    });
    const own = JobScenario.running(frozen({ roles: [workers({ restart: { onExitCodes: [1] } })] }));
    own.exit('c2', 1, { permanent: true });
    own.serve();
    expect(own.status()).toMatchObject({ state: 'running', generations: 2 });
  });

  const requirements = { type: 'requirements', file: '/job/requirements.txt', version: null, platform: null } as const;
  const archive = { type: 'archive', path: 'hdfs://nn/torch.tar.gz' } as const;
  const local = { cluster: { kind: 'local', directory: '/jobs' } } as const;
  it.each([
    [{ python: requirements }, {}, "The node's own packages are not visible to this job"],
    [{ python: archive }, {}, 'add it to the environment that python.archive names'],
    [{}, {}, 'list it in python.requirements, or name another Python (docs/frameworks.md#python-on-the-nodes)'],
    [{}, { docker: { image: 'a', mounts: [], network: null } }, 'add it to the image that roles.worker.docker names'],
    [local, {}, 'activate a virtual environment that has it before you submit the job'],
  ] as const)('a missing Python module fails the job with the advice where to add it: %j %j', (job, role, advice) => {
    const { cluster, ...keys }: { cluster?: (typeof local)['cluster']; python?: PythonEnvironment } = job;
    const given = frozen({ ...keys, roles: [workers(role)] });
    const scene = JobScenario.running(cluster === undefined ? given : { ...given, cluster });
    scene.exit('c2', 1, { stderr: "ModuleNotFoundError: No module named 'torch'", permanent: true });
    expect(scene.status().message).toContain(advice);
  });

  it('another error of Python gets no advice about modules', () => {
    const scene = JobScenario.running(frozen({ roles: [workers()] }));
    scene.exit('c2', 1, { stderr: 'SyntaxError: invalid syntax', permanent: true });
    expect(scene.status().message).not.toContain('module');
  });

  it('a failing program restarts alone when it has no rank', () => {
    const scene = JobScenario.running(withEvaluator);
    scene.exit(scene.container('evaluator:0'), 1);
    scene.end('c3', 'stopped-by-master');
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 1 });
    expect(scene.ordered('prepare')).toEqual([]);
    expect(scene.task('evaluator:0')).toMatchObject({ attempts: 2, failures: 1, state: 'running' });
  });

  it('a failing program is charged once when its peers fail as a consequence, before or after its own report', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ instances: 4 })] }));
    scene.exit('c2', -1, { signal: 'SIGKILL' });
    // The peers send these reports before they receive the order to prepare.
    scene.exit('c1', 1);
    scene.end('c3', 'exited', 1);
    scene.silent.add('c4');
    scene.wait(10_500);
    scene.serve();
    expect(scene.status().tasks.map(({ failures }) => failures)).toEqual([0, 1, 0, 0]);
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
  });

  it('a failing program does not prevent a charge for the failure of another worker in the next generation', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit(scene.container('worker:0'), 3);
    scene.serve();
    scene.exit(scene.container('worker:1'), 3);
    expect(scene.status().tasks.map(({ failures }) => failures)).toEqual([1, 1]);
  });

  it('a failing program does not prevent a charge for the failure of a container outside its generation', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 3);
    scene.end(scene.allocate('worker'), 'exited', 127);
    expect(scene.task('worker:1').failures).toBe(2);
    expect(scene.failure('worker:1')).toBe('its container on h1:1 ended with exit status 127');
  });

  it('a failing program is not charged for an exit from an older generation', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 1);
    scene.serve();
    scene.exit('c1', 1, { generation: 1 });
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
    expect(scene.task('worker:0').failures).toBe(0);
  });

  it('a failing program makes succeeded workers run again, because the new gang needs them', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c1', 0);
    // The status keeps the container and the node of a task that is over, also after the container has been released.
    expect(scene.state.tasks[0]?.container).toBeNull();
    expect(scene.task('worker:0')).toMatchObject({ state: 'succeeded', containerId: 'c1', node: expect.any(String) });
    scene.exit('c2', 1);
    expect(scene.wanted('worker')).toBe(2);
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
    scene.exit(scene.container('worker:0'), 0);
    scene.exit(scene.container('worker:1'), 0);
    expect(scene.status().state).toBe('succeeded');
  });

  it('the executor of a succeeded program keeps running until the success is stored', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.storageAway = true;
    scene.exit('c1', 0);
    scene.silent.add('c1');
    scene.wait(5_000);
    expect(scene.ordered('stop-program')).toEqual([]);
    scene.wait(6_000);
    expect(scene.ordered('prepare')).toEqual([]);
    expect(scene.task('worker:0')).toMatchObject({ state: 'succeeded', failures: 0 });
  });

  it('the failure of a sidecar never fails the job', () => {
    const scene = JobScenario.running(
      frozen({ roles: [workers(), role({ name: 'tensorboard', kind: 'sidecar', restart: { policy: 'on-failure', maxRestarts: 1 } })] }),
    );
    for (let n = 0; n < 2; n++) {
      scene.exit(scene.container('tensorboard:0'), 1);
      for (const id of scene.ordered('stop-container')) {
        scene.end(id, 'stopped-by-master');
      }
      scene.serve();
    }
    expect(scene.task('tensorboard:0')).toMatchObject({ state: 'failed', failures: 2 });
    expect(scene.status().state).toBe('running');
    expect(scene.wanted('tensorboard')).toBe(0);
  });

  it('an untracked program fails the job when it has used up its restarts', () => {
    const scene = JobScenario.running(
      frozen({ roles: [workers(), role({ name: 'ps', kind: 'service', restart: { policy: 'on-failure', maxRestarts: 0 } })] }),
    );
    scene.exit(scene.container('ps:0'), 1);
    expect(scene.status().state).toBe('failed');
  });

  it('a program counts as failed if a signal has stopped it for too long', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.freeze('c1');
    scene.wait(12_000);
    expect(scene.ordered('stop-container')).toEqual(['c1']);
    expect(scene.failure('worker:0')).toContain('was stopped by a signal for');
  });
});

describe('programs that lose a peer', () => {
  it('a program that loses a peer waits for the failure that explains the loss, and is not charged', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.lostPeer('c1', 1);
    expect(scene.history.at(-1)).toBe('peer-lost worker:1');
    scene.exit('c1', 1, { stderr: 'lost rank 1' });
    expect(scene.status()).toMatchObject({ state: 'running', generations: 1 });
    scene.silent.add('c2');
    scene.wait(10_500);
    expect(scene.status().tasks.map(({ failures }) => failures)).toEqual([0, 1]);
    // The executor is still running, so the next generation continues in the same container.
    scene.serve();
    expect(scene.task('worker:0')).toMatchObject({ attempts: 1, state: 'running' });
  });

  it('the peer that most reports name is charged when no other failure appears', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ instances: 3 })] }));
    scene.lostPeer('c1', 1);
    scene.lostPeer('c3', 1);
    scene.lostPeer('c2', 0);
    scene.wait(11_500);
    expect(scene.status().tasks.map(({ failures }) => failures)).toEqual([0, 1, 0]);
    expect(scene.failure('worker:1')).toBe('its program on h2:1 no longer answers its peers (reported by worker:0)');
    expect(scene.ordered('prepare').sort()).toEqual(['c1', 'c3']);
  });

  it('a program that loses a peer is charged itself if its peer has succeeded', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 0);
    scene.lostPeer('c1', 1);
    scene.wait(12_000);
    expect(scene.status().tasks.map(({ failures }) => failures)).toEqual([1, 0]);
  });
});

describe('container losses that the cluster causes', () => {
  it.each(['preempted', 'node-lost', 'disks-failed', 'expired', 'stopped-by-master'] as const)(
    'a container loss that the cluster causes costs no restart: %s',
    (end) => {
      const scene = JobScenario.running(frozen({ roles: [workers({ restart: { policy: 'on-failure', maxRestarts: 0 } })] }));
      scene.end('c1', end);
      scene.serve();
      expect(scene.task('worker:0')).toMatchObject({ failures: 0, attempts: 2, state: 'running' });
      expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
    },
  );

  it.each([
    [-1, 'SIGTERM'],
    [143, ''],
  ])('the charge for a signal (exit code %i) is refunded when the cluster reports that it ended the container', (code, signal) => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c1', code, { signal });
    expect(scene.task('worker:0').failures).toBe(1);
    scene.end('c1', 'preempted', -102);
    expect(scene.task('worker:0').failures).toBe(0);
    expect(scene.failure('worker:0')).toBe('its container was preempted for another application');
  });

  it('a task that the job has given up takes the state of the corrected cause', () => {
    const never = { policy: 'never', maxRestarts: 0 } as const;
    const job = frozen({
      successPolicy: 'chief',
      roles: [workers({ instances: 1 }), role({ name: 'helper', kind: 'independent', restart: never })],
    });
    const givenUp = (silence: boolean): JobScenario => {
      const scene = JobScenario.running(job);
      if (silence) {
        scene.silent.add(scene.container('helper:0'));
        scene.wait(12_000);
      } else {
        scene.exit(scene.container('helper:0'), -1, { signal: 'SIGTERM' });
        scene.wait(LIMITS.truthMs + 500);
      }
      return scene;
    };
    const silent = givenUp(true);
    expect(silent.task('helper:0').state).toBe('lost');
    silent.end('c2', 'memory-exceeded', -104);
    expect(silent.task('helper:0')).toMatchObject({ state: 'failed', failure: { cause: { end: 'memory-exceeded' } } });
    const killed = givenUp(false);
    expect(killed.task('helper:0').state).toBe('failed');
    killed.end('c2', 'preempted', -102);
    expect(killed.task('helper:0')).toMatchObject({ state: 'lost', failure: { cause: { end: 'preempted' } } });
  });

  it('a late cause of an earlier failure does not replace the newest failure', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ instances: 1 })] }));
    scene.exit('c1', -1, { signal: 'SIGTERM' });
    scene.serve();
    scene.wait(1_000);
    scene.exit('c2', 3);
    scene.end('c1', 'preempted', -102);
    expect(scene.task('worker:0')).toMatchObject({ failures: 1, failure: { cause: { kind: 'program', exit: { code: 3 } } } });
  });

  it('a report from the cluster explains a death by a signal if it arrives shortly afterwards, before the job fails', () => {
    const job = frozen({ roles: [workers({ restart: { policy: 'on-failure', maxRestarts: 0 } })] });
    const preempted = JobScenario.running(job);
    preempted.exit('c1', -1, { signal: 'SIGTERM' });
    expect(preempted.status().state).toBe('running');
    preempted.end('c1', 'preempted', -102);
    preempted.serve();
    expect(preempted.status().state).toBe('running');

    const overdrawn = JobScenario.running(job);
    overdrawn.exit('c1', -1, { signal: 'SIGKILL' });
    overdrawn.end('c1', 'memory-exceeded', -104);
    expect(overdrawn.status().message).toContain('was killed for using more than its 1 GiB of memory; raise roles.worker.resources.memory');

    // The cluster ended the executor, too. The job may detect the silence before it receives the cluster's report.
    const hasty = JobScenario.running(frozen({ ...job.job, heartbeat: { intervalMs: 300, missed: 6 } }));
    hasty.silent.add('c1');
    hasty.exit('c1', -1, { signal: 'SIGKILL' });
    hasty.wait(2_500);
    hasty.end('c1', 'memory-exceeded', -104);
    expect(hasty.status().message).toContain('was killed for using more than its 1 GiB of memory');

    const killed = JobScenario.running(job);
    killed.exit('c1', -1, { signal: 'SIGKILL' });
    killed.wait(LIMITS.truthMs + 500);
    expect(killed.status().message).toContain('was killed by SIGKILL');
  });

  it('a container that exceeds its memory is charged', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.end('c2', 'memory-exceeded', -104);
    expect(scene.task('worker:1').failures).toBe(1);
  });

  it.each(['memory', 'time'])('a task that ends by its %s limit has failed, and its status names the node', (limit) => {
    const restart = { policy: 'never', maxRestarts: 0 } as const;
    const scene = JobScenario.running(frozen({ roles: [workers({ restart, timeoutMs: 5_000 })] }));
    const nodes = [0, 1].map((index) => scene.task(`worker:${index}`).node);
    if (limit === 'memory') {
      scene.end('c2', 'memory-exceeded', -104);
    }
    scene.wait(6_000);
    const { state, failedTask } = scene.status();
    expect(state).toBe('failed');
    const index = failedTask?.index ?? -1;
    expect(scene.task(`worker:${index}`)).toMatchObject({ state: 'failed', node: nodes[index] });
  });
});

describe('incomplete gangs', () => {
  it('an incomplete gang returns its containers soon after the cluster has stopped allocating more, and finally fails the job', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 3 })] }));
    scene.register();
    scene.hello(scene.allocate('worker'));
    scene.wait(8_000);
    scene.allocate('worker', 'h2:1');
    scene.wait(9_500);
    expect(scene.status()).toMatchObject({ state: 'waiting', waitingMs: 17_500 });
    expect(jobMessage(scene.status())).toMatch(/^Waiting for 18 s\. worker:2 got no container \(.*\)\. worker:1 is starting\.$/);
    scene.wait(1_000);
    expect(scene.history.filter((line) => line.startsWith('gang'))).toEqual([
      'gang-returned worker:1 did not report from h2:1 after the container started (see: tony-ts logs application_1_0001 worker:1). ' +
        'worker:2 got no container (each requests 1 GiB of memory, 1 vcore; queue root.default has too little room left: 512 MiB of memory, 0 vcores).',
    ]);
    expect(scene.ordered('stop-container').sort()).toEqual(['c1', 'c2']);
    expect(scene.wanted('worker')).toBe(0);
    expect(scene.status().message).toMatch(/ The job leaves the room to others, and requests all containers again in \d+ s or when enough/);
    scene.wait(16_000);
    expect(scene.wanted('worker')).toBe(3);
    scene.wait(180_000);
    expect(scene.result).toMatchObject({ state: 'failed' });
    expect(scene.result?.message).toMatch(/^The gang was not complete within 1 min, 3 times in a row. worker:0-2 got no/);
  });

  it('a container that the gang returns before its program started is no restart', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 3 })] }));
    scene.register();
    scene.hello(scene.allocate('worker'));
    scene.wait(20_000);
    expect(scene.ordered('stop-container')).toEqual(['c1']);
    scene.wait(60_000);
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 1 });
    expect(scene.task('worker:0')).toMatchObject({ attempts: 2, programStarts: 1 });
    scene.exit(scene.container('worker:1'), 3);
    scene.serve();
    expect(scene.status().tasks.map(restartsOf)).toEqual([1, 1, 1]);
  });

  it('says that the room left is too small for the whole gang, although one more container would fit', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 3 })] }));
    scene.register();
    scene.say({ type: 'cluster', nodes: 3, headroom: { 'memory-mb': 2_048, vcores: 8 } });
    scene.wait(9_000);
    expect(jobMessage(scene.status())).toContain(
      'worker:0-2 got no container (each requests 1 GiB of memory, 1 vcore; ' +
        'queue root.default has too little room left for all tasks that start together: 2 GiB of memory)',
    );
  });

  it('a gang whose containers have all started keeps them until its timeout', () => {
    const scene = new JobScenario(twoWorkers);
    scene.register();
    scene.hello(scene.allocate('worker'));
    scene.allocate('worker', 'h2:1');
    scene.wait(59_000);
    expect(scene.ordered('stop-container')).toEqual([]);
    scene.wait(1_500);
    expect(scene.history.find((line) => line.startsWith('gang-timeout'))).toContain('worker:1 did not report from h2:1');
    expect(scene.ordered('stop-container').sort()).toEqual(['c1', 'c2']);
  });

  it('a gang keeps its containers while it gets more, and while it avoids nodes', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 9 })] }));
    scene.register();
    for (let n = 0; n < 7; n++) {
      scene.hello(scene.allocate('worker'));
      scene.wait(8_000);
    }
    expect(scene.ordered('stop-container')).toEqual([]);
    const choosy = new JobScenario(twoWorkers);
    choosy.register();
    choosy.say({ type: 'cluster', nodes: 3, headroom: { 'memory-mb': 8192, vcores: 8 } });
    choosy.hello(choosy.allocate('worker', 'h1:1'));
    for (let n = 0; n < 2; n++) {
      choosy.say({ type: 'launch-failed', containerId: choosy.allocate('worker', 'h2:1'), message: 'disk full' });
    }
    choosy.wait(25_000);
    expect(choosy.ordered('stop-container')).toEqual([]);
    expect(choosy.status().message).toContain('the job does not use h2:1 for now, because role worker failed there repeatedly');
  });

  it('a gang of one task keeps its request open', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 1 })] }));
    scene.register();
    scene.wait(59_000);
    expect(scene.of('ask')).toMatchObject([{ count: 1 }]);
  });

  it('a gang that waits requests its containers before its pause ends once the queue has enough room', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 2 })], gang: { timeoutMs: 3_600_000 } }));
    scene.register();
    const pauses = (): number => {
      const from = scene.now;
      while (scene.wanted('worker') === 0 && scene.now - from < 300_000) {
        scene.wait(500);
      }
      return scene.now - from;
    };
    const holds = (): number => {
      const from = scene.now;
      while (scene.wanted('worker') > 0 && scene.now - from < 300_000) {
        scene.wait(500);
      }
      return scene.now - from;
    };
    const rounds = Array.from({ length: 8 }, () => ({ hold: holds(), pause: pauses() }));
    expect(Math.max(...rounds.map(({ hold }) => hold))).toBeLessThanOrEqual(LIMITS.longestHoldMs + 1_000);
    // Each pause is at least half of its nominal length, which doubles.
    for (const [at, { pause }] of rounds.entries()) {
      expect(pause).toBeGreaterThanOrEqual(Math.min(LIMITS.longestReturnedMs, LIMITS.returnedMs * 2 ** at) / 2);
    }
    holds();
    scene.say({ type: 'cluster', nodes: 3, headroom: { 'memory-mb': 2048, vcores: 1 } });
    scene.wait(LIMITS.longestReturnedMs / 4);
    expect(scene.wanted('worker')).toBe(0);
    scene.say({ type: 'cluster', nodes: 3, headroom: { 'memory-mb': 2048, vcores: 2 } });
    expect(pauses()).toBeLessThanOrEqual((LIMITS.longestReturnedMs * 3) / 4 - LIMITS.longestReturnedMs / 4 + 1_000);
  });

  it('the number of timed-out rounds is reset after the gang has run', () => {
    const scene = new JobScenario(twoWorkers);
    scene.register();
    scene.wait(150_000);
    scene.serve();
    expect(scene.status().state).toBe('running');
    scene.end('c1', 'preempted');
    scene.wait(70_000);
    expect(scene.status().state).toBe('recovering');
  });

  it('each unranked task has a separate deadline', () => {
    const scene = new JobScenario(frozen({ framework: 'none', roles: [role({ name: 'worker', instances: 2, chief: true })] }));
    scene.register();
    const first = scene.allocate('worker');
    scene.hello(first);
    scene.started(first, 1);
    expect(scene.status().state).toBe('starting');
    scene.wait(30_000);
    expect(scene.status().state).toBe('waiting');
    scene.wait(155_000);
    expect(scene.ordered('release')).toEqual([]);
    expect(scene.status()).toMatchObject({ state: 'failed', failedTask: null });
    expect(scene.status().message).toMatch(/^worker:1 was not ready within 1 min, 3 times in a row. worker:1 got no container/);
  });

  it("a job fails immediately when a request exceeds the cluster's maximum, and suggests a remedy", () => {
    const ask = (resources: Partial<ReturnType<typeof role>['resources']>) => {
      const scene = new JobScenario(
        frozen({ roles: [workers({ resources: { memoryMb: 1024, vcores: 1, gpus: 0, other: {}, ...resources } })] }),
      );
      scene.register();
      return scene.result?.message;
    };
    expect(ask({ memoryMb: 65_536 })).toBe(
      "Role worker requests containers with 64 GiB of memory, but the cluster's largest container has 8 GiB of memory. " +
        'Lower roles.worker.resources.memory, or ask the cluster admin for a larger maximum.',
    );
    expect(ask({ gpus: 5 })).toContain(
      "requests containers with 5 yarn.io/gpu, but the cluster's largest container has 4 yarn.io/gpu. Lower roles.worker.resources.gpus",
    );
    expect(ask({ other: { 'yarn.io/fpga': 1 } })).toBe(
      'Role worker requests 1 yarn.io/fpga, a resource type that this cluster does not have (it has memory-mb, vcores, yarn.io/gpu). ' +
        'Remove roles.worker.resources.yarn.io/fpga, or ask the cluster admin to set up yarn.io/fpga.',
    );
    expect(ask({ gpus: 4 })).toBeUndefined();
  });

  it('the job fails immediately for an unknown node label at the start, but not later while nodes are unavailable', () => {
    const job = frozen({ roles: [workers({ nodeLabel: 'gpus' })] });
    const message = 'InvalidLabelResourceRequestException: cluster does not contain label gpus';
    const scene = new JobScenario(job);
    scene.register();
    scene.say({ type: 'ask-refused', role: 'worker', message });
    expect(scene.result?.message).toContain(message);
    expect(scene.result?.message).toContain('Check roles.worker.nodeLabel (gpus)');

    const later = JobScenario.running(job);
    later.end('c1', 'node-lost');
    later.say({ type: 'ask-refused', role: 'worker', message });
    expect(later.status().state).toBe('recovering');
    later.ready('c2', 2);
    later.wait(61_000);
    expect(later.history.join('\n')).toContain(`worker:0 got no container, because the ResourceManager rejects the request: ${message}`);
  });
});

describe('failures on one node', () => {
  it('a node on which a role fails is excluded after two failures, and allowed again when no other node is available', () => {
    const scene = new JobScenario(twoWorkers);
    scene.register();
    scene.hello(scene.allocate('worker', 'h1:1'));
    for (let n = 0; n < 2; n++) {
      expect(scene.of('ask').at(-1)?.excludedNodes).toEqual([]);
      scene.say({ type: 'launch-failed', containerId: scene.allocate('worker', 'h2:1'), message: 'disk full' });
    }
    expect(scene.ordered('release')).toHaveLength(2);
    expect(scene.of('ask').at(-1)).toMatchObject({ count: 1, excludedNodes: ['h2:1'] });
    const asks = scene.of('ask').length;
    const unlucky = scene.allocate('worker', 'h2:1');
    expect(scene.ordered('release')).toContain(unlucky);
    expect(scene.of('ask').slice(asks)).toMatchObject([{ count: 1, excludedNodes: ['h2:1'] }]);
    scene.wait(31_000);
    expect(scene.of('ask').at(-1)).toMatchObject({ count: 1, excludedNodes: [] });
  });

  it('a node on which a role fails is not excluded when it is the only node', () => {
    const scene = new JobScenario(twoWorkers);
    scene.register();
    scene.say({ type: 'cluster', nodes: 1, headroom: {} });
    for (let n = 0; n < 4; n++) {
      scene.say({ type: 'launch-failed', containerId: scene.allocate('worker', 'h1:1'), message: 'busy' });
      scene.wait(2_000);
    }
    expect(scene.of('ask').flatMap(({ excludedNodes }) => excludedNodes)).toEqual([]);
  });

  it('a job fails immediately when one of its files was modified, because no later container could start', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 1 })] }));
    scene.register();
    scene.say({
      ...{ type: 'container-ended', containerId: scene.allocate('worker', 'h1:1'), end: 'launch-failed', exitStatus: -1000 },
      diagnostics: 'The container could not be launched: Resource hdfs://nn/a changed on src filesystem - expected: "1", was: "2"',
    });
    expect(scene.result?.message).toMatch(
      /^worker:0 cannot be started: its container on h1:1 could not be started: hdfs:\/\/nn\/a was modified after the submission/,
    );
  });

  it('a job fails when the same archive cannot be unpacked twice, but not for a cause that may pass', () => {
    const launch = (text: string): JobScenario => {
      const scene = new JobScenario(frozen({ roles: [workers({ instances: 1 })] }));
      scene.register();
      for (const node of ['h1:1', 'h2:1']) {
        scene.wait(2_000);
        const diagnostics = `The container could not be launched: ${text}`;
        scene.end(scene.allocate('worker', node), 'launch-failed', -1000, diagnostics);
      }
      return scene;
    };
    const malformed = 'java.nio.file.InvalidPathException: Malformed input or input contains unmappable characters: /nm/filecache/1/a';
    expect(launch(malformed).result?.message).toMatch(
      /^worker:0 cannot be started, because localisation failed twice in the same way: its container on h2:1 could not be started: .*InvalidPathException.*\. A NodeManager reports this if it cannot unpack an archive because of file names outside ASCII\. Rename these files/,
    );
    expect(launch('gzip: stdin: not in gzip format').result?.state).toBe('failed');
    expect(launch('java.net.ConnectException: Connection refused').result).toBeNull();
  });

  it('a job fails with the reason when its containers never start', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 1 })], gang: { timeoutMs: 3_600_000 } }));
    scene.register();
    for (let n = 0; n < 10; n++) {
      scene.wait(31_000);
      scene.say({ type: 'launch-failed', containerId: scene.allocate('worker', `h${n}:1`), message: 'Image not found' });
    }
    expect(scene.result?.message).toContain(
      'worker:0 could not be started 10 times in a row: its container on h9:1 could not be started: Image not found',
    );
  });
});

describe('early ends of training', () => {
  const ends = (scene: JobScenario, generation: number) => {
    const progress = {
      step: 40,
      metrics: {},
      checkpointStep: 0,
      lostRank: null,
      notices: [],
      earlyEnd: { step: 40, reason: 'loss\nis NaN' },
      ending: false,
    };
    scene.say({ type: 'heartbeat', containerId: scene.container('worker:0'), generation, usage: null, progress });
  };

  it('an early end of training sets the final message of the job, and adds one event to its history', () => {
    const scene = JobScenario.running(twoWorkers);
    ends(scene, 1);
    ends(scene, 1);
    expect(scene.status()).toMatchObject({ state: 'running', message: '' });
    for (const id of ['c1', 'c2']) {
      scene.exit(id, 0);
    }
    expect(scene.result).toEqual({ state: 'succeeded', message: 'stopped early at step 40: loss is NaN' });
    expect(scene.status().message).toBe('stopped early at step 40: loss is NaN');
    expect(scene.history.filter((line) => line.startsWith('early-end'))).toEqual(['early-end stopped early at step 40: loss is NaN']);
  });

  it('an early end of training is forgotten in the next generation unless that generation reports it again', () => {
    const scene = JobScenario.running(twoWorkers);
    ends(scene, 1);
    scene.exit('c2', 1);
    scene.serve();
    for (const id of ['c1', scene.container('worker:1')]) {
      scene.exit(id, 0);
    }
    expect(scene.result).toEqual({ state: 'succeeded', message: '' });
  });

  it('an early end of training is also reported by a second attempt, even if the chief has already exited', () => {
    const scene = JobScenario.running(twoWorkers);
    ends(scene, 1);
    scene.exit('c1', 0);
    const next = new JobScenario(twoWorkers, 2, scene.snapshot);
    next.now = scene.now;
    next.register(scene.state.tasks.flatMap(({ container }) => (container === null ? [] : [container])));
    next.hello('c2', { generation: 1, phase: 'running' });
    next.exit('c2', 0);
    expect(next.result).toEqual({ state: 'succeeded', message: 'stopped early at step 40: loss is NaN' });
  });
});

describe('second ApplicationMaster attempts', () => {
  const resume = (scene: JobScenario, job = twoWorkers) => {
    const next = new JobScenario(job, 2, scene.snapshot);
    next.now = scene.now;
    const survivors = scene.state.tasks.flatMap(({ container }) => (container === null ? [] : [container]));
    return { next, survivors };
  };

  it('a second attempt leaves running tasks untouched', () => {
    const { next, survivors } = resume(JobScenario.running(withEvaluator), withEvaluator);
    next.register(survivors);
    expect(next.status()).toMatchObject({ state: 'recovering', masterAttempt: 2 });
    for (const id of ['c1', 'c2', 'c3']) {
      next.hello(id, { generation: 1, phase: 'running' });
    }
    expect(next.status()).toMatchObject({ state: 'running', generations: 1 });
    next.wait(300_000);
    expect(next.actions.filter(({ type }) => type !== 'persist')).toEqual([]);
    for (const id of ['c1', 'c2', 'c3']) {
      next.exit(id, 0);
    }
    expect(next.result?.state).toBe('succeeded');
  });

  it('each attempt counts the start of a program that it finds running once', () => {
    const scene = JobScenario.running(withEvaluator);
    const starts = ({ status }: JobScenario) => status.call(scene).tasks.map(({ programStarts }) => programStarts);
    expect(starts(scene)).toEqual([1, 1, 1]);
    // The snapshot is older than the starts of the first attempt, but newer than those of the second one.
    let before = scene;
    for (let attempt = 2; attempt < 5; attempt++) {
      const { next, survivors } = resume(before, withEvaluator);
      next.snapshot = before.snapshot;
      next.register(survivors);
      for (const { id } of survivors) {
        next.hello(id, { generation: 1, phase: 'running' });
      }
      expect(next.status().tasks.map(({ programStarts }) => programStarts)).toEqual([1, 1, 1]);
      next.say({ type: 'heartbeat', containerId: 'c1', generation: 1, usage: null, progress: null, clock: next.clock('c1') });
      before = next;
    }
  });

  it('counts the start of a program that could not be executed', () => {
    const scene = new JobScenario(frozen({ roles: [workers({ instances: 1 })] }));
    scene.register();
    scene.hello(scene.allocate('worker'));
    scene.exit('c1', 125, { generation: 1 });
    expect(scene.task('worker:0')).toMatchObject({ programStarts: 1, failures: 1 });
  });

  it('a second attempt processes the exits that the executors report in their Hellos', () => {
    const { next, survivors } = resume(JobScenario.running(twoWorkers));
    next.hello('c1', { generation: 1, phase: 'ended', exit: { generation: 1, code: 0, signal: '', stderrTail: '', permanent: false } });
    next.register(survivors);
    expect(next.result).toBeNull();
    next.hello('c2', { generation: 1, phase: 'ended', exit: { generation: 1, code: 0, signal: '', stderrTail: '', permanent: false } });
    expect(next.result?.state).toBe('succeeded');
  });

  it('a second attempt replaces lost tasks under an unused generation number', () => {
    const { next, survivors } = resume(JobScenario.running(twoWorkers));
    next.register(survivors.slice(0, 1));
    next.hello('c1', { generation: 1, phase: 'running' });
    next.end('c2', 'exited', 137);
    expect(next.of('prepare')).toMatchObject([{ containerId: 'c1', generation: 2 }]);
    expect(next.wanted('worker')).toBe(1);
  });

  it('a second attempt waits only a limited time for executors', () => {
    const { next, survivors } = resume(JobScenario.running(twoWorkers));
    next.register(survivors);
    next.hello('c1', { generation: 1, phase: 'running' });
    next.wait(59_000);
    expect(next.ordered('prepare')).toEqual([]);
    next.wait(1_500);
    expect(next.ordered('prepare')).toEqual(['c1']);
    expect(next.ordered('stop-container')).toEqual(['c2']);
  });

  it('a second attempt sends the start orders that the first attempt did not send', () => {
    const first = new JobScenario(twoWorkers);
    first.register();
    first.allocate('worker');
    first.allocate('worker');
    first.hello('c1');
    first.hello('c2');
    const { next, survivors } = resume(first);
    next.register(survivors);
    next.hello('c1', { generation: 1, phase: 'running' });
    next.hello('c2');
    expect(next.of('start')).toMatchObject([{ containerId: 'c2', generation: 1, members: first.of('start')[0]?.members }]);
    expect(next.status()).toMatchObject({ generations: 1 });
  });

  it('a second attempt forms a new gang when a member of a partly started generation has already succeeded', () => {
    const job = frozen({ roles: [workers({ instances: 3 })] });
    const first = JobScenario.running(job);
    first.exit('c1', 0);
    const { next, survivors } = resume(first, job);
    expect(next.task('worker:0')).toMatchObject({ state: 'succeeded', containerId: 'c1' });
    next.register(survivors);
    next.hello('c2', { generation: 1, phase: 'running' });
    next.hello('c3', { generation: 1, phase: 'idle' });
    expect(next.task('worker:0')).toMatchObject({ state: 'requested', containerId: null });
    expect(next.of('start')).toEqual([]);
    expect(next.of('prepare').map(({ containerId, generation }) => `${containerId} ${generation}`)).toEqual(['c2 2', 'c3 2']);
    expect(next.wanted('worker')).toBe(1);
  });

  it('a second attempt ignores the exit of a program from a generation before the saved one', () => {
    const first = JobScenario.running(twoWorkers);
    first.exit('c2', 3);
    first.serve();
    const { next, survivors } = resume(first);
    expect(next.state.generation).toBe(2);
    next.register(survivors);
    next.hello('c1', { generation: 1, phase: 'running' });
    next.exit('c1', 1, { generation: 1 });
    expect(next.task('worker:0').failures).toBe(0);
    next.hello(first.container('worker:1'));
    expect(next.of('prepare')).toMatchObject([{ containerId: 'c1', generation: 3 }]);
  });

  it('a second attempt never reuses the generation number of a gang that may have been started', () => {
    const first = new JobScenario(twoWorkers);
    first.register();
    first.allocate('worker');
    first.allocate('worker');
    const { next, survivors } = resume(first);
    next.register(survivors);
    next.hello('c1');
    next.hello('c2');
    expect(next.of('start').map(({ generation }) => generation)).toEqual([2, 2]);
  });

  it('a second attempt stops unknown containers, and starts unranked tasks only after these have ended', () => {
    const { next, survivors } = resume(JobScenario.running(withEvaluator), withEvaluator);
    const stranger = { id: 'x9', role: 'evaluator', node: 'h3:1', nodeHttp: '', memoryMb: 1024 };
    next.register([...survivors.filter(({ role }) => role !== 'evaluator'), stranger]);
    expect(next.ordered('stop-container')).toEqual(['x9']);
    next.hello('x9', { role: 'evaluator', index: 0, generation: 1, phase: 'running' });
    expect(next.ordered('stop-program')).toEqual(['x9']);
    next.end('c3', 'exited', 1);
    const id = next.allocate('evaluator');
    next.hello(id, { role: 'evaluator' });
    expect(next.ordered('start')).toEqual([]);
    next.end('x9', 'stopped-by-master');
    expect(next.ordered('start')).toEqual([id]);
  });

  it('a second attempt starts an unranked task as soon as its predecessor from the first attempt has exited', () => {
    const { next, survivors } = resume(JobScenario.running(withEvaluator), withEvaluator);
    next.register(survivors.filter(({ role }) => role !== 'evaluator'));
    next.wait(10_500);
    const id = next.allocate('evaluator');
    next.hello(id);
    expect(next.ordered('start')).toEqual([]);
    next.hello('c3', { role: 'evaluator', generation: 1, phase: 'running' });
    expect(next.of('stop-program')).toMatchObject([{ containerId: 'c3', atOnce: true }]);
    next.say({ type: 'left', containerId: 'c3' });
    expect(next.ordered('start')).toEqual([id]);
  });

  it('a second attempt continues with the remaining restarts', () => {
    const scene = JobScenario.running(frozen({ roles: [workers({ restart: { policy: 'on-failure', maxRestarts: 1 } })] }));
    scene.exit('c2', 3);
    scene.serve();
    const { next, survivors } = resume(scene, frozen({ roles: [workers({ restart: { policy: 'on-failure', maxRestarts: 1 } })] }));
    next.register(survivors);
    next.hello('c1', { generation: 2, phase: 'running' });
    next.hello(scene.container('worker:1'), { generation: 2, phase: 'running' });
    expect(next.status().generations).toBe(2);
    next.exit(scene.container('worker:1'), 3);
    expect(next.status().state).toBe('failed');
  });

  it('a second attempt shows the failures and notices of the first attempt', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.exit('c2', 3, { stderr: 'Error: out of cheese' });
    scene.serve();
    const progress = { step: 1, metrics: {}, checkpointStep: 0, lostRank: null, earlyEnd: null, ending: false };
    scene.say({
      type: 'heartbeat',
      containerId: 'c1',
      generation: 2,
      usage: null,
      progress: { ...progress, notices: [{ text: 'slow disk', about: 'disk' }] },
    });
    const { next } = resume(scene);
    expect(next.task('worker:1')).toMatchObject({ failures: 1, failure: scene.task('worker:1').failure });
    expect(next.failure('worker:1')).toContain('exited with code 3');
    expect(next.task('worker:1').failure?.lines).toEqual(['Error: out of cheese']);
    expect(next.status().notices).toEqual(['worker:0: slow disk']);
  });

  it('a second attempt only carries out the decision that the first attempt stored', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.say({ type: 'kill', reason: 'killed by alice' });
    const next = new JobScenario(twoWorkers, 2, scene.snapshot);
    next.register([{ id: 'c1', role: 'worker', node: 'h1:1', nodeHttp: '', memoryMb: 1024 }]);
    expect(next.result).toEqual({ state: 'killed', message: 'killed by alice' });
    expect(next.ordered('stop-container')).toEqual(['c1']);
    expect(next.of('ask')).toEqual([]);
  });
});

describe('results', () => {
  it('the result of a job does not change after it has been decided', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.say({ type: 'kill', reason: 'killed by alice' });
    scene.exit('c1', 0);
    scene.exit('c2', 0);
    scene.say({ type: 'kill', reason: 'killed by bob' });
    scene.wait(10_000);
    expect(scene.of('finish')).toEqual([{ type: 'finish', result: { state: 'killed', message: 'killed by alice' } }]);
  });

  it('the result of a job is reported to YARN after the containers have stopped, and they are stopped only after the result is stored', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.storageAway = true;
    scene.say({ type: 'kill', reason: 'enough' });
    expect(scene.ordered('stop-program')).toEqual([]);
    const last = scene.of('persist').at(-1);
    if (last !== undefined) {
      scene.save(last.snapshot);
    }
    expect(scene.ordered('stop-program')).toEqual(['c1', 'c2']);
    expect(scene.result).toBeNull();
    scene.end('c1', 'exited', 143);
    scene.end('c2', 'exited', 143);
    expect(scene.result?.state).toBe('killed');
  });

  it('the result of a job is reported after a limited time even if storage is unreachable', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.storageAway = true;
    scene.say({ type: 'kill', reason: 'enough' });
    scene.wait(36_000);
    expect(scene.result?.state).toBe('killed');
  });

  it('the result of a job is a failure when the job exceeds its timeout', () => {
    const scene = JobScenario.running(frozen({ roles: [workers()], timeoutMs: 120_000 }));
    scene.wait(121_000);
    expect(scene.status()).toMatchObject({
      state: 'failed',
      message: "The job ran longer than its timeout of 2 min. Raise timeout in job.yaml, or reduce the job's work.",
    });
  });

  it('the result of a job can be decided before the ResourceManager has registered this attempt', () => {
    const scene = new JobScenario(twoWorkers);
    scene.say({ type: 'kill', reason: 'changed my mind' });
    expect(scene.result).toBeNull();
    scene.register();
    expect(scene.result?.state).toBe('killed');
    expect(scene.of('ask')).toEqual([]);
  });
});

describe('executors', () => {
  it('an executor is ordered to stop when the job has given up its container or does not know it', () => {
    const scene = JobScenario.running(twoWorkers);
    expect(assignmentOf(scene.state, 'c2')).toEqual({ role: 'worker', index: 1 });
    scene.silent.add('c2');
    scene.wait(10_500);
    expect(assignmentOf(scene.state, 'c2')).toBeNull();
    scene.hello('c2', { generation: 1, phase: 'running' });
    scene.hello('x1', { generation: 1, phase: 'running' });
    expect(scene.ordered('stop-program')).toEqual(['c2', 'c2', 'x1']);
    expect(scene.ordered('stop-container')).toContain('x1');
    scene.exit('x1', 1, { generation: 1 });
    expect(scene.task('worker:0').failures).toBe(0);
  });

  it('an executor receives the stop order again when it has not stopped', () => {
    const scene = JobScenario.running(twoWorkers);
    scene.silent.add('c2');
    scene.wait(10_500);
    scene.serve();
    scene.wait(31_000);
    expect(scene.ordered('stop-container').filter((id) => id === 'c2').length).toBeGreaterThan(1);
    scene.end('c2', 'stopped-by-master');
    const orders = scene.ordered('stop-container').length;
    scene.wait(31_000);
    expect(scene.ordered('stop-container').length - orders).toBe(0);
  });

  it('the reports of an executor cannot grow the saved state without bound', () => {
    const scene = JobScenario.running(twoWorkers);
    for (let n = 0; n < 1_000; n++) {
      scene.say({
        type: 'heartbeat',
        containerId: 'c1',
        generation: 1,
        usage: null,
        progress: {
          step: n,
          metrics: { [`m${n}`]: n, bad: Number.NaN },
          checkpointStep: n,
          lostRank: null,
          notices: [{ text: `notice ${n}`, about: '' }],
          earlyEnd: null,
          ending: false,
        },
      });
    }
    expect(scene.status()).toMatchObject({ step: 999, checkpointStep: 999 });
    expect(scene.status().notices).toHaveLength(20);
    expect(Object.keys(scene.task('worker:0').metrics)).toHaveLength(200);
    expect(scene.status().metrics).not.toHaveProperty('bad');
  });
});

describe('notices', () => {
  it('a newer notice replaces an older notice from the same task on the same subject', () => {
    const scene = JobScenario.running(twoWorkers);
    const tell = (containerId: string, ...notices: { text: string; about: string }[]) =>
      scene.say({
        type: 'heartbeat',
        containerId,
        generation: 1,
        usage: null,
        progress: { step: 1, metrics: {}, checkpointStep: 0, lostRank: null, notices, earlyEnd: null, ending: false },
      });
    tell('c1', { text: 'storage is unavailable', about: 'checkpoints' }, { text: 'a record is skipped', about: '' });
    tell('c2', { text: 'storage is unavailable', about: 'checkpoints' });
    tell('c1', { text: 'storage is available again', about: 'checkpoints' });
    expect(scene.status().notices).toEqual([
      'worker:0: a record is skipped',
      'worker:1: storage is unavailable',
      'worker:0: storage is available again',
    ]);
    expect(scene.history.filter((entry) => entry.startsWith('notice'))).toHaveLength(4);
  });
});

describe('TensorBoard', () => {
  const tensorboard = role({ name: 'tensorboard', kind: 'sidecar', spare: true, restart: { policy: 'on-failure', maxRestarts: 1 } });
  const withTensorBoard = (changes: Partial<Parameters<typeof frozen>[0]> = {}) =>
    frozen({
      roles: [workers(), tensorboard],
      tensorboard: { logdir: null, serve: true, resources: { memoryMb: 1024, vcores: 1 } },
      ...changes,
    });

  it('TensorBoard is requested when all other tasks run, and is not listed among the members of a generation', () => {
    const scene = new JobScenario(withTensorBoard({ roles: [workers(), evaluator, tensorboard] }));
    scene.register();
    expect([scene.wanted('worker'), scene.wanted('tensorboard')]).toEqual([2, 0]);
    for (const id of [scene.allocate('worker'), scene.allocate('worker')]) {
      scene.hello(id);
    }
    for (const id of ['c1', 'c2']) {
      scene.started(id, 1);
    }
    expect(scene.wanted('tensorboard')).toBe(0);
    scene.hello(scene.allocate('evaluator'));
    scene.started('c3', 1);
    expect(scene.wanted('tensorboard')).toBe(1);
    expect(scene.status()).toMatchObject({ state: 'running', message: '' });
    scene.serve();
    expect(scene.task('tensorboard:0').state).toBe('running');
    scene.exit('c1', 1);
    scene.serve();
    const starts = scene.of('start').filter(({ generation }) => generation === 2);
    expect(starts[0]?.members.map(({ role: name }) => name)).toEqual(['worker', 'worker', 'evaluator']);
  });

  it('TensorBoard never delays the job, and adds no message to its status while it waits for a container', () => {
    const scene = new JobScenario(withTensorBoard());
    scene.register();
    for (const id of [scene.allocate('worker'), scene.allocate('worker')]) {
      scene.hello(id);
    }
    for (const id of ['c1', 'c2']) {
      scene.started(id, 1);
    }
    scene.wait(20 * 60_000);
    expect(scene.status()).toMatchObject({ state: 'running', message: '', tensorboard: { state: 'waiting' } });
    expect(scene.history.some((line) => line.startsWith('wait-timeout'))).toBe(false);
    for (const id of ['c1', 'c2']) {
      scene.exit(id, 0);
    }
    expect(scene.result?.state).toBe('succeeded');
  });

  it("TensorBoard is unavailable when its request exceeds the cluster's maximum, and the job continues", () => {
    const large = { ...tensorboard, resources: { memoryMb: 100_000, vcores: 1, gpus: 0, other: {} } };
    const scene = JobScenario.running(withTensorBoard({ roles: [workers(), large] }));
    expect(scene.wanted('tensorboard')).toBe(0);
    expect(scene.status()).toMatchObject({ state: 'running', failure: null, tensorboard: { state: 'unavailable' } });
    expect(scene.status().tensorboard.message).toContain('requests containers');
    // The cluster cannot provide the container, and no program has failed.
    expect(scene.task('tensorboard:0').state).toBe('lost');
  });

  it('TensorBoard does not fail the job when the cluster refuses its request', () => {
    const scene = new JobScenario(withTensorBoard());
    scene.register();
    for (const id of [scene.allocate('worker'), scene.allocate('worker')]) {
      scene.hello(id);
    }
    for (const id of ['c1', 'c2']) {
      scene.started(id, 1);
    }
    scene.say({ type: 'ask-refused', role: 'tensorboard', message: 'no such label' });
    expect(scene.status().state).toBe('running');
  });

  it('TensorBoard restarts after every failure, with growing pauses, on the same nodes, without limit', () => {
    const scene = JobScenario.running(withTensorBoard());
    const pauses: number[] = [];
    for (let n = 0; n < 40; n++) {
      const id = scene.container('tensorboard:0');
      if (n % 2 === 0) {
        scene.exit(id, 1);
      } else {
        scene.end(id, 'exited', 137);
      }
      const fell = scene.now;
      while (scene.wanted('tensorboard') === 0) {
        scene.wait(500);
      }
      pauses.push(scene.now - fell);
      for (const ended of scene.ordered('stop-container')) {
        scene.end(ended, 'stopped-by-master', -105);
      }
      scene.serve();
    }
    expect(pauses.slice(0, 4)).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(Math.max(...pauses)).toBe(60_000);
    expect(
      scene
        .of('ask')
        .filter((action) => action.role.name === 'tensorboard')
        .at(-1)?.excludedNodes,
    ).toEqual([]);
    expect(scene.status()).toMatchObject({ state: 'running', failure: null, generations: 1 });
    scene.wait(3 * 60_000);
    scene.exit(scene.container('tensorboard:0'), 1);
    scene.wait(1_000);
    expect(scene.wanted('tensorboard')).toBe(1);
  });

  it('TensorBoard returns its container when a gang has waited long, and gets another container when the gang runs', () => {
    const scene = JobScenario.running(withTensorBoard());
    const id = scene.container('tensorboard:0');
    scene.end(scene.container('worker:1'), 'preempted');
    scene.wait(10_000);
    expect(scene.task('tensorboard:0').state).toBe('running');
    scene.wait(10_000);
    expect(scene.ordered('stop-container')).toContain(id);
    expect(scene.task('tensorboard:0').state).toBe('requested');
    expect(scene.wanted('tensorboard')).toBe(0);
    scene.end(id, 'stopped-by-master', -105);
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
    expect(scene.task('tensorboard:0')).toMatchObject({ state: 'running', failures: 0 });
  });

  it('TensorBoard is ready when its current program reports it', () => {
    const scene = JobScenario.running(withTensorBoard());
    const answers = (ready: number) =>
      scene.say({
        type: 'heartbeat',
        containerId: scene.container('tensorboard:0'),
        generation: 1,
        usage: null,
        progress: { step: 0, metrics: { ready }, checkpointStep: 0, lostRank: null, notices: [], earlyEnd: null, ending: false },
      });
    answers(1);
    expect(scene.status().tensorboard.state).toBe('ready');
    scene.end(scene.container('tensorboard:0'), 'exited', 137);
    scene.wait(1_000);
    scene.serve();
    expect(scene.status().tensorboard.state).toBe('starting');
    answers(1);
    expect(scene.status()).toMatchObject({ tensorboard: { state: 'ready' }, metrics: {} });
  });

  it('TensorBoard keeps running when a gang forms again within seconds', () => {
    const scene = JobScenario.running(withTensorBoard());
    const id = scene.container('tensorboard:0');
    scene.exit(scene.container('worker:1'), 1);
    scene.serve();
    expect(scene.status()).toMatchObject({ state: 'running', generations: 2 });
    expect(scene.container('tensorboard:0')).toBe(id);
  });

  it('TensorBoard is stopped at the end of the job without delaying it', () => {
    const scene = JobScenario.running(withTensorBoard());
    const id = scene.container('tensorboard:0');
    for (const worker of ['worker:0', 'worker:1'].map((name) => scene.container(name))) {
      scene.exit(worker, 0);
    }
    expect(scene.ordered('stop-container')).toContain(id);
    expect(scene.result?.state).toBe('succeeded');
  });

  it('TensorBoard keeps running under a second attempt', () => {
    const scene = JobScenario.running(withTensorBoard());
    const alive = scene.state.tasks.flatMap(({ container }) => (container === null ? [] : [container]));
    const again = new JobScenario(withTensorBoard(), 2, scene.snapshot);
    again.register(alive);
    for (const { id } of alive) {
      again.hello(id, { generation: 1, phase: 'running' });
    }
    expect(again.status().state).toBe('running');
    expect(again.task('tensorboard:0').state).toBe('running');
    expect(again.ordered('stop-container')).toEqual([]);
  });
});

describe('admission', () => {
  it('a job that waits for admission requests no containers until it is admitted, and does not count the time as waiting for containers', () => {
    const scene = new JobScenario(frozen({ roles: [workers()], timeoutMs: 600_000 }));
    scene.say({ type: 'held', reason: '' });
    scene.register();
    expect(scene.wanted('worker')).toBe(0);
    expect(scene.status()).toMatchObject({ state: 'starting', message: '' });
    scene.say({ type: 'held', reason: 'Waiting for other jobs to end: all is taken.' });
    scene.wait(3_600_000);
    expect(scene.wanted('worker')).toBe(0);
    expect(scene.status()).toMatchObject({ state: 'waiting', message: 'Waiting for other jobs to end: all is taken.' });
    scene.say({ type: 'admitted' });
    expect(scene.wanted('worker')).toBe(2);
    scene.wait(30_000);
    expect(scene.history.some((line) => line.startsWith('gang-timeout'))).toBe(false);
    for (const id of [scene.allocate('worker'), scene.allocate('worker')]) {
      scene.hello(id);
    }
    expect(scene.ordered('start')).toEqual(['c1', 'c2']);
  });

  it('a job that waits for admission keeps its start time when a later attempt waits for admission, unless that time is in the future', () => {
    const first = JobScenario.running(frozen({ roles: [workers()], timeoutMs: 600_000 }));
    const { snapshot } = first;
    if (snapshot === null) {
      throw new Error('nothing is saved');
    }
    const again = (startedAt: number): JobScenario => {
      const scene = new JobScenario(first.state.frozen, 2, { ...snapshot, startedAt });
      scene.say({ type: 'held', reason: 'Waits.' });
      scene.register();
      scene.wait(300_000);
      expect(scene.status()).toMatchObject({ state: 'waiting' });
      expect(scene.wanted('worker')).toBe(0);
      scene.say({ type: 'admitted' });
      scene.wait(10_000);
      expect(scene.wanted('worker')).toBe(2);
      return scene;
    };
    const begun = new JobScenario(first.state.frozen).now;
    expect(again(begun - 1_000).status().startedAt).toBe(begun - 1_000);
    expect(again(begun + 9e9).status().startedAt).toBe(begun);
  });

  it('a job that waits for admission fails when it exceeds the limits, and can be killed while it waits', () => {
    const refused = new JobScenario(frozen({ roles: [workers()] }));
    refused.say({ type: 'held', reason: '' });
    refused.register();
    refused.say({ type: 'refused', reason: 'The job exceeds the limits in the site file.' });
    expect(refused.status()).toMatchObject({ state: 'failed', message: 'The job exceeds the limits in the site file.' });
    expect(refused.ordered('launch')).toEqual([]);

    const killed = new JobScenario(frozen({ roles: [workers()] }));
    killed.say({ type: 'held', reason: 'Waits.' });
    killed.register();
    killed.say({ type: 'kill', reason: 'enough' });
    expect(killed.status()).toMatchObject({ state: 'killed', message: 'enough' });
  });
});

describe('limits of the site file', () => {
  const limits = { timeout: null, idle: null, mayGrow: true };

  it('the limits of the site file end a job that exceeds the timeout as soon as the limits are known', () => {
    const scene = JobScenario.running(frozen({ roles: [workers()] }));
    scene.wait(90_000);
    expect(scene.status().state).toBe('running');
    scene.say({ type: 'limits', limits: { ...limits, timeout: { ms: 60_000, path: 'quotas.users.alice.timeout' } } });
    scene.wait(1_000);
    expect(scene.status()).toMatchObject({
      state: 'failed',
      message: 'The job ran longer than the 1 min that quotas.users.alice.timeout in the site file allows. Its checkpoints are kept.',
    });
  });

  it('the limits of the site file end a job whose programs are idle, but not one that computes or waits for containers', () => {
    const idle = { ...limits, idle: { ms: 60_000, path: 'quotas.queues.gpu.idle' } };
    const scene = JobScenario.running(frozen({ roles: [workers()] }));
    scene.say({ type: 'limits', limits: idle });
    scene.wait(300_000);
    expect(scene.status().state).toBe('running');
    scene.cpuCores = 0.01;
    scene.wait(50_000);
    scene.say({
      type: 'heartbeat',
      containerId: 'c1',
      generation: 1,
      usage: null,
      progress: { step: 1, metrics: {}, checkpointStep: 0, lostRank: null, notices: [], earlyEnd: null, ending: false },
    });
    scene.wait(50_000);
    expect(scene.status().state).toBe('running');
    scene.wait(11_000);
    expect(scene.status()).toMatchObject({
      state: 'failed',
      message: 'The job was idle for 1 min: none of its programs computed or reported anything (quotas.queues.gpu.idle in the site file).',
    });

    const waiting = new JobScenario(frozen({ roles: [workers()], gang: { timeoutMs: 500_000 } }));
    waiting.register();
    waiting.say({ type: 'limits', limits: idle });
    waiting.wait(120_000);
    expect(waiting.status().state).toBe('waiting');
  });
});

it('a task without a rank gets the same ranked tasks, whether or not their executors have registered', () => {
  const late = new JobScenario(frozen({ roles: [workers(), role({ name: 'evaluator' })] }));
  late.register();
  late.hello(late.allocate('evaluator'));
  const members = late.of('start').at(-1)?.members ?? [];
  expect(members.map(({ role: name, index, taskRank }) => [name, index, taskRank])).toEqual([
    ['worker', 0, 0],
    ['worker', 1, 1],
    ['evaluator', 0, null],
  ]);
});
