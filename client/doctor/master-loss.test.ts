import { expect, test } from 'vitest';
import { masterLoss } from './verdicts.ts';

const settings = (master: string, node: string) =>
  new Map([
    ['yarn.am.liveness-monitor.expiry-interval-ms', master],
    ['yarn.nm.liveness-monitor.expiry-interval-ms', node],
  ]);

test("with YARN's default intervals, ranked programs continue until the next ApplicationMaster has started", () => {
  const verdict = masterLoss(new Map());
  expect(verdict).toEqual(masterLoss(settings('600000', '600000')));
  expect(verdict).toMatchObject({
    state: 'ok',
    message:
      'the ResourceManager replaces an ApplicationMaster on a lost node within 13 min 20 s; ranked programs continue without one for 13 min 50 s, all others for 2 min',
  });
});

test('the shorter interval determines the result', () => {
  expect(masterLoss(settings('600000', '10000'))).toMatchObject({
    state: 'ok',
    message: expect.stringMatching(/within 14 s; programs continue without one for 2 min$/),
  });
  expect(masterLoss(settings('7200000', '600000')).state).toBe('ok');
});

test('intervals beyond the longest lease give a warning', () => {
  expect(masterLoss(settings('7200000', '7200000'))).toMatchObject({
    state: 'warning',
    message: expect.stringContaining('for 30 min, all others'),
    hint: expect.stringContaining('Lower yarn.am.liveness-monitor.expiry-interval-ms to at most 600000. '),
  });
});
