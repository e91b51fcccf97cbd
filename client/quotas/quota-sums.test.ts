import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CountedJob, placeJobs } from '../../conf/quota-order.ts';
import { type Owner, takenBy } from '../../conf/quotas.ts';
import { parseSite } from '../../conf/resolve/site.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { quotaSums } from './quota-sums.ts';
import { quotaUsageLines } from './quota-usage-lines.ts';

function quotas(text: string) {
  return parseSite(`quotas:\n${text.replace(/^/gm, '  ')}`, 'tony-site.yaml');
}

const GROUPS: Readonly<Record<string, readonly string[]>> = { alice: ['research'], bob: ['research', 'students'] };

function job(number: number, user: string, gpus: number, { queue = 'gpu', has = gpus, role = 'worker' } = {}): CountedJob {
  const owner: Owner = { user, groups: GROUPS[user] ?? [], queue };
  const declared = { instances: gpus, memory: gpus * 1024, gpus };
  const tasks = { gpus: has, memory: has * 1024 };
  return {
    jobId: `j${number}`,
    ...owner,
    ...takenBy({ roles: { [role]: declared }, peak: declared, master: {} }, tasks, {}),
    holds: has > 0,
    held: { tasks, master: {} },
  };
}

/** Formats each total as `path who used/limit [jobs] [waiting jobs]`. */
function linesOf(text: string, jobs: readonly CountedJob[]): string[] {
  return quotaSums(quotas(text), jobs).totals.map(
    ({ path, user, group, queue, role, used, limit, jobs: ids, waiting }) =>
      `${path} ${user ?? group ?? queue ?? '-'}/${role ?? '-'} ${used}/${limit} [${ids}] [${waiting}]`,
  );
}

test('each total sums the resources of running jobs, by role, user, group and queue', () => {
  const text = `
roles: {worker: {total: {gpus: 8}}}
users: {alice: {total: {gpus: 4}}}
groups: {research: {total: {instances: 9, memory: 4g}}}
queues: {gpu: {roles: {worker: {total: {gpus: 4}}}}}`;
  expect(linesOf(text, [job(1, 'alice', 3), job(2, 'bob', 1, { queue: 'default' }), job(3, 'carol', 1, { role: 'ps' })])).toEqual([
    'quotas.roles.worker.total.gpus -/worker 4/8 [j1,j2] []',
    'quotas.users.alice.total.gpus alice/- 3/4 [j1] []',
    'quotas.groups.research.total.memory research/- 4096/4096 [j1,j2] []',
    'quotas.groups.research.total.instances research/- 4/9 [j1,j2] []',
    'quotas.queues.gpu.roles.worker.total.gpus gpu/worker 3/4 [j1] []',
  ]);
});

test('"*" becomes one row for each unlisted name that uses resources, or a row "*" if none does', () => {
  const text = `users: {alice: {total: {gpus: 4}}, '*': {total: {gpus: 2}}}\nqueues: {'*': {roles: {'*': {total: {gpus: 3}}}}}`;
  expect(linesOf(text, [job(1, 'carol', 2), job(2, 'bob', 1, { role: 'chief' })])).toEqual([
    'quotas.users.alice.total.gpus alice/- 0/4 [] []',
    'quotas.users.*.total.gpus bob/- 1/2 [j2] []',
    'quotas.users.*.total.gpus carol/- 2/2 [j1] []',
    'quotas.queues.*.roles.*.total.gpus gpu/chief 1/3 [j2] []',
    'quotas.queues.*.roles.*.total.gpus gpu/worker 2/3 [j1] []',
  ]);
  expect(linesOf(text, [])).toEqual([
    'quotas.users.alice.total.gpus alice/- 0/4 [] []',
    'quotas.users.*.total.gpus */- 0/2 [] []',
    'quotas.queues.*.roles.*.total.gpus */* 0/3 [] []',
  ]);
});

test('a waiting job uses nothing, and counts as waiting only for the totals that it would exceed', () => {
  const text = 'queues: {gpu: {total: {gpus: 4}}}\nusers: {bob: {total: {gpus: 8}}}';
  const jobs = [job(1, 'alice', 3), job(2, 'bob', 3, { has: 0 })];
  expect(linesOf(text, jobs)).toEqual(['quotas.users.bob.total.gpus bob/- 0/8 [] []', 'quotas.queues.gpu.total.gpus gpu/- 3/4 [j1] [j2]']);
  expect(quotaSums(quotas(text), jobs).waiting).toEqual([
    {
      id: 'j2',
      user: 'bob',
      queue: 'gpu',
      shortages: [{ path: 'quotas.queues.gpu.total.gpus', resource: 'gpus', limit: 4, asked: 3, used: 3, holders: ['j1'], holderCount: 1 }],
    },
  ]);
  // A job that has just been admitted does not have containers yet.
  expect(linesOf(text, [job(1, 'alice', 3, { has: 0 })])[1]).toBe('quotas.queues.gpu.total.gpus gpu/- 3/4 [j1] []');
});

test('a started job takes precedence over an earlier job that has not started', () => {
  const text = 'roles: {worker: {total: {gpus: 4}}}';
  expect(linesOf(text, [job(1, 'alice', 3, { has: 0 }), job(2, 'bob', 3)])).toEqual([
    'quotas.roles.worker.total.gpus -/worker 3/4 [j2] [j1]',
  ]);
});

