import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { Patience, patiently } from './patience.ts';

const AWAY = new TonyError('RM_UNREACHABLE', 'No ResourceManager answers.');

test('tolerates and reports once an outage of a cluster that has answered before', () => {
  let now = 0;
  const patience = new Patience(1000, () => now);
  expect(patience.answered()).toBeNull();
  expect(patience.missed(AWAY)).toBe('No ResourceManager answers. The job continues to run. Retrying.');
  now = 900;
  expect(patience.missed(AWAY)).toBeNull();
  expect(patience.answered()).toBe('The cluster is reachable again.');
  expect(patience.answered()).toBeNull();
  expect(patience.missed(AWAY)).not.toBeNull();
  now = 1901;
  expect(() => patience.missed(AWAY)).toThrow(AWAY);
});

test('throws the first connection error of a cluster that has never answered, and any other error', () => {
  const patience = new Patience();
  expect(() => patience.missed(AWAY)).toThrow(AWAY);
  patience.answered();
  const unknown = new TonyError('APPLICATION_UNKNOWN', 'No.');
  expect(() => patience.missed(unknown)).toThrow(unknown);
  expect(() => patience.missed(new TypeError('x'))).toThrow(TypeError);
});

test('retries work only while the cluster is unreachable, and stops when the caller aborts', async () => {
  let tries = 0;
  const late = async (): Promise<number> => {
    if (++tries < 3) {
      throw AWAY;
    }
    return tries;
  };
  expect(await patiently(late, { intervalMs: 1 })).toBe(3);
  await expect(patiently(() => Promise.reject(AWAY), { intervalMs: 1, patienceMs: 10 })).rejects.toThrow(AWAY);
  const unknown = new TonyError('APPLICATION_UNKNOWN', 'No.');
  await expect(patiently(() => Promise.reject(unknown), { intervalMs: 1 })).rejects.toThrow(unknown);
  const stop = new AbortController();
  const waiting = patiently(() => Promise.reject(AWAY), { signal: stop.signal });
  const hanging = patiently(() => new Promise(() => undefined), { signal: stop.signal });
  stop.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  await expect(hanging).rejects.toThrow('enough');
});
