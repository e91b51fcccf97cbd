import { expect, test } from 'vitest';
import { describeEnd, describeEntry, describeFailure } from './event-text.ts';
import { taskFailure } from './job-status.fixture.ts';
import { type FailureCause, taskFailureSchema } from './task-failure.ts';

test('describeEnd names the exit code or the signal', () => {
  expect(describeEnd({ code: 3, signal: null })).toBe('exited with code 3');
  expect(describeEnd({ code: 127, signal: null })).toMatch(/^exited with code 127 \(command not found: check the spelling/);
  expect(describeEnd({ code: null, signal: 'SIGKILL' })).toBe('was killed by SIGKILL');
  expect(describeEnd({ code: null, signal: null })).toBe('was killed by a signal');
  const codes = [137, 139, 143, 134].map((code) => describeEnd({ code, signal: null }));
  expect(codes).toEqual(['137 (SIGKILL)', '139 (SIGSEGV)', '143 (SIGTERM)', '134 (SIGABRT)'].map((text) => `exited with code ${text}`));
  expect(describeEnd({ code: 255, signal: null })).toBe('exited with code 255');
});

const container = { kind: 'container', exitStatus: 137, memoryBytes: 1536 << 20, message: '' } as const;
const failures: readonly (readonly [FailureCause, string])[] = [
  [{ kind: 'program', exit: { code: 3, signal: null } }, 'its program on n1:1 exited with code 3'],
  [
    { kind: 'program', exit: { code: null, signal: 'SIGKILL' } },
    'its program on n1:1 was killed by SIGKILL. If neither you nor an admin killed it, the kernel did: on nodes that limit memory with cgroups, the kernel kills processes that use more memory than their container has. If memory was short, raise roles.worker.resources.memory',
  ],
  [
    { kind: 'program', exit: { code: 137, signal: null } },
    'its program on n1:1 exited with code 137 (SIGKILL). If neither you nor an admin killed it, the kernel did: on nodes that limit memory with cgroups, the kernel kills processes that use more memory than their container has. If memory was short, raise roles.worker.resources.memory',
  ],
  [{ ...container, exitStatus: 3, end: 'exited', message: 'no.' }, 'its container on n1:1 ended with exit status 3: no.'],
  [
    { ...container, end: 'exited', message: 'The container was terminated by SIGKILL (exit 137).' },
    'its container on n1:1 ended with exit status 137: The container was terminated by SIGKILL (exit 137). If neither you nor an admin killed it, the kernel did: on nodes that limit memory with cgroups, the kernel kills processes that use more than the 1.5 GiB of their container. If memory was short, raise roles.worker.resources.memory',
  ],
  [
    { ...container, end: 'memory-exceeded' },
    'its container on n1:1 was killed for using more than its 1.5 GiB of memory; raise roles.worker.resources.memory',
  ],
  [{ ...container, end: 'node-lost' }, 'its node n1:1 was lost'],
  [{ kind: 'launch', message: 'no disk' }, 'its container on n1:1 could not be started: no disk'],
  [{ kind: 'silent', ms: 4_200 }, 'its executor on n1:1 sent no heartbeat for 4.2 s'],
  [
    { kind: 'unanswered', order: 'start', ms: 30_400 },
    'its executor on n1:1 did not respond within 30 s to the order to start its program',
  ],
  [{ kind: 'blamed', by: 'worker:0' }, 'its program on n1:1 no longer answers its peers (reported by worker:0)'],
  [{ kind: 'impossible', message: 'no node is large enough' }, 'no node is large enough'],
];

test.each(failures)('describeFailure gives the expected sentence for the stored cause %j', (cause, sentence) => {
  const stored = taskFailureSchema.parse(JSON.parse(JSON.stringify(taskFailure({ cause, node: 'n1:1' }))));
  expect(describeFailure(stored, 'worker')).toBe(sentence);
});

test('describeEntry includes the facts of an event', () => {
  const entry = { at: 0, type: 'task-failed', role: 'worker', index: 0 };
  const failure = taskFailure({ lines: ['Error: x', '    at y'] });
  expect(describeEntry({ ...entry, failure })).toBe('its program exited with code 3\nLast lines of its stderr:\nError: x\n    at y');
  expect(describeEntry({ ...entry, failure: taskFailure({ cost: 'victim' }) })).toMatch(/^\(not counted: it lost its peers\) its program/);
  const corrected = { ...entry, type: 'failure-corrected', failure: taskFailure({ cost: 'free' }) };
  expect(describeEntry(corrected)).toMatch(/^\(no longer counted\) its program/);
  expect(describeEntry({ at: 0, type: 'program-ended', exit: { code: 0, signal: null } })).toBe('exited with code 0');
  expect(describeEntry({ at: 0, type: 'job-finished', state: 'succeeded' })).toBe('succeeded');
  expect(describeEntry({ at: 0, type: 'job-finished', state: 'failed', message: 'no' })).toBe('failed: no');
  expect(describeEntry({ at: 0, type: 'executor-registered', program: 'idle', message: 'h:1' })).toBe('h:1, idle');
  expect(describeEntry({ at: 0, type: 'generation-started', message: '2 ranked tasks', reason: 'worker:1 failed' })).toBe(
    '2 ranked tasks; worker:1 failed',
  );
  expect(describeEntry({ at: 0, type: 'task-requested' })).toBe('');
});
