import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  applicationOf,
  formatApplicationId,
  formatContainerId,
  isApplicationId,
  parseApplicationId,
  parseContainerId,
} from './application-id.ts';

test('parses IDs as a real cluster writes them', () => {
  expect(parseApplicationId('application_1795225023264_0003')).toEqual({ clusterTimestamp: 1795225023264, sequence: 3 });
  expect(parseContainerId('container_e01_1795225023264_0001_01_000002')).toEqual({
    epoch: 1,
    application: { clusterTimestamp: 1795225023264, sequence: 1 },
    attempt: 1,
    sequence: 2,
  });
  expect(applicationOf('container_1795225023264_12345_02_000001')).toBe('application_1795225023264_12345');
});

test('formatting and parsing are inverse operations', () => {
  const application = fc.record({ clusterTimestamp: fc.nat(2_000_000_000_000), sequence: fc.nat(999_999_999) });
  const container = fc.record({ epoch: fc.nat(999), application, attempt: fc.nat(999), sequence: fc.nat(999_999_999) });
  fc.assert(fc.property(application, (id) => void expect(parseApplicationId(formatApplicationId(id))).toEqual(id)));
  fc.assert(fc.property(container, (id) => void expect(parseContainerId(formatContainerId(id))).toEqual(id)));
});

test.each(['', 'application_1', 'application_1_', 'job_1_1', 'application_1_1/../x', ' application_1_1'])(
  'rejects %j as an application ID',
  (text) => {
    expect(isApplicationId(text)).toBe(false);
    expect(() => parseApplicationId(text)).toThrow('is not an application ID');
    expect(() => parseContainerId(text)).toThrow('is not a container ID');
  },
);
