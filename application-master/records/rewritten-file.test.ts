import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { RewrittenFile } from './job-files.ts';

async function open(storage: Storage, pauseMs: number): Promise<{ file: RewrittenFile; lines: string[]; read: () => Promise<string> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rewritten-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const place = path.join(folder, 'x.jsonl');
  const lines: string[] = [];
  const content = (): Buffer => Buffer.from(lines.join(''));
  const options = { storage, uri: fileUri(place), permission: 0o600, content, pauseMs: () => pauseMs, log: pino({ level: 'silent' }) };
  return { file: new RewrittenFile(options), lines, read: () => readFile(place, 'utf8').catch(() => '') };
}

test('combines changes into one write, and writes pending changes when it closes', async () => {
  let writes = 0;
  class Counting extends FileStorage {
    override write(...words: Parameters<FileStorage['write']>): ReturnType<FileStorage['write']> {
      writes++;
      return super.write(...words);
    }
  }
  const { file, lines, read } = await open(new Counting(), 20);
  for (const line of ['a', 'b', 'c']) {
    lines.push(line);
    file.touch();
  }
  await expect.poll(read).toBe('abc');
  expect(writes).toBe(1);
  lines.push('d');
  file.touch();
  await file.close();
  expect(await read()).toBe('abcd');
  await file.close();
  expect(writes).toBe(2);
});

test('retries a failed write', async () => {
  let away = true;
  class Flaky extends FileStorage {
    override write(...words: Parameters<FileStorage['write']>): ReturnType<FileStorage['write']> {
      return away ? Promise.reject(new Error('away')) : super.write(...words);
    }
  }
  const { file, lines, read } = await open(new Flaky(), 5);
  lines.push('a');
  file.touch();
  await new Promise((resolve) => setTimeout(resolve, 20));
  away = false;
  await expect.poll(read).toBe('a');
  await file.close();
});
