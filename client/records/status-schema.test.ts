import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jobStatus, orphanedContainer, taskStatus } from '../../conf/status/job-status.fixture.ts';
import { LARGEST_STATUS, parseFinal, parseFinalWithoutTasks, parseLive, parseLiveText } from './status-schema.ts';

const status = jobStatus();
const withTask = (change: object) => ({ ...status, tasks: status.tasks.map((task, at) => (at === 0 ? { ...task, ...change } : task)) });

test('parseLive accepts only a complete status of the requested application', () => {
  expect(parseLive(status, status.id)).toEqual(status);
  expect(parseLive(status, 'application_1_9999')).toBeNull();
});

test.each([
  ['x$(touch it)', { role: 'x$(touch it)' }],
  ['an escape sequence', { role: '\x1b[2J' }],
  ['text instead of a number', { index: '0; ls' }],
  ['no role', { role: undefined }],
])('parseLive drops a task named by %s, because names reach terminals and shells', (_, change) => {
  expect(parseLive(withTask(change), status.id)?.tasks).toEqual([]);
});

test('parseLive accepts a status without orphaned containers, and drops damaged ones', () => {
  const { orphanedContainers: _, ...older } = status;
  expect(parseLive(older, status.id)).toEqual(status);
  const reported = [orphanedContainer(), 7, { ...orphanedContainer(), role: '\x1b[2J' }, { ...orphanedContainer(), index: 'x', role: 7 }];
  expect(parseLive({ ...status, orphanedContainers: reported }, status.id)?.orphanedContainers).toEqual([orphanedContainer()]);
});

test('parseLive keeps the state of a running job: waiting times, progress and the ApplicationMaster', () => {
  const master = { node: 'n1:1', memoryBytes: 1, cpuCores: 2, latenessMs: 3 };
  const running = jobStatus({ state: 'waiting', waitingMs: 5, predecessorsEndInMs: 6, progress: 0.5, master, metrics: { loss: 1 } });
  expect(parseLiveText(JSON.stringify(running), running.id)).toEqual(running);
});

test.each<[string, object]>([
  ['a task without fields', { tasks: [{ role: 'worker', index: 0, state: 'running' }] }],
  ['notices that are no text', { notices: [null, {}, 7] }],
  ['usage without fields', { tasks: [{ role: 'worker', index: 0, usage: {}, metrics: null, node: {}, nodeHttp: 'x"/>' }] }],
  ['an elastic role without fields', { elastic: {} }],
  ['a name that is no text', { name: {}, user: 7, queue: [], message: null, checkpointUri: {} }],
  ['no fields', Object.fromEntries(Object.keys(status).map((key) => [key, undefined]))],
])('parseLive completes %s, so that every display can use the status', (_, change) => {
  const { id, state } = status;
  const parsed = parseLive(JSON.parse(JSON.stringify({ ...status, ...change, id, state })), id);
  expect(Object.keys(parsed ?? {}).sort()).toEqual(Object.keys(status).sort());
  for (const task of 'tasks' in change && change.tasks !== undefined ? (parsed?.tasks ?? []) : []) {
    expect(task).toMatchObject({ generation: 0, attempts: 0, step: 0, metrics: {}, node: null, nodeHttp: null });
  }
  expect(parsed?.notices.every((notice) => typeof notice === 'string')).toBe(true);
  expect(typeof parsed?.name).toBe('string');
});

test('parseLive never throws, whatever another program sends', () => {
  const keys = Object.keys(status);
  const part = fc.dictionary(fc.constantFrom(...keys), fc.jsonValue());
  fc.assert(
    fc.property(part, (change) => {
      const parsed = parseLive({ ...status, ...change }, status.id);
      expect(parsed === null || Array.isArray(parsed.tasks)).toBe(true);
    }),
  );
});

test('a status is bounded in its texts, its lists and its size', () => {
  const many = Array.from({ length: 1_000_000 }, () => []);
  const parsed = parseLive({ ...status, notices: many, message: 'x'.repeat(1_000_000), orphanedContainers: many }, status.id);
  expect(parsed).toMatchObject({ orphanedContainers: [] });
  expect(parsed?.notices.length).toBeLessThanOrEqual(1_000);
  expect(parsed?.message.length).toBeLessThanOrEqual(16_384);
  expect(parseLiveText(JSON.stringify({ ...status, message: 'x'.repeat(LARGEST_STATUS) }), status.id)).toBeNull();
});

test('a status of a version that counted only containers has as many starts as containers', () => {
  const { programStarts: _, ...old } = taskStatus({ attempts: 3 });
  expect(parseLive({ ...status, tasks: [old] }, status.id)?.tasks).toMatchObject([{ attempts: 3, programStarts: 3 }]);
});

test('a status without the time of the submission counts from the start', () => {
  const { createdAt: _, ...old } = jobStatus({ state: 'succeeded', startedAt: 7, finishedAt: 9 });
  expect(parseLive(old, old.id)).toMatchObject({ createdAt: 7, startedAt: 7 });
  expect(parseFinal(JSON.stringify(old), old.id)).toMatchObject({ createdAt: 7, startedAt: 7 });
  expect(parseFinalWithoutTasks(JSON.stringify({ ...old, createdAt: 3 }), old.id)).toMatchObject({ createdAt: 3 });
});
