import fc from 'fast-check';
import { expect, test } from 'vitest';
import { workers } from '../../../conf/job.fixture.ts';
import { yarnReport } from '../../../conf/status/job-info.ts';
import { orphanedContainer, reportedJob, taskFailure, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import { yarnApplication } from '../../../hadoop/yarn/application.fixture.ts';
import type { JobDescription } from '../../connections/operations/describe-job.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { widthOf } from '../../terminal/text-width.ts';
import { descriptionLines } from './description-lines.ts';

const plain = (columns: number) => terminalOf({ isTTY: true, columns }, { NO_COLOR: '1' });
const failure = { role: 'worker', index: 1, ...taskFailure() };
const started = new Date(2026, 10, 21, 14, 3, 44).getTime();

function description(change: Partial<JobDescription> = {}): JobDescription {
  return {
    ...reportedJob({
      id: 'application_1795225023264_0001',
      createdAt: started,
      startedAt: started + 9_000,
      step: 340,
      metrics: { loss: 0.123456 },
      generations: 2,
    }),
    lostNodes: [],
    unreadable: null,
    roles: [workers({ maxInstances: 4, resources: { memoryMb: 2048, vcores: 1, gpus: 1, other: {} } })],
    tasks: [
      {
        ...taskStatus({
          step: 340,
          silentMs: 230,
          usage: {
            memoryBytes: 1.5 * 2 ** 30,
            cpuCores: 1.97,
            gpus: [{ index: 0, utilization: 0.87, memoryUsedBytes: 2 ** 30, memoryTotalBytes: 2 ** 33 }],
            stopped: false,
          },
        }),
        containers: [{ containerId: 'container_e17_1795225023264_0001_01_000002', node: 'node1:8041' }],
      },
    ],
    checkpoints: { uri: 'hdfs://nn/c', latest: 300, kept: [100, 200, 300], best: { step: 200, metric: 'loss', value: 0.25 } },
    places: { history: 'hdfs://nn/h', checkpoints: 'hdfs://nn/c', summaries: 'hdfs://nn/s', output: null, logs: null },
    configuration: { version: 1, job: { name: 'mnist', env: { API_TOKEN: '***' } } },
    ...change,
  };
}

test('describes a running job in 80 columns', () => {
  expect(descriptionLines(description(), plain(80), started + 63_000)).toEqual([
    'application_1795225023264_0001',
    '  name         mnist',
    '  state        running',
    '  user         alice',
    '  queue        default',
    '  submitted    2026-11-21 14:03:44 (1 min 3 s ago)',
    '  progress     step 340 loss 0.1235 generation 2',
    '',
    'roles',
    '  ROLE    TASKS  MEMORY  VCORES  GPUS  RESTARTS  COMMAND',
    '  worker   2..4   2 GiB       1     1  up to 3   node train.ts',
    '',
    'tasks',
    '  TASK      STATE    NODE   FAILED       HEARD  STEP   MEMORY  CPU        GPU',
    '  worker:0  running  node1       0  230 ms ago   340  1.5 GiB  2.0  87% 1 GiB',
    '',
    'containers',
    '  TASK      NO.  CONTAINER                                   NODE',
    '  worker:0    1  container_e17_1795225023264_0001_01_000002  node1:8041',
    '',
    'checkpoints',
    '  latest       step 300',
    '  kept         100, 200, 300',
    '  best         step 200 (loss 0.25)',
    '',
    'places',
    '  history      hdfs://nn/h',
    '  checkpoints  hdfs://nn/c',
    '  summaries    hdfs://nn/s',
    '',
    'configuration',
    '  name: mnist',
    '  env:',
    '    API_TOKEN: "***"',
  ]);
});

test('a description begins with the first failure and the last lines of its task', () => {
  const failed = description({
    state: 'failed',
    failure: { ...failure, lines: ['\u001b[31mTypeError\u001b[39m: x', '\tat main'] },
    message: 'worker:1 failed\nTypeError: x',
  });
  expect(descriptionLines(failed, plain(200), started).slice(0, 9)).toEqual([
    'first failure',
    '  worker:1: its program exited with code 3',
    '    TypeError: x',
    '     at main',
    '',
    'application_1795225023264_0001',
    '  name         mnist',
    '  state        failed',
    '               worker:1 failed',
  ]);
});

test('a description lists lost nodes with times, and programs that may still be running there', () => {
  const lost = description({
    lostNodes: [{ node: 'node2:8041', at: started + 1_000 }],
    orphanedContainers: [orphanedContainer()],
  });
  const lines = descriptionLines(lost, plain(80), started);
  const at = lines.findIndex((line) => line.includes('lost nodes'));
  expect(lines.slice(at, at + 3)).toEqual([
    '  lost nodes   node2:8041 at 2026-11-21 14:03:45',
    '  orphans      worker:1 may still be running on node2:8041 for up to 24 s: YARN',
    '               considers its container lost, and its executor is not reachable.',
  ]);
  const later = { ...lost, finishedAt: started + 2_000 };
  expect(descriptionLines(later, plain(80), started + 60_000).filter((line) => /lost nodes|orphans/.test(line))).toHaveLength(1);
});

test('the task and node of a failure are never truncated, even on a narrow terminal', () => {
  const place = 'file:///data/nodemanager2/local/usercache/alice/filecache/11/source.tar.gz/model/train.ts:5:45';
  const failed = description({ failure: { ...failure, lines: [`    at ${place}`] } });
  const lines = descriptionLines(failed, plain(80), started);
  expect(lines.slice(2, 5).map((line) => line.trim())).toEqual(['at', place.slice(0, 75), place.slice(75)]);
});

test("a section shows YARN's view of the application", () => {
  const yarn = description({
    yarn: {
      ...yarnReport(
        yarnApplication({
          tags: ['team-a'],
          state: 'FINISHED',
          finalStatus: 'FAILED',
          progress: 100,
          trackingUrl: 'http://rm:8088/proxy/application_1795225023264_0001/',
          diagnostics: 'worker:1 failed',
          startedAt: started,
          finishedAt: started,
          runningContainers: 0,
          logAggregation: 'SUCCEEDED',
        }),
      ),
      attempts: [
        {
          number: 1,
          attemptId: 'a',
          state: 'FINISHED',
          containerId: 'container_1',
          node: 'node1:8041',
          nodeHttp: 'node1:8042',
          diagnostics: '',
        },
      ],
    },
  });
  const lines = descriptionLines(yarn, plain(80), started);
  const at = lines.indexOf('YARN');
  expect(lines.slice(at, lines.indexOf('', at))).toEqual([
    'YARN',
    '  state        FINISHED, FAILED',
    '  tags         team-a',
    '  holds        6 GiB, 3 vcores',
    '  logs         aggregated: SUCCEEDED',
    '  attempt 1    FINISHED container_1 on node1:8042',
    '  tracking     http://rm:8088/proxy/application_1795225023264_0001/',
    '  diagnostics  worker:1 failed',
  ]);
});

test("no line of a description exceeds the terminal's width or contains control characters", () => {
  const text = fc.string({ unit: 'binary', maxLength: 120 });
  const texts = fc.record({ name: text, message: text, queue: text, reason: text, node: text, id: text });
  fc.assert(
    fc.property(texts, fc.integer({ min: 60, max: 200 }), ({ node, id, reason, ...change }, columns) => {
      const failed = taskFailure({ cause: { kind: 'launch', message: reason }, node, lines: [reason, node] });
      const job = description({
        ...change,
        failure: { ...failure, ...failed },
        notices: [reason],
        lostNodes: [{ node, at: started }],
        orphanedContainers: [orphanedContainer({ node })],
        tasks: [{ ...taskStatus({ failure: failed, node }), containers: [{ containerId: id, node }] }],
        configuration: { job: { name: change.name } },
        places: { history: null, checkpoints: null, summaries: null, output: null, logs: null },
      });
      const lines = descriptionLines(job, plain(columns), started);
      const shown = lines.slice(0, lines.indexOf('configuration'));
      expect(shown.filter((line) => widthOf(line) >= columns)).toEqual([]);
      // YAML may contain a tab.
      expect(lines.filter((line) => /(?!\t)\p{Cc}/u.test(line))).toEqual([]);
    }),
    { numRuns: 30 },
  );
});