test("resources that exceed a job's tags count for every role, and are reported", () => {
  const sums = quotaSums(quotas('roles: {worker: {total: {gpus: 8}}, ps: {total: {gpus: 8}}}'), [job(1, 'eve', 1, { has: 3 })]);
  expect(sums.totals.map(({ used }) => used)).toEqual([3, 2]);
  expect(sums.undeclared).toEqual([{ id: 'j1', user: 'eve', beyond: { gpus: 2, memory: 2048 } }]);
});

test('jobs that hold at most the resources in their tags stay within the total', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), fc.constantFrom('alice', 'bob', 'carol')), { maxLength: 12 }),
      (asked) => {
        const jobs = asked.map(([gpus, user], index) => job(index, user, gpus, { has: 0 }));
        const { totals, waiting } = quotaSums(quotas('queues: {gpu: {total: {gpus: 6}}}'), jobs);
        expect(totals[0]?.used).toBeLessThanOrEqual(6);
        expect((totals[0]?.jobs.length ?? 0) + waiting.length).toBe(jobs.length);
      },
    ),
  );
});

test('the table fits 80 columns and states why each job waits', () => {
  const text = `groups: {research: {total: {gpus: 10, memory: 8g}}}\nqueues: {gpu: {roles: {worker: {total: {gpus: 4}}}}}`;
  const sums = quotaSums(quotas(text), [job(1, 'alice', 3), job(2, 'bob', 3, { has: 0 }), job(3, 'eve', 1, { queue: 'q', has: 2 })]);
  const lines = quotaUsageLines({ from: 'hdfs://nn:8020/apps/tony-ts/site.yaml', over: 'wait', ...sums }, terminalOf({ columns: 80 }));
  expect(lines).toEqual([
    'set in hdfs://nn:8020/apps/tony-ts/site.yaml; a job that would exceed a total',
    'waits',
    'WHO                     OF       USED  LIMIT  FULL  JOBS  WAITING',
    'group research          memory  3 GiB  8 GiB  37 %     1        -',
    'group research          gpus        3     10  30 %     1        -',
    'queue gpu, role worker  gpus        3      4  75 %     1        1',
    'j2 of bob waits: quotas.queues.gpu.roles.worker.total.gpus is 4 gpus; the job',
    '  requests 3 gpus, and j1 holds or requests 3 gpus.',
    'j3 of eve holds 1 gpu, 1 GiB of memory more than its tags declare; the excess',
    '  counts against every role.',
  ]);
});

test('nearly full totals are yellow, full ones red', () => {
  const sums = quotaSums(quotas('users: {alice: {total: {gpus: 10}}, bob: {total: {gpus: 10}}, carol: {total: {gpus: 10}}}'), [
    job(1, 'alice', 8),
    job(2, 'bob', 9),
    job(3, 'carol', 10),
  ]);
  const colours = terminalOf({ isTTY: true, columns: 80 }, { TERM: 'xterm' });
  const lines = quotaUsageLines({ from: 'x', over: 'wait', ...sums }, colours).slice(2);
  expect(lines.map((line) => /\[(3\d)m *\d+ %/.exec(line)?.[1])).toEqual(['32', '33', '31']);
});

test('the table contains no control characters from names', () => {
  const name = 'mal\x1b]52;c;ZXZpbA==\x07\u202elory';
  const sums = quotaSums(quotas('users: {"*": {total: {gpus: 1}}}'), [job(1, name, 1), job(2, name, 1, { has: 0 })]);
  const lines = quotaUsageLines({ from: name, over: 'wait', ...sums }, terminalOf({ columns: 200 })).join('\n');
  expect(lines).toContain('mallory');
  expect(lines).not.toMatch(/(?!\n)\p{Cc}|\u202e|52;c/u);
});

test.each([
  ['in one queue', () => 'alice'],
  ['of as many users', (index: number) => `user${index}`],
])('the order and the sums of waiting and running jobs %s read each job a constant number of times', (_name, userOf) => {
  const limits = quotas(`roles: {'*': {total: {memory: 8g}}}\nusers: {'*': {total: {memory: 3g}}}\nqueues: {'*': {total: {memory: 9g}}}`);
  const readsOf = (count: number): number => {
    let reads = 0;
    const jobOf = (index: number): CountedJob => {
      const demand = { memory: 512, instances: 1 };
      const job: CountedJob = {
        ...{ jobId: `j${index}`, user: userOf(index), groups: [], queue: 'default' },
        ...{ roles: { [`role${index}`]: demand }, peak: demand, master: { memory: 1024 }, beyond: {} },
        ...{ holds: index % 2 === 0, held: { tasks: demand, master: { memory: 1024 } } },
      };
      return new Proxy(job, {
        get: (target, key, receiver) => {
          reads += 1;
          return Reflect.get(target, key, receiver);
        },
      });
    };
    const all = Array.from({ length: count }, (_, index) => jobOf(index));
    expect(placeJobs(limits, all).placed).toHaveLength(count);
    quotaSums(limits, all);
    return reads;
  };
  const [once, fourTimes] = [readsOf(100), readsOf(400)];
  expect(fourTimes).toBeGreaterThan(once);
  expect(fourTimes / once).toBeLessThan(5);
});
