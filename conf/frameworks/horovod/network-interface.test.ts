import { expect, it } from 'vitest';
import { interfaceOfHost, interfaceWith } from './network-interface.ts';

it('finds the interface by the address of the host', async () => {
  const interfaces = { lo: [{ address: '127.0.0.1' }, { address: '::1' }], eth0: [{ address: '10.0.0.5' }], down: undefined };
  expect(interfaceWith(['fe80::1', '10.0.0.5'], interfaces)).toBe('eth0');
  expect(interfaceWith(['10.0.0.6'], interfaces)).toBeNull();
  expect(await interfaceOfHost('127.0.0.1')).toBe('lo');
  expect(await interfaceOfHost('no-such-host.invalid')).toBeNull();
});
