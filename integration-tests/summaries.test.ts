import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { inflateSync } from 'node:zlib';
import * as tf from '@tensorflow/tfjs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { SummaryWriter } from '../contract/summary/summary.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { fileUri, joinUri } from '../storage/uri.ts';
import { temporaryFolder, USER, until, useCluster } from './harness.ts';
import { TensorBoardServer } from './tensorboard-server.ts';
import { tensorboardPython } from './tensorboard-venv.ts';

const cluster = useCluster();
const ROOT = `hdfs:///user/${USER}/summaries-test`;
let storage: Storage;
let folders = 0;

// The first run downloads TensorBoard.
beforeAll(() => tensorboardPython());
beforeAll(async () => {
  storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
});
afterAll(async () => {
  await storage.remove(ROOT);
  storage.close();
});

interface Place {
  readonly uri: string;
  fetch(): Promise<string>;
}

async function onThisMachine(): Promise<Place> {
  const folder = await temporaryFolder();
  return { uri: fileUri(folder), fetch: async () => folder };
}

async function inHdfs(): Promise<Place> {
  folders += 1;
  const uri = joinUri(ROOT, `folder-${folders}`);
  return {
    uri,
    fetch: async () => {
      const folder = await temporaryFolder();
      await download(uri, folder);
      return folder;
    },
  };
}

async function download(uri: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const entry of await storage.list(uri)) {
    const target = path.join(folder, entry.name);
    await (entry.type === 'folder' ? download(entry.uri, target) : writeFile(target, await storage.read(entry.uri)));
  }
}

function open(place: Place, run: string, now: () => number = Date.now): SummaryWriter {
  return new SummaryWriter({
    storage,
    dir: joinUri(place.uri, run),
    trial: 'application_1_0001',
    now,
    onTrouble: (message) => {
      throw new Error(message);
    },
  });
}

/** Waits until TensorBoard has loaded a run up to a step. Later records may still be missing. */
async function readUpTo(server: TensorBoardServer, run: string, tag: string, step: number, { everyMs = 100 } = {}): Promise<void> {
  await until(async () => (await server.tags('scalars'))[run]?.includes(tag) && (await server.scalars(run, tag)).at(-1)?.[0] === step, {
    everyMs,
    describe: () => server.tags('scalars'),
  });
}

interface SessionGroup {
  readonly name: string;
  readonly hparams: unknown;
  readonly metricValues: readonly unknown[];
  readonly sessions: readonly { readonly name: string; readonly status?: string }[];
}

/**
 * Waits until TensorBoard shows the success of session `train`, which is the last record of its run. Returns the rows of the HParams tab.
 */
async function readToTheEnd(server: TensorBoardServer): Promise<readonly SessionGroup[]> {
  const groups = async (): Promise<readonly SessionGroup[]> => {
    const answer = await server.post<{ sessionGroups: SessionGroup[] }>('hparams/session_groups', {
      experimentName: '',
      allowedStatuses: ['STATUS_SUCCESS', 'STATUS_UNKNOWN', 'STATUS_RUNNING', 'STATUS_FAILURE'],
      colParams: [],
      startIndex: 0,
      sliceSize: 10,
    });
    return answer.sessionGroups;
  };
  const ended = (session: SessionGroup['sessions'][number]): boolean => session.name === 'train' && session.status === 'STATUS_SUCCESS';
  const look = async () => {
    const found = await groups();
    return found.some(({ sessions }) => sessions.some(ended)) && found;
  };
  return until(look, { describe: groups });
}

