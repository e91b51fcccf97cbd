import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { CONTAINER_LAYOUT, type FrozenJob } from '../../conf/job.ts';
import type { ServiceFrame } from '../../contract/services/service-frame.ts';
import { openTrialSummaries } from '../../contract/summary/trial-summaries.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import type { Secret } from '../../platform/secret.ts';
import { downloadFolder, uploadFolder } from '../../storage/copy-files.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { fileError } from '../../storage/file-error.ts';
import { decodeJobConnections } from '../../storage/s3/s3-connection.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { feedPositions } from '../partitions/feed-positions.ts';
import { FileCheckpoints } from './file-checkpoints.ts';
import { answerFileRequest } from './file-requests.ts';

/** The result of one trial in a sweep, as a Python program sends it. NaN and infinite metrics are strings. */
const trialRequest = z.object({
  name: z.string().regex(/^trial-\d{5,9}$/),
  configuration: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  metrics: z.record(z.string(), z.union([z.number(), z.enum(['NaN', 'Infinity', '-Infinity'])])),
  metric: z.string(),
  succeeded: z.boolean(),
});

/**
 * Writes a trial's row for TensorBoard's HParams tab as a separate run. The trial's program may still be writing to its own run, such as
 * `trial-00003`, and TensorBoard stops reading a file as soon as the run contains a newer one.
 */
async function writeTrialRow(
  storage: Storage,
  summaryDir: string,
  { name, configuration, metrics, metric, succeeded }: z.infer<typeof trialRequest>,
  notice: (message: string) => void,
): Promise<void> {
  const onTrouble = (message: string): void => notice(`${name}: ${message}`);
  const writer = openTrialSummaries({ storage, dir: joinUri(summaryDir, name, 'result'), trial: name, onTrouble }, configuration, metric);
  writer.scalars(Object.fromEntries(Object.entries(metrics).map(([tag, value]) => [tag, Number(value)])), 1);
  writer.endSession(succeeded);
  await writer.finish();
}

const SAVE = 'storage.save-checkpoint';
const SAVE_PART = 'storage.save-part';
const RESTORE = 'storage.restore-checkpoint';
const FETCH = 'storage.fetch-data';
const UPLOAD = 'storage.upload-output';
const WRITE_TRIAL = 'storage.write-trial';

const COUNT = z.number().int().nonnegative();
const partRequest = z
  .object({
    step: COUNT,
    save: COUNT,
    rank: COUNT,
    ranks: COUNT.max(100_000),
    path: z.string().refine(path.isAbsolute),
    feeds: feedPositions.optional(),
  })
  .refine(({ rank, ranks }) => rank < ranks);

export interface StorageContainer {
  readonly frozen: FrozenJob;
  /** Absolute path of the container's working directory. */
  readonly folder: string;
  /** The encoded JobConnections, or null if the job does not use s3:// URIs. */
  readonly s3: Secret | null;
}

interface Run {
  readonly generation: number;
  /** Adds a notice for the user. */
  readonly notice: (message: string) => void;
}

/** Opens the storage that the job uses. The caller must close it. */
export function openStorage({ frozen, s3 }: Pick<StorageContainer, 'frozen' | 's3'>): Storage {
  const hadoop = frozen.cluster.kind === 'yarn' ? HadoopConfiguration.fromProperties(frozen.cluster.hadoop) : null;
  const connection = s3 && { s3: decodeJobConnections(Buffer.from(s3.reveal()).toString('utf8')) };
  return createStorage({ hadoop, user: frozen.user, ...connection });
}

/** Handles a program's request to store or load files. These requests let programs in any language use HDFS without an HDFS client. */
export async function serveStorage(
  settings: StorageContainer,
  run: Run,
  service: string,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<ServiceFrame> {
  const storage = openStorage(settings);
  try {
    const question = parseQuestion(service, body);
    const ofFile = await answerFileRequest(storage, service, question, signal);
    if (ofFile !== null) {
      return frame({ answer: ofFile.answer }, ofFile.body);
    }
    return frame({ answer: await answerTo(settings, run, storage, service, question, signal) });
  } catch (error) {
    const { code, message, hint } = error instanceof TonyError ? error : unexpected(service, error);
    return frame({ error: { code, message, hint } });
  } finally {
    storage.close();
  }
}

function parseQuestion(service: string, body: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8')) ?? {};
  } catch {
    throw invalidRequest(service);
  }
}

