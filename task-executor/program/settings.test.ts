import { expect, it } from 'vitest';
import { parseMasterAddress } from '../master/master-address.ts';
import { parseAddress, readSettings } from './settings.ts';

it('parses addresses', () => {
  expect(parseAddress('node-1:4711')).toEqual({ host: 'node-1', port: 4711 });
  expect(parseAddress('[::1]:4711')).toEqual({ host: '::1', port: 4711 });
  expect(parseAddress('::1:4711')).toEqual({ host: '::1', port: 4711 });
  for (const text of ['', 'node', ':1', 'node:', 'node:0', 'node:65536', 'node:1x']) {
    expect(() => parseAddress(text)).toThrow(expect.objectContaining({ code: 'CONTAINER_INVALID' }));
  }
});

it('the error names the missing environment variable', async () => {
  await expect(readSettings({}, '/nowhere')).rejects.toMatchObject({
    code: 'CONTAINER_INVALID',
    message: expect.stringContaining('HADOOP_TOKEN_FILE_LOCATION'),
  });
  await expect(readSettings({ HADOOP_TOKEN_FILE_LOCATION: '/nowhere/tokens' }, '/nowhere')).rejects.toMatchObject({
    code: 'CONTAINER_INVALID',
  });
});

it("reads the ApplicationMaster's address and ignores other fields", () => {
  expect(parseMasterAddress('{"host":"a","port":1,"attempt":2,"token":"x"}')).toEqual({ host: 'a', port: 1, attempt: 2 });
  expect(parseMasterAddress('{"host":"a","port":"1","attempt":2}')).toBeNull();
});
