import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { orphanedContainer, reportedJob, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import type { TaskStatus } from '../../../conf/status/status.ts';
import { changes } from '../../connections/operations/job-events.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { widthOf } from '../../terminal/text-width.ts';
import { jobTable, stateText } from './job-table.ts';
import { eventLine } from './report-lines.ts';

const task = taskStatus({
  node: 'node7.example.com:8041',
  step: 340,
  metrics: { loss: 0.123456, accuracy: 0.981 },
  usage: { memoryBytes: 1.5 * 2 ** 30, cpuCores: 1.97, gpus: [], stopped: false },
});
const status = reportedJob({
  generations: 2,
  step: 340,
  metrics: { loss: 0.123456 },
  checkpointStep: 300,
  tasks: [
    task,
    {
      ...task,
      index: 1,
      state: 'failed',
      exit: { code: 3, signal: null },
      attempts: 2,
      programStarts: 2,
      usage: null,
      step: 0,
      metrics: {},
      node: null,
    },
  ],
});
const plain = (columns: number, rows = 24) => terminalOf({ isTTY: true, columns, rows }, { NO_COLOR: '1' });

describe('jobTable', () => {
  test('shows the job and each task in 80 columns', () => {
    const fresh = { ...status, tasks: status.tasks.map((some) => ({ ...some, attempts: 3, programStarts: 1 })) };
    expect(jobTable(fresh, plain(80), 63_000)).toEqual([
      'mnist  running  step 340  loss 0.1235  generation 2  checkpoint 300  1 min 3 s',
      'TASK      STATE     NODE   GEN  STEP   MEMORY  CPU  METRICS',
      'worker:0  running   node7    1   340  1.5 GiB  2.0  loss 0.1235  accuracy 0.981',
      'worker:1  failed 3  -        1     -        -    -',
    ]);
  });

  test('distinguishes NodeManagers on one host by their ports', () => {
    const nodes = ['node7.example.com:8041', 'node7.example.com:8042', 'node70.example.com:8041'];
    const tasks = nodes.map((node, index) => ({ ...task, index, node }));
    const lines = jobTable({ ...status, tasks }, plain(80), 0).slice(2);
    expect(lines.map((line) => line.split(/ +/)[2])).toEqual(['node7:8041', 'node7:8042', 'node70']);
  });

  test('shows all columns on a wide terminal, and colours unless NO_COLOR is set', () => {
    const wide = jobTable(status, plain(140), 63_000);
    expect(wide[1]).toBe('TASK      STATE     NODE   GEN  RESTARTS  STEP   MEMORY  CPU  METRICS');
    expect(wide[3]).toBe('worker:1  failed 3  -        1         1     -        -    -');
    expect(jobTable(status, terminalOf({ isTTY: true }, {}), 0)[3]).toContain('\x1b[31mfailed 3');
  });

  test('shows the signal that killed a program or the command of its shell', () => {
    const states = [
      { code: null, signal: 'SIGKILL' },
      { code: 137, signal: null },
      { code: null, signal: null },
    ].map((exit) => stateText({ ...task, state: 'failed', exit }));
    expect(states).toEqual(['failed SIGKILL', 'failed 137 SIGKILL', 'failed by a signal']);
  });

  test('shows the reason for waiting in one line', () => {
    const waiting = { ...status, state: 'waiting', message: 'worker:1 waits:\n queue default is full' } as const;
    expect(jobTable(waiting, plain(80), 0)[1]).toBe('  worker:1 waits: queue default is full');
  });

  test("lists the programs that may still be running on a lost node below the message, within the terminal's height", () => {
    const waiting = { ...status, message: 'worker:1 got no container', orphanedContainers: [orphanedContainer()] };
    expect(jobTable(waiting, plain(80), 0).slice(1, 4)).toEqual([
      '  worker:1 got no container',
      '  worker:1 may still be running on node2:8041 for up to 24 s: YARN considers',
      '  its container lost, and its executor is not reachable.',
    ]);
    const lost = Array.from({ length: 50 }, (_, index) => orphanedContainer({ index, node: `node${index}:8041` }));
    expect(jobTable({ ...status, orphanedContainers: lost }, plain(80, 20), 0).length).toBeLessThanOrEqual(18);
    const over = { ...status, finishedAt: 10_000, orphanedContainers: [orphanedContainer()] };
    expect(jobTable(over, plain(200), 30_000)[1]).toContain('for up to 4 s');
    expect(jobTable(over, plain(200), 40_000)[1]).toMatch(/^TASK/);
  });

  test('includes failed tasks when there are more tasks than lines', () => {
    const many = {
      ...status,
      tasks: Array.from({ length: 100 }, (_, index): TaskStatus => ({ ...task, index, state: index === 77 ? 'lost' : 'running' })),
    };
    const lines = jobTable(many, plain(80, 20), 0);
    expect(lines.length).toBeLessThanOrEqual(18);
    expect(lines.at(-1)).toMatch(/^and \d+ more tasks$/);
    expect(lines.join('\n')).toContain('worker:77');
  });

  test("no line exceeds the terminal's width, for any texts in the job", () => {
    const text = fc.string({ maxLength: 60, unit: 'binary' });
    const metrics = fc.dictionary(text, fc.double(), { maxKeys: 4, noNullPrototype: true });
    const anyTask = fc.record({
      role: fc.stringMatching(/^[a-z][a-z0-9-]{0,62}$/),
      index: fc.nat(),
      step: fc.nat(),
      metrics,
      attempts: fc.nat(),
      programStarts: fc.nat(),
      generation: fc.nat(),
    });
    fc.assert(
      fc.property(
        fc.array(anyTask, { maxLength: 40 }),
        text,
        text,
        metrics,
        fc.integer({ min: 21, max: 200 }),
        (tasks, name, message, all, columns) => {
          const orphanedContainers = [orphanedContainer({ node: message })];
          const job = { ...status, name, message, metrics: all, tasks: tasks.map((some) => ({ ...task, ...some })), orphanedContainers };
          for (const line of jobTable(job, plain(columns), 0)) {
            expect(widthOf(line)).toBeLessThan(columns);
            expect(line).not.toMatch(/\p{Cc}/u);
          }
        },
      ),
    );
  });
});

describe('changes', () => {
  test('the first status yields all events, and an unchanged status yields none', () => {
    expect(changes(null, status).map((event) => event.type)).toEqual(['state', 'task', 'task', 'checkpoint', 'metrics']);
    expect(changes(status, { ...status, tasks: status.tasks.map((some) => ({ ...some, silentMs: 9, step: 350 })) })).toEqual([]);
  });

  test('a restart yields an event even if the state is the same', () => {
    const again = { ...status, tasks: status.tasks.map((some) => ({ ...some, attempts: some.attempts + 1 })) };
    expect(changes(status, again)).toMatchObject([
      { type: 'task', index: 0, attempts: 2 },
      { type: 'task', index: 1, attempts: 3 },
    ]);
  });

  test('each notice appears once, even when the bounded list drops older ones', () => {
    const lists = fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { maxLength: 20 });
    fc.assert(
      fc.property(fc.uniqueArray(fc.string(), { maxLength: 30 }), fc.nat(30), fc.nat(30), (all, seen, bound) => {
        const window = (upTo: number): string[] => all.slice(Math.max(0, upTo - Math.max(1, bound)), upTo);
        const [before, after] = [
          { ...status, notices: window(Math.min(seen, all.length)) },
          { ...status, notices: window(all.length) },
        ];
        const notices = changes(before, after).map((event) => (event.type === 'notice' ? event.message : ''));
        expect(notices).toEqual(all.slice(Math.max(Math.min(seen, all.length), all.length - Math.max(1, bound))));
      }),
    );
    fc.assert(fc.property(lists, (notices) => changes({ ...status, notices }, { ...status, notices }).length === 0));
  });

  test('a metric that stays NaN is not a change', () => {
    const broken = { ...status, metrics: { loss: Number.NaN } };
    expect(changes(status, broken)).toEqual([{ type: 'metrics', step: 340, metrics: { loss: Number.NaN } }]);
    expect(changes(broken, { ...broken })).toEqual([]);
  });

  test('a restart, which sets the step to 0, is not a change of the metrics', () => {
    expect(changes(status, { ...status, step: 0 })).toEqual([]);
    const [event] = changes(null, { ...status, step: 0, metrics: { loss: 0.5 } }).filter(({ type }) => type === 'metrics');
    expect(event && eventLine(event, plain(80))).toBe('loss 0.5');
  });
});
