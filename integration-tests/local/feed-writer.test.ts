import { pino } from 'pino';
import { expect, it, onTestFinished, vi } from 'vitest';
import { FeedServer } from '../../application-master/rpc/feed-server.ts';
import { Feeds } from '../../application-master/services/feeds.ts';
import type { ProducerLink } from '../../application-master/services/producer-link.ts';
import { noRecords } from '../../client/connections/job-records.fixture.ts';
import { type FeedProgress, FeedWriter } from '../../client/feed/feed.ts';
import { createJobSecrets } from '../../client/job/job-secrets.ts';
import { CREDENTIALS } from '../../conf/job.ts';
import { unreportedJob } from '../../conf/status/job-info.ts';
import type { Secret } from '../../platform/secret.ts';
import { type FeedAddress, MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';
import { HANGS_MS } from '../until.ts';

const log = pino({ level: 'silent' });

async function openFeeds(): Promise<{ feeds: Feeds; address: FeedAddress }> {
  const secrets = createJobSecrets(Date.now(), '{}');
  const [certificate, privateKey] = [secrets.get(CREDENTIALS.certificate) as Secret, secrets.get(CREDENTIALS.privateKey) as Secret];
  const feeds = new Feeds({ note: () => {}, changed: () => {}, isDurable: async () => true, log });
  const { opened, received, closed } = feeds;
  const server = new FeedServer({ certificate, privateKey, token: 'token', opened, received, closed, log });
  const port = await server.listen('127.0.0.1');
  onTestFinished(() => {
    feeds.close();
    server.close();
  });
  const text = Buffer.from(certificate.reveal()).toString();
  return { feeds, address: { host: '127.0.0.1', port, attempt: 1, token: 'token', certificate: text, doors: [] } };
}

function newWriter(
  producer: string,
  read: () => Promise<FeedAddress | null>,
  onProgress: (progress: FeedProgress) => void = () => {},
): FeedWriter {
  const job = {
    id: 'local_1_1',
    trackingUrl: null,
    outputUri: 'file:///nonexistent',
    records: noRecords(),
    pages: async () => null,
    observe: async () => unreportedJob({ id: 'local_1_1', state: 'running' }),
    kill: async () => false,
    logs: async () => [],
    output: async () => null,
    close: () => {},
  };
  const writer = new FeedWriter(job, { read, close: () => {} }, 'numbers', producer, { producer, onProgress });
  onTestFinished(() => writer.close());
  return writer;
}

it('splits records written before their sequence numbers are known into messages that the job accepts', async () => {
  const { feeds, address } = await openFeeds();
  const writer = newWriter('p', async () => address);
  const sizes = [...Array.from({ length: 200 }, () => 4096), MAXIMUM_RECORD_BYTES, 1];
  const writing = sizes.map((size) => writer.write(Buffer.alloc(size)));
  const ending = writer.end();
  const lengths: number[] = [];
  const asker = { containerId: 'c', role: 'worker', ranked: true, generation: 1 };
  let at = 0;
  await vi.waitFor(
    () => {
      for (;;) {
        const answer = feeds.take(asker, { feed: 'numbers', reader: 'r', at, producers: 1 });
        if (answer === 'over') {
          return;
        }
        if (answer === 'wait') {
          throw new Error(`${lengths.length} records have arrived`);
        }
        lengths.push(...answer.records.map(({ length }) => length));
        at++;
      }
    },
    { timeout: HANGS_MS, interval: 5 },
  );
  await Promise.all([ending, ...writing]);
  expect(lengths).toEqual(sizes);
});

it('waits on one connection while the feed is full, and then sends everything', async () => {
  const { feeds, address } = await openFeeds();
  const record = Buffer.alloc(MAXIMUM_RECORD_BYTES);
  for (let index = 0; index < 15; index++) {
    const dead: ProducerLink = { feed: 'numbers', producer: `dead${index}`, send: () => {}, refuse: () => {} };
    feeds.opened(dead, 1, 0);
    feeds.received(dead, { chunk: { sequence: 1, records: [record] } });
    feeds.closed(dead);
  }
  let reads = 0;
  const states: FeedProgress['state'][] = [];
  const read = async () => {
    reads++;
    return address;
  };
  const writer = newWriter('p', read, ({ state }) => states.push(state));
  const writing = writer.write('late');
  await vi.waitFor(() => expect(states).toContain('full'), { timeout: HANGS_MS });
  const asker = { containerId: 'c', role: 'worker', ranked: true, generation: 1 };
  const taken: string[] = [];
  let at = 0;
  await vi.waitFor(
    () => {
      for (;;) {
        const answer = feeds.take(asker, { feed: 'numbers', reader: 'r', at, producers: 1 });
        if (typeof answer === 'string') {
          break;
        }
        taken.push(...answer.records.map((each) => (each.length === 4 ? Buffer.from(each).toString() : 'large')));
        at++;
      }
      expect(taken.at(-1)).toBe('late');
    },
    { timeout: HANGS_MS, interval: 5 },
  );
  await writing;
  expect(taken).toHaveLength(16);
  expect(reads).toBe(1);
});

it('the writer can be closed before it has found the job', async () => {
  const { address } = await openFeeds();
  let found = (_address: FeedAddress): void => {};
  const writer = newWriter('p', () => new Promise((resolve) => (found = resolve)));
  const closing = writer.close();
  found(address);
  await closing;
});

it('accepts strings, typed arrays and buffers, and rejects other values without affecting the other records', async () => {
  const { feeds, address } = await openFeeds();
  const writer = newWriter('p', async () => address);
  const reused = new Uint8Array([1, 2]);
  const good = [
    'text',
    reused,
    new Float32Array([1, 2]),
    new DataView(new ArrayBuffer(8), 4),
    new Uint16Array([1, 2, 3]).subarray(1),
    new ArrayBuffer(3),
    new SharedArrayBuffer(1),
    '',
  ];
  for (const bad of [{ a: 1 }, [1, 2], undefined, null, 7, true, new Date(0)]) {
    const refused = writer.write(bad as unknown as string);
    await expect(refused).rejects.toMatchObject({ code: 'USAGE', message: expect.stringMatching(/accepts strings and bytes, not /) });
  }
  const writing = good.map((record) => writer.write(record));
  // The caller reuses its buffer for the next record.
  reused.fill(9);
  const ending = writer.end();
  const records: Buffer[] = [];
  let at = 0;
  const asker = { containerId: 'c', role: 'worker', ranked: true, generation: 1 };
  await vi.waitFor(
    () => {
      for (;;) {
        const answer = feeds.take(asker, { feed: 'numbers', reader: 'r', at, producers: 1 });
        if (answer === 'over') {
          return;
        }
        if (answer === 'wait') {
          throw new Error(`${records.length} records have arrived`);
        }
        records.push(...answer.records.map((each) => Buffer.from(each)));
        at++;
      }
    },
    { timeout: HANGS_MS, interval: 5 },
  );
  await Promise.all([ending, ...writing]);
  expect(records.map((each) => each.toString('hex'))).toEqual([
    Buffer.from('text').toString('hex'),
    '0102',
    '0000803f00000040',
    '00000000',
    '02000300',
    '000000',
    '00',
    '',
  ]);
});

it('a process with the name of a crashed producer continues after the records that the job has received', async () => {
  const { feeds, address } = await openFeeds();
  const all = Array.from({ length: 1000 }, (_, index) => `${index}`);
  const crashed = newWriter('p', async () => address);
  expect(await crashed.received()).toBe(0);
  for (const record of all.slice(0, 600)) {
    await crashed.write(record);
  }
  const asker = { containerId: 'c', role: 'worker', ranked: true, generation: 1 };
  const records: string[] = [];
  let at = 0;
  const takeAll = () => {
    for (let answer = feeds.take(asker, { feed: 'numbers', reader: 'r', at, producers: 1 }); answer !== 'wait'; ) {
      if (answer === 'over') {
        return true;
      }
      records.push(...answer.records.map((each) => Buffer.from(each).toString()));
      answer = feeds.take(asker, { feed: 'numbers', reader: 'r', at: ++at, producers: 1 });
    }
    return false;
  };
  await vi.waitFor(() => {
    takeAll();
    expect(records.length).toBeGreaterThan(100);
  });
  await crashed.close();
  const reports: FeedProgress[] = [];
  const next = newWriter(
    'p',
    async () => address,
    (progress) => reports.push(progress),
  );
  const received = await next.received();
  expect(received).toBeGreaterThanOrEqual(records.length);
  for (const record of all.slice(received)) {
    await next.write(record);
  }
  const ending = next.end();
  await vi.waitFor(() => expect(takeAll()).toBe(true), { timeout: HANGS_MS });
  await ending;
  expect(records).toEqual(all);
  expect(reports.at(-1)).toMatchObject({ state: 'over', receivedBefore: received, taken: 1000 - received });
});