interface Program {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

function start(name: string, ...words: readonly string[]): Program {
  const program = path.join(import.meta.dirname, 'programs', name);
  const env = { ...process.env, ...cluster.clientEnvironment(), TONY_BACKEND: 'cpu' };
  const child = spawn(process.execPath, [program, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    output.stdout += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    output.stderr += chunk;
  });
  const ended = once(child, 'close').then(([code, signal]) => ({ code: code as number | null, signal: signal as NodeJS.Signals | null }));
  return { child, output, ended };
}

/** Returns the pixels of a PNG that uses no filters. */
function pixelsOf(png: Buffer, stride: number): number[] {
  const start = png.indexOf('IDAT') + 4;
  const rows = inflateSync(png.subarray(start, start + png.readUInt32BE(start - 8)));
  return Array.from({ length: rows.length / (stride + 1) }, (_, row) => [
    ...rows.subarray(row * (stride + 1) + 1, (row + 1) * (stride + 1)),
  ]).flat();
}

/** Files in HDFS have the same bytes as files on this machine. */
describe('TensorBoard shows, from files in hdfs,', () => {
  test('every kind of summary', async () => {
    const written = await inHdfs();
    const writer = open(written, 'train');
    const hparams = { optimizer: 'adam', learning_rate: 0.01, nesterov: false };
    writer.hparams(hparams, { metrics: ['loss', { tag: 'accuracy', title: 'test accuracy' }] });
    const weights = tf.tensor([0, 1, 1, 4]);
    const pixels = Uint8Array.from({ length: 2 * 3 * 4 }, (_, index) => index * 10);
    for (const step of [1, 2, 3]) {
      writer.scalars({ loss: 1 / 2 ** step, 'train/acc': step / 4 }, step);
      writer.histogram('layer/weights', weights, step, { buckets: 2 });
    }
    writer.image('pictures/rgba', { values: pixels, shape: [2, 3, 4] }, 3);
    writer.image('pictures/grey', tf.tensor3d([0, 0.5, 1, 2], [2, 2, 1]), 3);
    writer.image('pictures/several', tf.zeros([5, 2, 2, 3], 'int32'), 3, { max: 4 });
    writer.text('notes', 'Trained on **nothing** at all, ü.', 3);
    const model = tf.sequential({
      layers: [tf.layers.dense({ units: 2, inputShape: [3], name: 'first' }), tf.layers.dense({ units: 1, name: 'second' })],
    });
    writer.graph(model);
    writer.endSession(true);
    await writer.flush();
    const evaluator = open(written, 'evaluator');
    evaluator.hparams(hparams);
    evaluator.scalar('accuracy', 0.75, 3);
    await evaluator.flush();

    const server = await TensorBoardServer.start(await written.fetch());
    await readToTheEnd(server);
    await readUpTo(server, 'evaluator', 'accuracy', 3);
    expect(await server.tags('scalars')).toEqual({ train: ['loss', 'train/acc'], evaluator: ['accuracy'] });
    expect(await server.scalars('train', 'loss')).toEqual([
      [1, 0.5],
      [2, 0.25],
      [3, 0.125],
    ]);

    const histograms = await server.data<[number, number, number[][]][]>('histograms/histograms', { run: 'train', tag: 'layer/weights' });
    expect(histograms.map(([, step]) => step)).toEqual([1, 2, 3]);
    expect(histograms[0]?.[2]).toEqual([
      [0, 2, 3],
      [2, 4, 1],
    ]);
    const distributions = await server.data<[number, number, number[][]][]>('distributions/distributions', {
      run: 'train',
      tag: 'layer/weights',
    });
    expect(distributions[2]?.[2].at(-1)).toEqual([10_000, 4]);

    expect((await server.tags('images')).train).toEqual(['pictures/grey', 'pictures/rgba', 'pictures/several']);
    const image = async (tag: string, stride: number) => {
      const [found] = await server.data<{ step: number; query: string }[]>('images/images', {
        run: 'train',
        tag,
        sample: '0',
      });
      const answer = await server.get('data/plugin/images/individualImage', Object.fromEntries(new URLSearchParams(found?.query)));
      expect(answer.headers.get('content-type')).toBe('image/png');
      const png = Buffer.from(await answer.arrayBuffer());
      return { step: found?.step, width: png.readUInt32BE(16), height: png.readUInt32BE(20), pixels: pixelsOf(png, stride) };
    };
    expect(await image('pictures/rgba', 12)).toMatchObject({ width: 3, height: 2, step: 3, pixels: [...pixels] });
    expect(await image('pictures/grey', 2)).toMatchObject({ width: 2, height: 2, pixels: [0, 128, 255, 255] });
    expect(await server.data('images/tags')).toMatchObject({ train: { 'pictures/several': { samples: 4 } } });

    const [text] = await server.data<{ step: number; text: string }[]>('text/text', { run: 'train', tag: 'notes' });
    expect(text).toMatchObject({ step: 3, text: expect.stringContaining('Trained on <strong>nothing</strong> at all, ü.') });

    const experiment = await server.post<{ hparamInfos: { name: string; type: string }[]; metricInfos: unknown[] }>('hparams/experiment', {
      experimentName: '',
    });
    expect(experiment.hparamInfos.map(({ name, type }) => [name, type])).toEqual(
      expect.arrayContaining([
        ['learning_rate', 'DATA_TYPE_FLOAT64'],
        ['nesterov', 'DATA_TYPE_BOOL'],
        ['optimizer', 'DATA_TYPE_STRING'],
      ]),
    );
    const groups = await readToTheEnd(server);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toMatchObject({
      name: 'application_1_0001',
      hparams: { learning_rate: 0.01, nesterov: false, optimizer: 'adam' },
      sessions: [{ name: 'evaluator' }, { name: 'train', status: 'STATUS_SUCCESS' }],
    });
    expect(groups[0]?.metricValues).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: { group: '', tag: 'loss' }, value: 0.125 }),
        expect.objectContaining({ name: { group: '', tag: 'accuracy' }, value: 0.75 }),
      ]),
    );

    expect(await server.data('graphs/info')).toMatchObject({ train: { tags: { keras: { conceptual_graph: true } } } });
    const graph = await (await server.get('data/plugin/graphs/graph', { run: 'train', tag: 'keras', conceptual: 'true' })).text();
    expect(graph).toMatch(/name: "[^"]*first"[\s\S]*name: "[^"]*second"\s+input: "[^"]*first"/);

    const series =
      await server.data<Record<string, { tagDescriptions?: unknown; runTagInfo?: unknown; tagRunSampledInfo?: unknown }>>(
        'timeseries/tags',
      );
    expect(series).toMatchObject({
      scalars: { runTagInfo: { train: expect.arrayContaining(['loss']) } },
      histograms: { runTagInfo: { train: ['layer/weights'] } },
      images: { tagRunSampledInfo: { 'pictures/several': { train: { maxSamplesPerStep: 4 } } } },
    });
  });

  test('NaN and infinite points, and tags with any characters', async () => {
    const written = await inHdfs();
    const writer = open(written, 'a run/with parts');
    writer.scalars({ strange: Number.NaN }, 0);
    writer.scalars({ strange: Number.POSITIVE_INFINITY }, 1);
    writer.scalars({ strange: Number.NEGATIVE_INFINITY }, 2);
    writer.scalars({ strange: 1e300 }, 3);
    const tags = ['with space', 'über/größe', '損失', '{"a": 1} & 100% #?', '__proto__', '日'.repeat(100), '1'];
    for (const tag of tags) {
      writer.scalar(tag, 0.5, 3);
      writer.text(`text of ${tag}`, tag, 3);
    }
    await writer.flush();
    const server = await TensorBoardServer.start(await written.fetch());
    const run = 'a run/with parts';
    await readUpTo(server, run, 'strange', 3);
    await until(async () => (await server.data<unknown[]>('text/text', { run, tag: 'text of 1' })).length === 1, {
      describe: () => server.tags('scalars'),
    });
    expect(await server.scalars(run, 'strange')).toEqual([
      [0, 'NaN'],
      [1, 'Infinity'],
      [2, '-Infinity'],
      // TensorBoard stores scalars as 32-bit floats.
      [3, 'Infinity'],
    ]);
    for (const tag of tags) {
      expect(await server.scalars(run, tag)).toEqual([[3, 0.5]]);
      expect(await server.data('text/text', { run, tag: `text of ${tag}` })).toHaveLength(1);
    }
  });
});

