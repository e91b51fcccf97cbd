import { expect, test } from 'vitest';
import { bracketed, formatAddress } from './address.ts';

test('only an IPv6 address is enclosed in brackets', () => {
  expect(['node-1', '10.0.0.1', '::1'].map(bracketed)).toEqual(['node-1', '10.0.0.1', '[::1]']);
  expect(formatAddress({ host: 'fe80::1', port: 4711 })).toBe('[fe80::1]:4711');
});
