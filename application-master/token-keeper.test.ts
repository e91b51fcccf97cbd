import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type Credentials, decodeCredentials, MASTER_TOKEN_KIND, type Token } from '../hadoop/rpc/credentials.ts';
import { writeText } from '../hadoop/rpc/writable.ts';
import { TonyError } from '../platform/errors.ts';
import { createLogger } from '../platform/log.ts';
import { Secret } from '../platform/secret.ts';
import type { UntimedEvent } from './job/state/events.ts';
import { TokenKeeper, type TokenKeeperOptions } from './token-keeper.ts';

const START = 1_800_000_000_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let folder: string;
let keeper: TokenKeeper | null = null;
let events: UntimedEvent[] = [];
let handedOver: Credentials[] = [];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-keeper-'));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: START });
  events = [];
  handedOver = [];
});
afterEach(async () => {
  keeper?.close();
  vi.useRealTimers();
  await rm(folder, { recursive: true, force: true });
});

/** A VLong of 8 bytes (WritableUtils). */
function vLong(value: number): Buffer {
  const bytes = Buffer.alloc(9);
  bytes.writeInt8(-120, 0);
  bytes.writeBigInt64BE(BigInt(value), 1);
  return bytes;
}

function token(name: string, endsAt: number): Token {
  const identifier = Buffer.concat([Buffer.from([0]), writeText('alice'), writeText('yarn'), writeText(''), vLong(START), vLong(endsAt)]);
  return { identifier, password: new Secret(Buffer.from(name)), kind: 'HDFS_DELEGATION_TOKEN', service: '10.0.0.1:8020' };
}

function start(options: Partial<TokenKeeperOptions>): Promise<void> {
  const first = token('first', START + 7 * DAY);
  const master: Token = { identifier: new Uint8Array(), password: new Secret(new Uint8Array([1])), kind: MASTER_TOKEN_KIND, service: '' };
  keeper = new TokenKeeper({
    credentials: {
      tokens: [master, first].map((each) => ({ alias: each.service, token: each })),
      secrets: new Map([['tony.job', new Secret(Buffer.from('job'))]]),
    },
    file: path.join(folder, 'container_tokens'),
    fetch: null,
    handOver: (credentials) => handedOver.push(credentials),
    probe: async () => {},
    checkpointDir: 'hdfs://nn/checkpoints',
    hear: (event) => events.push(event),
    log: createLogger({}, { write: () => {} }),
    ...options,
  });
  return keeper.start();
}

const passwords = ({ tokens }: Credentials) => tokens.map(({ token: { password } }) => Buffer.from(password.reveal()).toString());

/** Lets the keeper's timers fire. Also waits for its file operations, which fake timers do not control. */
async function pass(ms: number, until: () => boolean): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await vi.waitFor(() => expect(until()).toBe(true));
}

test('with a keytab, the tokens are replaced immediately, and again after three quarters of their lifetime', async () => {
  let issued = 0;
  const fetch = async () => {
    issued++;
    return { tokens: [token(`issued ${issued}`, Date.now() + 7 * DAY)], endsAt: Date.now() + DAY };
  };
  const started = start({ fetch });
  await vi.waitFor(() => expect(handedOver).toHaveLength(1));
  await started;
  expect(passwords(handedOver[0] as Credentials)).toEqual(['\u0001', 'issued 1']);

  const file = path.join(folder, 'container_tokens');
  const written = decodeCredentials(await readFile(file));
  expect(passwords(written)).toEqual(['\u0001', 'issued 1']);
  expect([...written.secrets.keys()]).toEqual(['tony.job']);
  expect((await stat(file)).mode & 0o777).toBe(0o600);

  await vi.advanceTimersByTimeAsync(17 * HOUR);
  expect(handedOver).toHaveLength(1);
  await pass(1.1 * HOUR, () => handedOver.length === 2);
  expect(passwords(handedOver[1] as Credentials)).toEqual(['\u0001', 'issued 2']);
  expect(events).toEqual([
    { type: 'tokens', event: 'tokens-replaced', detail: expect.stringMatching(/^valid until 2027-01-16T\S+Z; the next/), notice: null },
    { type: 'tokens', event: 'tokens-replaced', detail: expect.any(String), notice: null },
  ]);
});

test('new containers start with the tokens that the ResourceManager renews, for three quarters of their maximum lifetime', async () => {
  let issued = 0;
  await start({ fetch: async () => ({ tokens: [token(`issued ${++issued}`, Date.now() + 7 * DAY)], endsAt: Date.now() + 10 * DAY }) });
  const launched = () => passwords(keeper?.launchCredentials as Credentials);
  expect(launched()).toEqual(['\u0001', 'first']);
  await vi.advanceTimersByTimeAsync(5 * DAY);
  expect(launched()).toEqual(['\u0001', 'first']);
  await vi.advanceTimersByTimeAsync(DAY);
  expect(launched()).toEqual(['\u0001', 'issued 1']);
});

test('a failed replacement is reported once with its hint, and retried until it succeeds', async () => {
  let works = false;
  let attempts = 0;
  const fetch = async () => {
    attempts++;
    if (!works) {
      throw new TonyError('KERBEROS_TOOL_NOT_FOUND', 'The program kinit was not found on this machine.');
    }
    return { tokens: [token('issued', Date.now() + 7 * DAY)], endsAt: Date.now() + DAY };
  };
  await start({ fetch });
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(attempts).toBeGreaterThan(5);
  expect(events).toEqual([
    {
      type: 'tokens',
      event: 'tokens-failed',
      detail: expect.any(String),
      notice: expect.stringMatching(/cannot replace.*kinit.*Install/),
    },
  ]);
  works = true;
  await pass(61_000, () => events.length === 2);
  expect(events[1]).toMatchObject({ event: 'tokens-replaced', notice: null });
});

test('without a keytab, the job announces the expiry a day before, and HDFS decides whether the tokens have expired', async () => {
  const rejection = new TonyError('TOKEN_EXPIRED', 'Token has expired');
  const probe = vi.fn(async () => {});
  await start({ probe });
  await vi.advanceTimersByTimeAsync(6 * DAY - 60_000);
  expect(events).toEqual([]);
  await vi.advanceTimersByTimeAsync(2 * 60_000);
  expect(events).toEqual([
    {
      type: 'tokens',
      event: 'tokens-ending',
      detail: expect.stringMatching(/^The delegation tokens expire at .*--set checkpoint\.dir=hdfs:\/\/nn\/checkpoints/),
      notice: expect.any(String),
    },
  ]);
  await vi.advanceTimersByTimeAsync(DAY - 3 * 60_000);
  expect(probe).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect(probe).toHaveBeenCalled();
  // An outage does not count as a rejection.
  probe.mockRejectedValue(new TonyError('HDFS_UNREACHABLE', 'no answer'));
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect(events).toHaveLength(1);
  probe.mockRejectedValue(rejection);
  await vi.advanceTimersByTimeAsync(2 * 60_000);
  expect(events.slice(1)).toEqual([{ type: 'tokens-ended', reason: expect.stringMatching(/expired at .*Submit it again/) }]);
});
