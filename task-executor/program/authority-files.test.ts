import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { rootCertificates } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { authorityEnvironment } from './task-folder.ts';

const PEM = '-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----';
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-authority-files-test-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test("programs get one file with the cluster's authorities and one that also contains the system's", async () => {
  const system = path.join(folder, 'system.crt');
  await writeFile(system, 'BEGIN CERTIFICATE of the system');
  const variables = await authorityEnvironment(folder, PEM, {}, [path.join(folder, 'none'), system]);
  expect(Object.keys(variables).sort()).toEqual(['CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS', 'REQUESTS_CA_BUNDLE', 'SSL_CERT_FILE']);
  expect(await readFile(variables.NODE_EXTRA_CA_CERTS ?? '', 'utf8')).toBe(`${PEM}\n`);
  expect(await readFile(variables.SSL_CERT_FILE ?? '', 'utf8')).toBe(`BEGIN CERTIFICATE of the system\n${PEM}\n`);
});

test('on a system without a file of public authorities, programs get the authorities of Node.js', async () => {
  const { SSL_CERT_FILE = '' } = await authorityEnvironment(folder, PEM, {}, []);
  expect(await readFile(SSL_CERT_FILE, 'utf8')).toBe(`${rootCertificates.join('\n')}\n${PEM}\n`);
});

test('variables of the job or of the node take precedence, and a cluster without its own authorities changes nothing', async () => {
  const set = { SSL_CERT_FILE: '/own.pem', NODE_EXTRA_CA_CERTS: '' };
  expect(Object.keys(await authorityEnvironment(folder, PEM, set))).toEqual(['REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE']);
  expect(await authorityEnvironment(folder, '', {})).toEqual({});
});
