import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import type { Credentials } from '../../hadoop/rpc/credentials.ts';
import { Secret } from '../../platform/secret.ts';
import { pagesTls } from './pages-tls.ts';

const golden = (name: string): Promise<Buffer> => readFile(new URL(`../../hadoop/golden/tls/${name}`, import.meta.url));
const SILENT = pino({ level: 'silent' });
const PLAIN = HadoopConfiguration.fromProperties({});

async function credentials(password = 'secret1'): Promise<Credentials> {
  const secrets = {
    'yarn.application.am.keystore': await golden('keystore.jks'),
    'yarn.application.am.keystore.password': Buffer.from(password),
    'yarn.application.am.truststore': await golden('truststore.jks'),
    'yarn.application.am.truststore.password': Buffer.from('secret1'),
  };
  return { tokens: [], secrets: new Map(Object.entries(secrets).map(([name, bytes]) => [name, new Secret(bytes)])) };
}

test('the pages use the key that the ResourceManager created for the application', async () => {
  const tls = pagesTls(await credentials(), PLAIN, SILENT);
  expect(new X509Certificate(tls?.certificate ?? '').subject).toBe('CN=application_1_0001');
  expect(new X509Certificate(tls?.certificate ?? '').checkPrivateKey(createPrivateKey(tls?.key ?? ''))).toBe(true);
  expect(tls?.clientAuthority).toBe((await golden('ca.pem')).toString());
});

test('the pages use plain HTTP if the key is missing or unreadable, or if the proxy does not know the certificate authority', async () => {
  expect(pagesTls({ tokens: [], secrets: new Map() }, PLAIN, SILENT)).toBeNull();
  expect(pagesTls(await credentials('wrong'), PLAIN, SILENT)).toBeNull();
  const separate = HadoopConfiguration.fromProperties({ 'yarn.web-proxy.address': 'proxy:9099' });
  expect(pagesTls(await credentials(), separate, SILENT)).toBeNull();
});
