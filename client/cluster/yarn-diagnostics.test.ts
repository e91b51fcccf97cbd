import { expect, test } from 'vitest';
import { describeEarlyEnd } from '../../conf/status/early-end.ts';
import { ACTIVATED, QUEUE_FULL } from './yarn-diagnostics.fixture.ts';
import { awaitedPartition, resultOf, unknownQueue, waitingReason } from './yarn-diagnostics.ts';

const ID = 'application_1795225023264_0003';
const explain = (diagnostics: string, state = 'FAILED') => resultOf({ id: ID, state, finalStatus: 'FAILED', diagnostics }).message;

test.each([
  ['FINISHED', 'SUCCEEDED', 'succeeded'],
  ['FINISHED', 'FAILED', 'failed'],
  ['FINISHED', 'KILLED', 'killed'],
  ['FINISHED', 'UNDEFINED', 'failed'],
  ['KILLED', 'KILLED', 'killed'],
  ['FAILED', 'FAILED', 'failed'],
])('state %s with final status %s gives the result %s', (state, finalStatus, result) => {
  expect(resultOf({ id: ID, state, finalStatus, diagnostics: 'x' }).state).toBe(result);
});

test("diagnostics that the ApplicationMaster wrote stay unchanged, except that YARN's note about recovery is removed", () => {
  expect(explain('worker:1 exited with code 3.\nboom\n', 'FINISHED')).toBe('worker:1 exited with code 3.\nboom');
  expect(resultOf({ id: ID, state: 'FINISHED', finalStatus: 'SUCCEEDED', diagnostics: 'done' }).message).toBe('');
  const diagnostics = `Attempt recovered after RM restart ${describeEarlyEnd(12, 'loss did not improve for 3 evaluations')}\n`;
  const end = { id: ID, state: 'FINISHED', finalStatus: 'SUCCEEDED', diagnostics };
  expect(resultOf(end).message).toBe('stopped early at step 12: loss did not improve for 3 evaluations');
});

test.each([
  [' with diagnostic message: Killed by alice with tony-ts kill.', 'Killed by alice with tony-ts kill.'],
  [' with diagnostic message: Interrupted by alice.', 'Interrupted by alice.'],
  [' at 10.0.0.7 with diagnostic message: no longer needed', 'Killed by alice from 10.0.0.7: no longer needed'],
  [' at 10.0.0.7', 'Killed by alice from 10.0.0.7.'],
  ['', 'Killed by alice.'],
])('diagnostics say once who has killed a job%s', (more, sentence) => {
  expect(explain(`Application ${ID} was killed by user alice${more}`, 'KILLED')).toBe(sentence);
});

test('diagnostics name an unknown queue', () => {
  const text = `Application ${ID} submitted by user alice to unknown queue: nosuch`;
  expect(explain(text)).toBe('The queue nosuch does not exist. Correct `queue` in job.yaml.');
  expect(unknownQueue(text)).toBe('nosuch');
  expect(unknownQueue('all is well')).toBeUndefined();
});

test('a token with another renewer is reported with the renewer that the ResourceManager needs', () => {
  const text =
    'Failed to renew token: Kind: HDFS_DELEGATION_TOKEN, Service: 127.0.0.1:8020, Ident: (token for alice: HDFS_DELEGATION_TOKEN ' +
    'owner=alice@EXAMPLE.COM, renewer=alice, realUser=, issueDate=1, maxDate=2, sequenceNumber=2, masterKeyId=2)';
  expect(explain(text)).toMatch(
    /^The ResourceManager cannot renew the token HDFS_DELEGATION_TOKEN for 127\.0\.0\.1:8020, which names alice as its renewer\. .*fetchdt/,
  );
});

