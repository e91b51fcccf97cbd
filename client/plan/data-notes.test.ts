import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import { dataNotes } from './data-notes.ts';

test('a note names each input in a storage that does not exist', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'data-notes-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const present = fileUri(folder);
  const missing = joinUri(present, 'imagnet');
  const notes = await dataNotes({ train: missing, test: present, local: '/srv/none' }, 'hdfs://nn:8020/user/alice', new FileStorage());
  expect(notes).toEqual([`data.train: ${missing} does not exist. Unless a program of the job creates it, programs cannot read it.`]);
});
