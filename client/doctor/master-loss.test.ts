import { expect, test } from 'vitest';
import { masterLoss } from './master-loss.ts';

const settings = (master: string, node: string) =>
  new Map([
    ['yarn.am.liveness-monitor.expiry-interval-ms', master],
    ['yarn.nm.liveness-monitor.expiry-interval-ms', node],
  ]);

test("YARN's default intervals are doubtful: programs end before the next ApplicationMaster starts", () => {
  const verdict = masterLoss(new Map());
  expect(verdict).toEqual(masterLoss(settings('600000', '600000')));
  expect(verdict).toMatchObject({
    state: 'doubtful',
    text: 'the ResourceManager replaces an ApplicationMaster on a lost node within 13 min 20 s; programs continue without one for 2 min',
    remedy: expect.stringContaining('Lower yarn.am.liveness-monitor.expiry-interval-ms to 60000. '),
  });
});

test('the shorter interval determines the result, and the suggested value passes the check', () => {
  expect(masterLoss(settings('60000', '600000')).state).toBe('good');
  expect(masterLoss(settings('600000', '10000'))).toMatchObject({ state: 'good', text: expect.stringContaining('within 14 s') });
  expect(masterLoss(settings('67500', '600000')).state).toBe('good');
  expect(masterLoss(settings('67501', '600000')).state).toBe('doubtful');
});