function invalidRequest(service: string): TonyError {
  return new TonyError('DATA_INVALID', `the request for ${service} is invalid`, {
    hint: 'Check the fields of the request: docs/frameworks/other-languages.md, "The protocol".',
  });
}

/** An error that is not a TonyError comes from the local file system, unless it is a bug. */
function unexpected(service: string, error: unknown): TonyError {
  if (typeof (error as NodeJS.ErrnoException).syscall !== 'string') {
    return new TonyError('INTERNAL', `${service} failed: ${messageOf(error)}`, { cause: error });
  }
  return service === SAVE || service === SAVE_PART
    ? new TonyError('CHECKPOINT_FAILED', messageOf(error), { cause: error })
    : fileError(error);
}

async function answerTo(
  { frozen, folder }: StorageContainer,
  { generation, notice }: Run,
  storage: Storage,
  service: string,
  question: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<Json> {
  const { step, path: local, name } = question;
  const scratch = path.join(folder, CONTAINER_LAYOUT.program, `files-${generation}`);
  const checkpoints = () => {
    const origin = { jobId: frozen.jobId, generation };
    return new FileCheckpoints(storage, frozen.checkpointDir, origin, frozen.job.checkpoint.keep);
  };
  if (service === SAVE && Number.isSafeInteger(step) && (step as number) >= 0 && isAbsolute(local)) {
    const feeds = feedPositions.optional().safeParse(question.feeds);
    if (feeds.success) {
      return await checkpoints().save(step as number, local, signal, { feeds: feeds.data });
    }
  }
  const part = service === SAVE_PART ? partRequest.safeParse(question) : null;
  if (part?.success) {
    return await checkpoints().savePart(part.data, signal);
  }
  if (service === RESTORE) {
    // Several processes may restore at the same time, so each of them gets its own copy.
    const restored = await checkpoints().restore(path.join(scratch, randomUUID()), signal, notice);
    return restored && { step: restored.step, folder: restored.folder, feeds: restored.feeds };
  }
  if (service === FETCH && typeof name === 'string') {
    return await fetchData(storage, frozen.data, name, path.join(scratch, 'data'), signal);
  }
  if (service === UPLOAD && isAbsolute(local) && typeof name === 'string' && /^[\w.-]{1,200}$/.test(name) && !/^\.+$/.test(name)) {
    const uri = joinUri(frozen.outputDir, name);
    await uploadFolder(storage, local, uri, signal);
    return uri;
  }
  const trial = service === WRITE_TRIAL ? trialRequest.safeParse(question) : null;
  if (trial?.success) {
    await writeTrialRow(storage, frozen.summaryDir, trial.data, notice);
    return null;
  }
  throw invalidRequest(service);
}

/** Downloads of input folders, keyed by local path. All of the task's processes share these downloads. */
const downloads = new Map<string, Promise<unknown>>();

/** Returns the local path of an input folder. Downloads the folder if it is on HDFS. */
async function fetchData(
  storage: Storage,
  data: Readonly<Record<string, string>>,
  name: string,
  scratch: string,
  signal: AbortSignal,
): Promise<string> {
  const uri = Object.hasOwn(data, name) ? data[name] : undefined;
  if (uri === undefined) {
    const known = Object.keys(data).join(', ') || 'none';
    throw new TonyError('DATA_INVALID', `job.yaml has no input folder named ${name} (data: ${known})`);
  }
  if (uri.startsWith('file:')) {
    return fileURLToPath(uri);
  }
  const local = path.join(scratch, name);
  let download = downloads.get(local);
  if (download === undefined) {
    download = downloadFolder(storage, uri, local, signal);
    downloads.set(local, download);
    download.catch(() => downloads.delete(local));
  }
  await download;
  return local;
}

function isAbsolute(value: unknown): value is string {
  return typeof value === 'string' && path.isAbsolute(value);
}

function frame(head: Json, body: Uint8Array = Buffer.alloc(0)): ServiceFrame {
  return { head: Buffer.from(JSON.stringify(head)), body };
}
