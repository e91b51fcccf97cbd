import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { nameOf } from '../../storage/uri.ts';

/** Maximum number of bytes that one request can read, because the response must fit in one frame. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Maximum number of entries in a folder listing, because the response must fit in one frame. */
const MOST_ENTRIES = 50_000;

export interface FileAnswer {
  readonly answer: Json;
  readonly body?: Uint8Array;
}

/** Maximum length of a URI or path. */
const MOST_CHARACTERS = 8192;

type Question = Readonly<Record<string, unknown>>;
type Handler = (storage: Storage, question: Question, signal: AbortSignal) => Promise<FileAnswer>;

/** Operations on files and folders, keyed by service name. All are idempotent except `rename`, and `write` with `ifAbsent`. */
const HANDLERS: Readonly<Record<string, Handler>> = {
  'storage.stat': async (storage, question) => {
    const entry = await storage.stat(textOf(question, 'uri'));
    return { answer: entry && describe(entry) };
  },
  'storage.list': async (storage, question) => {
    const folder = textOf(question, 'uri');
    const entries = await storage.list(folder, { most: MOST_ENTRIES + 1 });
    if (entries.length > MOST_ENTRIES) {
      throw new TonyError('DATA_INVALID', `${folder} contains more than ${MOST_ENTRIES} entries`);
    }
    // The list is sent as the body, because the head of a response must be small.
    return { answer: null, body: Buffer.from(JSON.stringify(entries.map(describe))) };
  },
  'storage.read': async (storage, question, signal) => {
    const part = { offset: numberOf(question, 'offset'), length: numberOf(question, 'length') };
    if (part.length > MOST_BYTES) {
      throw invalid(`length exceeds ${MOST_BYTES}`);
    }
    if (part.length === 0) {
      return { answer: null, body: Buffer.alloc(0) };
    }
    const source = await storage.open(textOf(question, 'uri'), part);
    signal.addEventListener('abort', () => source.destroy(), { once: true });
    return { answer: null, body: await buffer(source) };
  },
  'storage.write': async (storage, question, signal) => {
    const path = textOf(question, 'path');
    if (!isAbsolute(path)) {
      throw invalid('path is not absolute');
    }
    const pieces = () => createReadStream(path, { signal }) as AsyncIterable<Buffer>;
    return {
      answer: await storage.write(textOf(question, 'uri'), pieces, {
        ifAbsent: question.ifAbsent === true,
        length: (await stat(path)).size,
      }),
    };
  },
  'storage.remove': async (storage, question) => ({ answer: await storage.remove(textOf(question, 'uri')) }),
  'storage.make-folder': async (storage, question) => {
    await storage.makeFolder(textOf(question, 'uri'));
    return { answer: null };
  },
  'storage.rename': async (storage, question) => ({ answer: await storage.rename(textOf(question, 'from'), textOf(question, 'to')) }),
};

/**
 * Handles a request about a single file or folder.
 * @returns null if `service` is a different kind of request
 * @throws TonyError DATA_INVALID for invalid fields, or the error that the storage throws
 */
export async function answerFileRequest(
  storage: Storage,
  service: string,
  question: Question,
  signal: AbortSignal,
): Promise<FileAnswer | null> {
  const handler = Object.hasOwn(HANDLERS, service) ? HANDLERS[service] : undefined;
  return handler === undefined ? null : await handler(storage, question, signal);
}

function describe({ uri: address, type, size, modifiedAt }: Entry): {
  uri: string;
  name: string;
  type: string;
  size: number;
  modifiedAt: number;
} {
  return { uri: address, name: nameOf(address), type, size, modifiedAt };
}

function textOf(question: Question, name: string): string {
  const value = question[name];
  if (typeof value !== 'string' || value.length > MOST_CHARACTERS) {
    throw invalid(`${name} is not a string of at most ${MOST_CHARACTERS} characters`);
  }
  return value;
}

function numberOf(question: Question, name: string): number {
  const value = question[name];
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw invalid(`${name} is not a whole number`);
  }
  return value as number;
}

function invalid(reason: string): TonyError {
  return new TonyError('DATA_INVALID', `the request is invalid: ${reason}`);
}
