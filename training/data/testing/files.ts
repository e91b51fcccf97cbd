import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { encodeTfRecord } from '../../../contract/encoding/tfrecord.ts';

export async function folderWith(files: Readonly<Record<string, string | Uint8Array>> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'datasets-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), content);
  }
  return folder;
}

export function tfRecordFile(records: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(records.map((record) => encodeTfRecord(Buffer.from(record))));
}
