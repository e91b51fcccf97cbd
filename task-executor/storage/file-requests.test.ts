import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createStorage } from '../../storage/create-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { answerFileRequest } from './file-requests.ts';

const signal = new AbortController().signal;
const storage = createStorage({ hadoop: null, user: 'alice' });
const ask = (service: string, question: Readonly<Record<string, unknown>>) => answerFileRequest(storage, service, question, signal);

test('reads a range that ends at the end of the file at the latest', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'file-requests-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(path.join(folder, 'a'), '0123456789');
  const uri = fileUri(path.join(folder, 'a'));
  expect(await ask('storage.read', { uri, offset: 3, length: 4 })).toEqual({ answer: null, body: Buffer.from('3456') });
  expect(await ask('storage.read', { uri, offset: 8, length: 4 })).toEqual({ answer: null, body: Buffer.from('89') });
  expect(await ask('storage.read', { uri, offset: 8, length: 0 })).toEqual({ answer: null, body: Buffer.alloc(0) });
  const stored = { uri: fileUri(path.join(folder, 'b')), path: path.join(folder, 'a'), ifAbsent: true };
  expect([await ask('storage.write', stored), await ask('storage.write', stored)]).toEqual([{ answer: true }, { answer: false }]);
});

test('returns null for other services', async () => {
  expect(await ask('storage.save-checkpoint', {})).toBeNull();
  expect(await ask('constructor', {})).toBeNull();
});

test.each([
  ['storage.stat', {}, 'uri is not a string'],
  ['storage.stat', { uri: 'x'.repeat(9000) }, 'at most 8192 characters'],
  ['storage.read', { uri: 'file:///a', offset: -1, length: 1 }, 'offset is not a whole number'],
  ['storage.read', { uri: 'file:///a', offset: 0, length: 8 * 1024 * 1024 + 1 }, 'length exceeds'],
  ['storage.write', { uri: 'file:///a', path: 'relative' }, 'path is not absolute'],
  ['storage.rename', { from: 'file:///a' }, 'to is not a string'],
])('%s rejects %o', async (service, question, message) => {
  await expect(ask(service, question)).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining(message) });
});
