import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import { LineWriter } from './line-writer.ts';

it('writes whole lines with a prefix, splits very long lines, and ends an unfinished last line on flush', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'line-writer-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'log');
  const descriptor = openSync(file, 'a');
  const source = new PassThrough();
  const writer = new LineWriter(source, descriptor, '[1] ');
  for (const piece of ['on', 'e\n\ntw', `o\n${'x'.repeat(70_000)}\nend`]) {
    source.write(piece);
  }
  source.destroy();
  await writer.ended;
  writer.flush();
  writer.flush();
  closeSync(descriptor);
  expect(readFileSync(file, 'utf8')).toBe(`[1] one\n[1] \n[1] two\n[1] ${'x'.repeat(65_536)}\n[1] ${'x'.repeat(4_464)}\n[1] end\n`);
});
