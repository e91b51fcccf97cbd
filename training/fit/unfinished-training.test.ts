import { expect, test } from 'vitest';
import { useGangs } from '../testing/gang.ts';

const gangs = useGangs();

test.each([
  ['in the middle of fit', 'step-12', 1, 'step 12, in epoch 1 of 4'],
  ['before the last checkpoint is written', 'step-80', 1, 'step 80, in epoch 4 of 4'],
] as const)('a program that exits with code 0 %s fails and reports its position', async (_, at, code, place) => {
  const { workers } = await gangs.start({ name: `exit-${at}`, workers: 1, exitAt: at });
  const [worker] = workers;
  expect(await worker?.exited).toBe(code);
  expect(worker?.stderr()).toContain(`the program exited with code 0 before training was complete (${place})`);
  expect(await worker?.reports()).toContainEqual({
    type: 'notice',
    message: expect.stringContaining(`before training was complete (${place}), so the task fails`),
  });
});

test.each(['closed-step-12', 'train-end', 'end'] as const)(
  'a program that exits with code 0 succeeds if training is complete or the cluster is closed (%s)',
  { timeout: 120_000 },
  async (at) => {
    const { workers } = await gangs.start({ name: `exit-${at}`, workers: 1, exitAt: at });
    const [worker] = workers;
    expect(await worker?.exited).toBe(0);
    expect(worker?.stderr()).not.toContain('before training was complete');
  },
);

test('a rank that exits with code 0 in the middle of fit is lost for the other ranks', async () => {
  const { workers } = await gangs.start({ name: 'exit-one', workers: 2, exitAt: 'step-12', exiting: [1] });
  expect(await workers[1]?.exited).toBe(1);
  expect(await workers[0]?.exited).toBe(1);
  expect(await workers[0]?.reports()).toContainEqual({ type: 'peer-lost', taskRank: 1 });
});