describe.each([
  ['file', onThisMachine],
  ['hdfs', inHdfs],
])('TensorBoard shows, from files in %s,', (scheme, place) => {
  test('a resumed run without duplicate or missing points', async () => {
    const written = await place();
    const first = start('fit-in-two-goes.mjs', written.uri, '33');
    expect((await first.ended).code).toBe(1);
    expect(first.output.stderr).toMatch(/Error: on purpose\n +at .*fit-in-two-goes\.mjs/);
    const second = start('fit-in-two-goes.mjs', written.uri, '-1');
    expect(await second.ended, second.output.stderr).toEqual({ code: 0, signal: null });
    expect(second.output.stderr).toMatch(/training resumes from .*step-20, step 20/);
    const server = await TensorBoardServer.start(path.join(await written.fetch(), 'summaries'));
    const groups = await readToTheEnd(server);
    const steps = (await server.scalars('train', 'loss')).map(([step]) => step);
    expect(steps).toEqual([1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50]);
    const histograms = await server.data<[number, number, unknown][]>('histograms/histograms', { run: 'train', tag: 'hidden/kernel' });
    expect(histograms.map(([, step]) => step)).toEqual([0, 10, 20, 30, 40, 50]);
    expect(groups).toEqual([
      expect.objectContaining({
        hparams: { note: 'a test', optimizer: 'Adam', learning_rate: 0.02, batch_size: 10, world_size: 1, epochs: 5, seed: 1 },
        metricValues: [expect.objectContaining({ name: { group: '', tag: 'loss' }, trainingStep: 50 })],
      }),
    ]);
    const graph = await (await server.get('data/plugin/graphs/graph', { run: 'train', tag: 'keras', conceptual: 'true' })).text();
    expect(graph).toMatch(/name: "[^"]*out"\s+input: "[^"]*hidden"/);
  });

  test('the last points of programs, however they end', async () => {
    const written = await place();
    const ends = ['return', 'throw', 'wait', ...(scheme === 'file' ? ['exit'] : [])];
    for (const end of ends) {
      const program = start('summaries-and-end.mjs', joinUri(written.uri, end), end);
      if (end === 'wait') {
        await until(() => program.output.stdout.includes('waiting'), { describe: () => program.output.stderr });
        program.child.kill('SIGTERM');
      }
      const expected = { code: end === 'throw' ? 1 : 0, signal: null };
      expect(await program.ended, end).toEqual(end === 'wait' ? { code: null, signal: 'SIGTERM' } : expected);
      expect(program.output.stderr.includes('Error: on purpose')).toBe(end === 'throw');
    }
    const server = await TensorBoardServer.start(await written.fetch());
    for (const end of ends) {
      await readUpTo(server, `${end}/train`, 'loss', 20);
    }
  });
});

