import { expect, test } from 'vitest';
import { RequestQueue } from './request-queue.ts';

function ask(queue: RequestQueue, replies: (string | null)[]): number {
  expect(queue.reserve()).toBe(true);
  return queue.add('/request', 'arrow', (reply) => replies.push(reply));
}

test('each request goes to one process, in order, and its reply to its client', () => {
  const queue = new RequestQueue();
  const replies: (string | null)[] = [];
  const [first, second] = [ask(queue, replies), ask(queue, replies)];
  expect([queue.take()?.id, queue.take()?.id, queue.take()]).toEqual([first, second, null]);
  expect(queue.reply(second, '/two')).toBe(true);
  expect(queue.reply(first, '/one')).toBe(true);
  expect(replies).toEqual(['/two', '/one']);
});

test('requests that are being received count for the limit', () => {
  const queue = new RequestQueue();
  expect([1, 2, 3, 4, 5].map(() => queue.reserve())).toEqual([true, true, true, true, false]);
  queue.release();
  expect(queue.reserve()).toBe(true);
});

test('a withdrawn request keeps its file while the program reads it, and its reply has no reader', () => {
  const queue = new RequestQueue();
  const replies: (string | null)[] = [];
  const taken = ask(queue, replies);
  const waiting = ask(queue, replies);
  queue.take();
  queue.withdraw(taken);
  queue.withdraw(waiting);
  expect(replies).toEqual([null]);
  expect(queue.reply(taken, '/one')).toBe(false);
  expect(replies).toEqual([null, '/one']);
  expect(queue.take()).toBeNull();
});

test('the end of the program ends all requests', () => {
  const queue = new RequestQueue();
  const replies: (string | null)[] = [];
  ask(queue, replies);
  ask(queue, replies);
  queue.take();
  queue.close();
  expect(replies).toEqual([null, null]);
  expect(queue.take()).toBeNull();
});
