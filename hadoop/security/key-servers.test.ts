import { expect, test } from 'vitest';
import { parseKeyServers } from './key-servers.ts';

test.each([
  ['kms://http@kms1:9600/kms', ['http://kms1:9600/kms'], 'kms://http@kms1:9600/kms'],
  ['kms://https@kms1.example.com:16000/kms/', ['https://kms1.example.com:16000/kms'], 'kms://https@kms1.example.com:16000/kms/'],
  ['kms://http@kms1;kms2:9600/kms', ['http://kms1:9600/kms', 'http://kms2:9600/kms'], 'kms://http@kms1;kms2:9600/kms'],
  ['kms://http@kms1/kms', ['http://kms1:9600/kms'], 'kms://http@kms1/kms'],
  ['kms://http@[::1]:9600/kms#later', ['http://[::1]:9600/kms'], 'kms://http@[::1]:9600/kms'],
])('%s', (uri, addresses, service) => {
  expect(parseKeyServers(uri)).toEqual({ addresses, service });
});

test.each(['', 'jceks://file/etc/keys', 'kms://kms1:9600/kms', 'kms://ftp@kms1:9600/kms', 'kms://http@;:9600/kms'])(
  'no key servers: %j',
  (uri) => {
    expect(parseKeyServers(uri)).toBeNull();
  },
);