test('a run of 30,000 steps writes few files and keeps every point', async () => {
  const written = await inHdfs();
  const writer = open(written, 'train');
  const steps = 30_000;
  for (let step = 1; step <= steps; step++) {
    writer.scalars({ loss: 1 / step, 'train/accuracy': step / steps }, step);
    // Yields to the event loop, as a training loop does.
    if (step % 50 === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  await writer.flush();
  const files = await storage.list(joinUri(written.uri, 'train'));
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  expect(bytes / steps).toBeLessThan(100);
  // A new file starts after each MiB.
  expect(files.length).toBeLessThan(5);
  const server = await TensorBoardServer.start(await written.fetch(), '--samples_per_plugin', `scalars=${2 * steps}`);
  // TensorBoard may need several seconds for a response.
  await readUpTo(server, 'train', 'train/accuracy', steps, { everyMs: 5000 });
  const points = await server.scalars('train', 'train/accuracy');
  expect(points).toHaveLength(steps);
  expect(points.every(([step, value], index) => step === index + 1 && Math.abs(Number(value) - step / steps) < 1e-6)).toBe(true);
});

test('the newest file in HDFS is readable while it grows, and grows again when the NameNode restarts', async () => {
  const written = await inHdfs();
  const troubles: string[] = [];
  const dir = joinUri(written.uri, 'train');
  const writer = new SummaryWriter({ storage, dir, onTrouble: (message) => troubles.push(message) });
  let before: Buffer = Buffer.alloc(0);
  for (let step = 1; step <= 3; step++) {
    writer.scalar('loss', step, step);
    await writer.flush();
    const entries = await storage.list(dir);
    expect(entries).toHaveLength(1);
    const content = await storage.read(entries[0]?.uri as string);
    expect(content.subarray(0, before.length).equals(before)).toBe(true);
    expect(content.length).toBeGreaterThan(before.length);
    before = content;
  }
  await cluster.kill('namenode');
  writer.scalar('loss', 4, 4);
  await writer.flush();
  expect(troubles).toEqual([expect.stringMatching(/^summaries could not be written and will be retried: /)]);
  writer.scalar('loss', 5, 5);
  await cluster.heal();
  await writer.finish();
  const server = await TensorBoardServer.start(await written.fetch());
  await readUpTo(server, 'train', 'loss', 5);
  expect((await server.scalars('train', 'loss')).map(([step]) => step)).toEqual([1, 2, 3, 4, 5]);
});
