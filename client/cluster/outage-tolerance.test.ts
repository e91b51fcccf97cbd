import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { OutageTolerance, toleratingOutages } from './outage-tolerance.ts';

const AWAY = new TonyError('RM_UNREACHABLE', 'No ResourceManager answers.');

test('tolerates and reports once an outage of a cluster that has answered before', () => {
  let now = 0;
  const outage = new OutageTolerance(1000, () => now);
  expect(outage.answered()).toBeNull();
  expect(outage.missed(AWAY)).toBe('No ResourceManager answers. The job continues to run. Retrying.');
  now = 900;
  expect(outage.missed(AWAY)).toBeNull();
  expect(outage.answered()).toBe('The cluster is reachable again.');
  expect(outage.answered()).toBeNull();
  expect(outage.missed(AWAY)).not.toBeNull();
  now = 1901;
  expect(() => outage.missed(AWAY)).toThrow(AWAY);
});

test('waits for a new Kerberos ticket without a limit', () => {
  let now = 0;
  const outage = new OutageTolerance(1000, () => now);
  const expired = new TonyError('KERBEROS_TICKET_EXPIRED', 'The ticket of alice expired.');
  expect(() => outage.missed(expired)).toThrow(expired);
  outage.answered();
  expect(outage.missed(AWAY)).toContain('Retrying.');
  expect(outage.missed(expired)).toBe(
    'The ticket of alice expired. The job continues to run. In another terminal, run kinit: this command then continues.',
  );
  now = 100_000;
  expect(outage.missed(expired)).toBeNull();
  expect(outage.answered()).toBe('The new Kerberos ticket is valid.');
});

test('throws the first connection error of a cluster that has never answered, and any other error', () => {
  const outage = new OutageTolerance();
  expect(() => outage.missed(AWAY)).toThrow(AWAY);
  outage.answered();
  const unknown = new TonyError('JOB_NOT_FOUND', 'No.');
  expect(() => outage.missed(unknown)).toThrow(unknown);
  expect(() => outage.missed(new TypeError('x'))).toThrow(TypeError);
});

test('retries work only while the cluster is unreachable, and stops when the caller aborts', async () => {
  let tries = 0;
  const late = async (): Promise<number> => {
    if (++tries < 3) {
      throw AWAY;
    }
    return tries;
  };
  expect(await toleratingOutages(late, { intervalMs: 1 })).toBe(3);
  await expect(toleratingOutages(() => Promise.reject(AWAY), { intervalMs: 1, maxWaitMs: 10 })).rejects.toThrow(AWAY);
  const unknown = new TonyError('JOB_NOT_FOUND', 'No.');
  await expect(toleratingOutages(() => Promise.reject(unknown), { intervalMs: 1 })).rejects.toThrow(unknown);
  const stop = new AbortController();
  const waiting = toleratingOutages(() => Promise.reject(AWAY), { signal: stop.signal });
  const hanging = toleratingOutages(() => new Promise(() => undefined), { signal: stop.signal });
  stop.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  await expect(hanging).rejects.toThrow('enough');
});
