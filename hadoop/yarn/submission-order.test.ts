import { expect, test } from 'vitest';
import type { ApplicationFilter } from './resource-manager.ts';
import type { Application } from './resource-manager-answers.ts';
import { inOrderOfSubmission, submittedBefore } from './submission-order.ts';

interface Submission {
  readonly id: string;
  readonly startedAt: number;
  readonly hidden?: boolean;
}

const app = (number: number, startedAt: number, hidden = false): Submission => ({ id: `application_100_${number}`, startedAt, hidden });

/** Responds like a ResourceManager: filters by the real submission times, but hides the times that the caller has no permission to view. */
function cluster(applications: readonly Submission[]) {
  const filters: ApplicationFilter[] = [];
  const answer = ({ submitted: { from = 0, to = Number.MAX_SAFE_INTEGER } = {} }: ApplicationFilter = {}) =>
    applications
      .filter(({ startedAt }) => startedAt >= from && startedAt <= to)
      .map(({ id, startedAt, hidden }) => ({ id, startedAt: hidden ? 0 : startedAt }) as Application);
  return {
    filters,
    all: answer(),
    resourceManager: {
      applications: async (filter?: ApplicationFilter) => {
        filters.push(filter ?? {});
        return answer(filter);
      },
    },
  };
}

async function before(own: Submission, others: readonly Submission[]): Promise<string[]> {
  const { all, resourceManager } = cluster([own, ...others]);
  return [...(await submittedBefore({ id: own.id, startedAt: own.hidden ? 0 : own.startedAt }, all, resourceManager, {}))].sort();
}

test('orders applications by submission time, and by ID only within the same millisecond', async () => {
  const others = [app(4, 1001), app(6, 999), app(3, 1000), app(7, 1000), { id: 'application_1_1', startedAt: 1001 }];
  expect(await before(app(5, 1000), others)).toEqual(['application_100_3', 'application_100_6']);
});

test('a user who may not view other applications finds the same order by querying time spans', async () => {
  const others = [app(4, 1001, true), app(6, 999, true), app(3, 1000, true), app(7, 1000, true), app(2, 998)];
  expect(await before(app(5, 1000), others)).toEqual(['application_100_2', 'application_100_3', 'application_100_6']);
});

test('queries time spans with the same filter, and only when a time is hidden', async () => {
  const filter = { types: ['TONY'], states: ['RUNNING'] } as const;
  const open = cluster([app(5, 1000), app(4, 1001)]);
  await submittedBefore(app(5, 1000), open.all, open.resourceManager, filter);
  expect(open.filters).toEqual([]);
  const closed = cluster([app(5, 1000), app(4, 1001, true)]);
  await submittedBefore(app(5, 1000), closed.all, closed.resourceManager, filter);
  expect(closed.filters).toEqual([
    { ...filter, submitted: { to: 999 } },
    { ...filter, submitted: { from: 1000, to: 1000 } },
  ]);
});

test("orders by ID when even the application's own time is hidden; malformed IDs cause no error", async () => {
  const ids = [
    'application_99_9',
    'application_100_10',
    'application_101_1',
    'application_-3_1',
    `application_${'9'.repeat(19)}_1`,
    'application_x',
  ];
  const others = ids.map((id) => ({ id, startedAt: 5, hidden: true }));
  expect(await before(app(6, 7, true), others)).toEqual(['application_-3_1', 'application_99_9', 'application_x']);
});

test('orders all applications, and puts an application with a hidden time after all lower IDs', () => {
  const order = (...all: Submission[]) => inOrderOfSubmission(all).map(({ id }) => Number(id.split('_')[2]));
  expect(order(app(5, 30), app(6, 20), app(7, 20))).toEqual([6, 7, 5]);
  expect(order(app(9, 0), app(7, 40), app(6, 50), app(10, 60), app(8, 0), app(1, 0))).toEqual([1, 7, 6, 8, 9, 10]);
});
