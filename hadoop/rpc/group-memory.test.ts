import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { GroupMemory } from './group-memory.ts';

function memory(ask: (user: string) => Promise<readonly string[]> = async (user) => [`${user}s`]) {
  const asked: string[] = [];
  const clock = { now: 0 };
  const groups = new GroupMemory(
    (user) => {
      asked.push(user);
      return ask(user);
    },
    () => clock.now,
  );
  return { groups, asked, clock };
}

test('queries the groups of a user again only after a minute', async () => {
  const { groups, asked, clock } = memory();
  expect(await groups.of(['alice', 'bob', 'alice'])).toEqual(
    new Map([
      ['alice', ['alices']],
      ['bob', ['bobs']],
    ]),
  );
  expect(asked).toEqual(['alice', 'bob']);
  clock.now = 59_999;
  expect([...(await groups.of(['bob', 'carol'])).keys()]).toEqual(['bob', 'carol']);
  expect(asked).toEqual(['alice', 'bob', 'carol']);
  clock.now = 60_000;
  expect((await groups.of(['alice', 'carol'])).get('alice')).toEqual(['alices']);
  expect(asked).toEqual(['alice', 'bob', 'carol', 'alice']);
});

test('sends at most eight queries at a time', async () => {
  let open = 0;
  let most = 0;
  const { groups } = memory(async (user) => {
    open += 1;
    most = Math.max(most, open);
    await turn();
    open -= 1;
    return [user];
  });
  const users = Array.from({ length: 50 }, (_, number) => `u${number}`);
  expect(await groups.of(users)).toEqual(new Map(users.map((user) => [user, [user]])));
  expect(most).toBe(8);
});

test('starts no further query after a failure, and does not cache the failure', async () => {
  let away = true;
  const { groups, asked } = memory(async (user) => {
    await turn();
    if (away && user === 'u3') {
      throw new Error('the NameNode is away');
    }
    return [user];
  });
  const users = Array.from({ length: 50 }, (_, number) => `u${number}`);
  await expect(groups.of(users)).rejects.toThrow('the NameNode is away');
  for (let turns = 0; turns < 20; turns += 1) {
    await turn();
  }
  expect(asked.length).toBeLessThan(16);
  away = false;
  expect((await groups.of(users)).size).toBe(50);
});
