import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { CREDENTIALS } from '../../conf/job.ts';
import { configurationOfNode } from '../../hadoop/configuration/remote/node-configuration.ts';
import { createJobSecrets } from './job-secrets.ts';

test('configurationOfNode reads the configuration of a node with a self-signed certificate', async () => {
  const secrets = createJobSecrets(Date.now(), '{}');
  const pem = (name: string) => Buffer.from(secrets.get(name)?.reveal() ?? []).toString();
  const conf =
    '<configuration><property><name>fs.defaultFS</name><value>hdfs://nn:9000</value><source>core-site.xml</source></property></configuration>';
  const server = createServer(
    { cert: pem(CREDENTIALS.certificate), key: pem(CREDENTIALS.privateKey) },
    (_, response) => void response.end(conf),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const refused = async () => {
    throw new Error('a login is required');
  };
  try {
    const { port } = server.address() as AddressInfo;
    expect((await configurationOfNode({ host: '127.0.0.1', port }, {}, 5_000, refused))?.defaultFs).toBe('hdfs://nn:9000');
  } finally {
    server.close();
  }
});
