import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CREDENTIALS, type Job } from '../../conf/job.ts';
import { TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import { objectStoreOf } from './job-object-store.ts';
import { createJobSecrets, selfSignedCertificate } from './job-secrets.ts';

function pem(secrets: ReturnType<typeof createJobSecrets>): { cert: string; key: string } {
  const text = (name: string): string => Buffer.from(secrets.get(name)?.reveal() ?? []).toString();
  return { cert: text(CREDENTIALS.certificate), key: text(CREDENTIALS.privateKey) };
}

async function handshake(server: { cert: string; key: string }, client: { cert: string; key: string }): Promise<string> {
  const listener = createServer({ ...server, ca: server.cert, requestCert: true, rejectUnauthorized: true, minVersion: 'TLSv1.3' });
  listener.on('secureConnection', (socket: TLSSocket) => socket.end('welcome'));
  listener.on('tlsClientError', () => undefined);
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  try {
    const socket = connect({
      host: '127.0.0.1',
      port: (listener.address() as AddressInfo).port,
      ...client,
      ca: client.cert,
      servername: 'tony-ts',
      minVersion: 'TLSv1.3',
    });
    let received = '';
    for await (const chunk of socket) {
      received += chunk;
    }
    return received;
  } finally {
    listener.close();
  }
}

test("both ends of a TLS 1.3 connection with client certificates accept a job's certificate", async () => {
  const job = pem(createJobSecrets(Date.now(), '{}'));
  expect(await handshake(job, job)).toBe('welcome');
});

test('each end rejects the certificate of another job', async () => {
  const [job, other] = [pem(createJobSecrets(Date.now(), '{}')), pem(createJobSecrets(Date.now(), '{}'))];
  await expect(handshake(job, other)).rejects.toThrow(/self-signed|certificate/);
  await expect(handshake(job, { ...other, cert: job.cert })).rejects.toThrow();
});

test('each job has its own secret and certificate, and the certificate is valid even if a clock is one day behind', () => {
  const now = Date.parse('2049-12-30T00:00:00Z');
  const [job, other] = [createJobSecrets(now, '{}'), createJobSecrets(now, '{}')];
  expect(job.get(CREDENTIALS.jobSecret)?.reveal()).toHaveLength(32);
  expect(job.get(CREDENTIALS.jobSecret)?.reveal()).not.toEqual(other.get(CREDENTIALS.jobSecret)?.reveal());
  const certificate = new X509Certificate(pem(job).cert);
  expect(new Date(certificate.validFrom).toISOString()).toBe('2049-12-29T00:00:00.000Z');
  expect(new Date(certificate.validTo).toISOString()).toBe('2050-12-30T00:00:00.000Z');
  expect(certificate.checkPrivateKey(createPrivateKey(pem(job).key))).toBe(true);
  expect(JSON.stringify([...job])).not.toContain('BEGIN');
});

test('a certificate with any serial number and name verifies its own signature', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 20 }), fc.stringMatching(/^[a-z]{1,60}$/), (serial, name) => {
      const at = { notBefore: new Date(0), notAfter: new Date(1e12) };
      const certificate = new X509Certificate(selfSignedCertificate({ name, serial, privateKey, ...at }));
      expect(certificate.verify(publicKey)).toBe(true);
      expect(certificate.subjectAltName).toBe(`DNS:${name}`);
      expect(BigInt(`0x${certificate.serialNumber}`)).toBe(BigInt(`0x${Buffer.from(serial).toString('hex')}`));
    }),
  );
});

test('only a job that names an s3:// URI receives an access key', async () => {
  const key = { accessKeyId: 'A', secretAccessKey: new Secret(Buffer.from('hidden')), sessionToken: null };
  const connection = { endpoint: null, region: 'eu-west-1', pathStyle: false, ...key };
  const find = async (bucket: string) => {
    if (bucket === '') {
      throw new TonyError('S3_CREDENTIALS_NOT_FOUND', 'none');
    }
    return { ...connection, region: bucket };
  };
  const job = (dir: string) => ({ checkpoint: { dir } }) as unknown as Job;
  expect(await objectStoreOf(job('hdfs:///s3/x'), find)).toBeNull();
  await expect(objectStoreOf(job('s3://$BUCKET/x'), find)).rejects.toMatchObject({ code: 'S3_CREDENTIALS_NOT_FOUND' });
  const s3 = await objectStoreOf(job('S3A://my.bucket/x s3://second'), find);
  expect(s3).toMatchObject({ buckets: { 'my.bucket': { region: 'my.bucket' }, second: { region: 'second' } }, others: null });
  expect(createJobSecrets(Date.now(), '{}').has(CREDENTIALS.s3)).toBe(false);
  const secret = createJobSecrets(Date.now(), '{}', s3).get(CREDENTIALS.s3);
  expect(String(secret)).toBe('***');
  expect(Buffer.from(secret?.reveal() ?? []).toString()).toContain('hidden');
});
