import { expect, test } from 'vitest';
import { MasterSilence, silenceText } from './master-silence.ts';

const unanswered = () => Promise.reject(new Error('no answer within 2000 ms'));

test('measures the silence from the first unanswered request until the next answer', async () => {
  let now = 1_000;
  const silence = new MasterSilence(() => now);
  expect(await silence.ask(async () => 'RUNNING')).toBe('RUNNING');
  expect(silence.ms).toBeNull();
  const late = async () => {
    now += 2_000;
    return unanswered();
  };
  expect(await silence.ask(late)).toBeNull();
  expect(silence.ms).toBe(2_000);
  now += 10_000;
  expect(await silence.ask(late)).toBeNull();
  expect(silence.ms).toBe(14_000);
  now += 10_000;
  expect(await silence.ask(async () => 'RUNNING')).toBe('RUNNING');
  expect(silence.ms).toBeNull();
});

test('pauses between requests to a hung ApplicationMaster', async () => {
  let now = 0;
  let asked = 0;
  const silence = new MasterSilence(() => now);
  const question = () => {
    asked++;
    return unanswered();
  };
  for (; now < 20_000; now += 100) {
    await silence.ask(question);
  }
  expect(asked).toBe(4);
  silence.end();
  await silence.ask(question);
  expect(asked).toBe(5);
});

test('states how long the ApplicationMaster has been silent', () => {
  expect(silenceText(14_300)).toBe('The ApplicationMaster has not answered for 14 s.');
});
