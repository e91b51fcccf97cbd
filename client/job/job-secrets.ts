import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { CREDENTIALS } from '../../conf/job.ts';
import { Secret } from '../../platform/secret.ts';
import { encodeJobConnections, type JobConnections } from '../../storage/s3/s3-connection.ts';

/*
 * Structure of a self-signed certificate in DER (RFC 5280, section 4.1), with the fields that a job needs:
 *
 *   Certificate    SEQUENCE { TBSCertificate, AlgorithmIdentifier, BIT STRING signature }
 *   TBSCertificate SEQUENCE { [0] version, INTEGER serial, AlgorithmIdentifier, Name issuer, Validity, Name subject,
 *                             SubjectPublicKeyInfo, [3] Extensions }
 *
 * This file encodes certificates itself, because the Node.js crypto module can only parse certificates.
 */

const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const UTF8_STRING = 0x0c;
const GENERALIZED_TIME = 0x18;
const UTC_TIME = 0x17;
const SEQUENCE = 0x30;
const SET = 0x31;
/** dNSName in a GeneralName: context tag 2, primitive. */
const DNS_NAME = 0x82;
const explicit = (tag: number): number => 0xa0 | tag;

const ECDSA_WITH_SHA256 = der(SEQUENCE, oid('2a8648ce3d040302'));
const COMMON_NAME = oid('550403');
const KEY_USAGE = oid('551d0f');
const SUBJECT_ALT_NAME = oid('551d11');
const EXTENDED_KEY_USAGE = oid('551d25');
const SERVER_AUTH = oid('2b06010505070301');
const CLIENT_AUTH = oid('2b06010505070302');
const TRUE = Buffer.from('0101ff', 'hex');
/** BIT STRING with bit 0 of KeyUsage and seven bits of padding. */
const DIGITAL_SIGNATURE = Buffer.from('03020780', 'hex');

interface CertificateRequest {
  readonly name: string;
  readonly serial: Uint8Array;
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** P-256 key. */
  readonly privateKey: KeyObject;
}

/** Returns a self-signed certificate (PEM) for TLS servers and clients. */
export function selfSignedCertificate({ name, serial, notBefore, notAfter, privateKey }: CertificateRequest): string {
  const subject = der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, der(UTF8_STRING, Buffer.from(name)))));
  const extensions = der(
    SEQUENCE,
    der(SEQUENCE, KEY_USAGE, TRUE, der(OCTET_STRING, DIGITAL_SIGNATURE)),
    der(SEQUENCE, EXTENDED_KEY_USAGE, der(OCTET_STRING, der(SEQUENCE, SERVER_AUTH, CLIENT_AUTH))),
    der(SEQUENCE, SUBJECT_ALT_NAME, der(OCTET_STRING, der(SEQUENCE, der(DNS_NAME, Buffer.from(name))))),
  );
  const body = der(
    SEQUENCE,
    der(explicit(0), der(INTEGER, Buffer.from([2]))),
    der(INTEGER, unsigned(serial)),
    ECDSA_WITH_SHA256,
    subject,
    der(SEQUENCE, time(notBefore), time(notAfter)),
    subject,
    createPublicKey(privateKey).export({ type: 'spki', format: 'der' }),
    der(explicit(3), extensions),
  );
  const signature = sign('sha256', body, privateKey);
  const certificate = der(SEQUENCE, body, ECDSA_WITH_SHA256, der(BIT_STRING, Buffer.from([0]), signature));
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthOctets(content.length)]), content]);
}

function lengthOctets(length: number): number[] {
  if (length < 0x80) {
    return [length];
  }
  if (length < 0x100) {
    return [0x81, length];
  }
  return [0x82, length >> 8, length & 0xff];
}

function oid(hexadecimal: string): Buffer {
  return der(0x06, Buffer.from(hexadecimal, 'hex'));
}

/**
 * Encodes an unsigned number in DER without redundant zero bytes. A zero byte precedes a number whose first bit is 1, because DER would
 * otherwise treat the number as negative.
 */
function unsigned(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const significant = first < 0 ? Buffer.from([0]) : Buffer.from(bytes.subarray(first));
  return (significant[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), significant]) : significant;
}

/** UTCTime has a two-digit year and cannot represent years after 2049. */
function time(date: Date): Buffer {
  const text = `${date.toISOString().replace(/[-:T]|\.\d+/g, '')}`;
  return date.getUTCFullYear() < 2050 ? der(UTC_TIME, Buffer.from(text.slice(2))) : der(GENERALIZED_TIME, Buffer.from(text));
}

const HOUR = 3_600_000;
/** How long (ms) the certificate is valid. Must exceed the run time of any job. */
const VALIDITY = 365 * 24 * HOUR;
/** Maximum time (ms) that a node's clock may be behind the client's clock. */
const CLOCK_SKEW = 24 * HOUR;

/**
 * Creates a job's secrets, including the shared secret, the private key and the certificate with which its processes authenticate each
 * other. The map keys are the names in `CREDENTIALS`. YARN passes the secrets to the ApplicationMaster in the credentials of its container.
 * @param jobFile text of job.json, whose digest the ApplicationMaster checks
 * @param s3 the job's object stores, or null if the job does not contain any s3:// URIs
 */
export function createJobSecrets(now: number, jobFile: string, s3: JobConnections | null = null): ReadonlyMap<string, Secret> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const certificate = selfSignedCertificate({
    name: 'tony-ts',
    serial: randomBytes(16),
    notBefore: new Date(now - CLOCK_SKEW),
    notAfter: new Date(now + VALIDITY),
    privateKey,
  });
  return new Map([
    [CREDENTIALS.jobSecret, new Secret(randomBytes(32))],
    [CREDENTIALS.jobDigest, new Secret(createHash('sha256').update(jobFile).digest())],
    [CREDENTIALS.certificate, new Secret(Buffer.from(certificate))],
    [CREDENTIALS.privateKey, new Secret(Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' })))],
    ...(s3 === null ? [] : [[CREDENTIALS.s3, new Secret(Buffer.from(encodeJobConnections(s3)))] as const]),
  ]);
}
