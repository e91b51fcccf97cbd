import { createHmac, hkdfSync } from 'node:crypto';
import { WIRE_SECURITY, type WireSecurity } from '../../conf/job.ts';
import { sameSecret } from '../../platform/same-secret.ts';

/**
 * A rank's identity. Two neighbours in the ring use it to authenticate each other. In the handshake, each neighbour proves that it has the
 * ring's key and that it is the expected rank in this generation. Afterwards, the acceptor sends vectors to the dialer. All fields are
 * big-endian.
 *
 *   dialer -> acceptor   HELLO      | "TNYR" | version | generation | worldSize | from | to | security | nonce 32 bytes |   60
 *   acceptor -> dialer   CHALLENGE  | the same fields, with `from` and `to` swapped and its own nonce  | mac 32 bytes |   92
 *   dialer -> acceptor   PROOF      | mac 32 bytes |                                                                      32
 *   acceptor -> dialer   WELCOME    | "OKAY" |                                                                             4
 *
 *   version, generation, worldSize, from, to, security   u32; security: 0 none, 1 authenticated, 2 encrypted
 *   mac = HMAC-SHA256(key, side || HELLO || CHALLENGE's first 60 bytes), side = "tony-ring acceptor" | "tony-ring dialer"
 *
 * Each MAC covers the nonces and ranks of both sides, the generation and `wire.security`. The two sides have different MACs. These rules
 * prevent replay, reflection and downgrade attacks. Every frame has a fixed length, so an unauthenticated peer cannot make either side
 * allocate more memory.
 */
export interface Identity {
  readonly generation: number;
  readonly worldSize: number;
  readonly from: number;
  readonly to: number;
  /** How the data is protected after the handshake. */
  readonly security: WireSecurity;
}

export interface ExpectedDialer extends Omit<Identity, 'from'> {
  /** Rank that the dialer must have, or null if any rank may dial. */
  readonly from: number | null;
}

/** Time limit for one handshake, in ms. */
export const HANDSHAKE_MS = 10_000;
/** Idle time in ms after which TCP keep-alive probes an authenticated connection. */
export const KEEP_ALIVE_MS = 30_000;
export const NONCE_BYTES = 32;
export const HELLO_BYTES = 60;
export const MAC_BYTES = 32;
export const CHALLENGE_BYTES = HELLO_BYTES + MAC_BYTES;
export const WELCOME = Buffer.from('OKAY', 'latin1');

const MAGIC = 0x544e5952; // "TNYR"
const VERSION = 2;

export function encodeHello(identity: Identity, nonce: Uint8Array): Buffer {
  const frame = Buffer.alloc(HELLO_BYTES);
  const { generation, worldSize, from, to, security } = identity;
  [MAGIC, VERSION, generation, worldSize, from, to, WIRE_SECURITY.indexOf(security)].forEach((field, index) => {
    frame.writeUInt32BE(field, index * 4);
  });
  frame.set(nonce.subarray(0, NONCE_BYTES), HELLO_BYTES - NONCE_BYTES);
  return frame;
}

/** Returns the rank claimed by the sender in its HELLO. */
export function senderOf(head: Buffer): number {
  return head.readUInt32BE(16);
}

/**
 * Returns the reason why a HELLO does not have the expected identity, or null if it does. `head` may also be the beginning of a CHALLENGE,
 * which has the same format.
 */
export function refusalOf(head: Buffer, expected: ExpectedDialer): string | null {
  const [magic, version, generation, worldSize, , to, security = -1] = [0, 4, 8, 12, 16, 20, 24].map((at) => head.readUInt32BE(at));
  const from = senderOf(head);
  if (magic !== MAGIC) {
    return 'is not a member of a ring';
  }
  if (version !== VERSION) {
    return `uses version ${version} of the ring's protocol, but this rank uses version ${VERSION}`;
  }
  if (generation !== expected.generation) {
    return `belongs to generation ${generation}, but this rank belongs to generation ${expected.generation}`;
  }
  if (worldSize !== expected.worldSize) {
    return `belongs to a job with ${worldSize} ranks, but this job has ${expected.worldSize}`;
  }
  if (expected.from === null && from >= expected.worldSize) {
    return `claims to be rank ${from}, but the job has only ${expected.worldSize} ranks`;
  }
  if (from !== (expected.from ?? from) || to !== expected.to) {
    const wanted = expected.from === null ? 'any rank' : `rank ${expected.from}`;
    return `is rank ${from} connecting to rank ${to}; expected ${wanted} connecting to rank ${expected.to}`;
  }
  if (WIRE_SECURITY[security] !== expected.security) {
    return `uses wire.security ${WIRE_SECURITY[security] ?? security}, but this rank uses ${expected.security}`;
  }
  return null;
}

export type Side = 'acceptor' | 'dialer';

export function macOf(key: Uint8Array, side: Side, hello: Uint8Array, challengeHead: Uint8Array): Buffer {
  return createHmac('sha256', key).update(`tony-ring ${side}`, 'latin1').update(hello).update(challengeHead).digest();
}

export function encodeChallenge(key: Uint8Array, identity: Identity, nonce: Uint8Array, hello: Uint8Array): Buffer {
  const head = encodeHello(identity, nonce);
  return Buffer.concat([head, macOf(key, 'acceptor', hello, head)]);
}

/** Verifies a CHALLENGE. Returns the dialer's PROOF and the authenticated frames, or the reason for rejecting the acceptor. */
export function answerChallenge(
  key: Uint8Array,
  challenge: Buffer,
  expected: Identity,
  hello: Uint8Array,
): { readonly proof: Buffer; readonly transcript: Buffer } | { readonly refusal: string } {
  const head = challenge.subarray(0, HELLO_BYTES);
  const refusal = refusalOf(head, expected);
  if (refusal !== null) {
    return { refusal };
  }
  if (!sameSecret(challenge.subarray(HELLO_BYTES, CHALLENGE_BYTES), macOf(key, 'acceptor', hello, head))) {
    return { refusal: 'has a different ring key' };
  }
  return { proof: macOf(key, 'dialer', hello, head), transcript: Buffer.concat([hello, head]) };
}

/** Values shared by both ends after the handshake. */
export interface Agreement {
  /** The ring's key. */
  readonly key: Uint8Array;
  /** The frames that both ends have authenticated: HELLO, and CHALLENGE without its MAC. */
  readonly transcript: Uint8Array;
}

/**
 * Derives a key from the ring's key and the transcript. The transcript contains the nonces and ranks of both ends, the generation and
 * `wire.security`, so each connection has its own keys.
 */
export function deriveKey({ key, transcript }: Agreement, purpose: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', key, transcript, `tony wire ${purpose}`, bytes));
}