test('a failed start of the ApplicationMaster is reported with the exit code, the output and the command that shows its logs', () => {
  const text = `Application ${ID} failed 2 times due to AM Container for appattempt_1795225023264_0003_000002 exited with  exitCode: 127
Failing this attempt.Diagnostics: [2026-11-20 10:00:00.000]Exception from container-launch.
Container id: container_1795225023264_0003_02_000001
Exit code: 127

[2026-11-20 10:00:00.000]Container exited with a non-zero exit code 127. Error file: prelaunch.err.
Last 4096 bytes of prelaunch.err :
Last 4096 bytes of stderr :
/bin/bash: line 1: runtime/bin/node: No such file or directory


For more detailed output, check the application tracking page: http://localhost:8088/cluster/app/${ID} Then click on links to logs of each attempt.
. Failing the application.`;
  expect(explain(text)).toBe(
    `The ApplicationMaster failed to run (exit code 127: a program was not found on the node):
/bin/bash: line 1: runtime/bin/node: No such file or directory
See tony-ts logs ${ID} master.`,
  );
});

test('a removed staging folder is reported as the cause', () => {
  const text = `Application ${ID} failed 2 times due to AM Container for appattempt_1_0003_000002 exited with  exitCode: -1000
Diagnostics: [2026-11-22 10:00:00.000]File does not exist: hdfs://nn:8020/user/alice/.tony-ts/jobs/${ID}/job.json
java.io.FileNotFoundException: File does not exist: hdfs://nn:8020/user/alice/.tony-ts/jobs/${ID}/job.json
\tat org.apache.hadoop.hdfs.DistributedFileSystem$29.doCall(DistributedFileSystem.java:1757)`;
  expect(explain(text)).toContain(
    `hdfs://nn:8020/user/alice/.tony-ts/jobs/${ID}/job.json was removed while the job still needed it. Exclude the staging folder from programs that clean up HDFS, and submit the job again.`,
  );
});

test('diagnostics distinguish exceeded memory, failed localisation and missing heartbeats', () => {
  const failed = (rest: string): string =>
    explain(`Application ${ID} failed 2 times due to AM Container for appattempt_1_0003_000002 ${rest}`);
  expect(failed('exited with  exitCode: -104\nFailing this attempt.')).toContain('raise master.resources.memory');
  expect(failed('exited with  exitCode: -1000\nDiagnostics: Resource hdfs://nn/x changed on src filesystem (expected 1, was 2)')).toMatch(
    /could not copy its files to the node\):\n.*changed on src filesystem/,
  );
  expect(
    explain(
      `Application ${ID} failed 2 times due to ApplicationMaster for attempt appattempt_1_0003_000002 timed out. Failing the application.`,
    ),
  ).toMatch(/^The ApplicationMaster stopped sending heartbeats/);
});

test('diagnostics drop Java stack traces, and keep the end of a long text', () => {
  expect(explain('Boom\n\tat org.apache.hadoop.Some.method(Some.java:1)\nCaused')).toBe('Boom\nCaused');
  const long = explain(`start${'x'.repeat(10_000)}end`);
  expect(long.length).toBeLessThanOrEqual(4001);
  expect(long.endsWith('end')).toBe(true);
  expect(explain('')).toMatch(/does not report why/);
});

test("waitingReason returns YARN's reason without the table of details", () => {
  expect(waitingReason(QUEUE_FULL)).toBe(
    "Application is added to the scheduler and is not yet activated. Queue's AM resource limit exceeded.",
  );
  expect(waitingReason(ACTIVATED)).toBe('Application is Activated, waiting for resources to be assigned for AM.');
  expect(waitingReason(ACTIVATED, 'no node has 1 vcore free for ApplicationMaster: none has any')).toBe(
    'Application is Activated, waiting for resources to be assigned for AM: no node has 1 vcore free for ApplicationMaster: none has any.',
  );
  expect(waitingReason('')).toBe('');
});

test('awaitedPartition returns the partition on which the ApplicationMaster waits for resources', () => {
  expect(awaitedPartition(ACTIVATED)).toBe('');
  expect(awaitedPartition(ACTIVATED.replace('<DEFAULT_PARTITION>', 'a100'))).toBe('a100');
  expect(awaitedPartition(QUEUE_FULL)).toBeNull();
  expect(awaitedPartition('Application is Activated, waiting for resources to be assigned for AM.')).toBeNull();
});
