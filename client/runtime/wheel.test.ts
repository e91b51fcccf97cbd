import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unpackWheel } from './wheel.ts';

/**
 * Uses Python's own zip writer: one file deflated, one stored, one empty, one with a non-ASCII name, one to skip, and an archive comment.
 */
const MAKE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('pkg/large.bin', bytes(range(256)) * 20000)
    z.writestr(zipfile.ZipInfo('pkg/stored.txt'), 'as it is', zipfile.ZIP_STORED)
    z.writestr('pkg/empty', '')
    z.writestr('pkg/größe.txt', 'wide')
    z.writestr('other/left.txt', 'not wanted')
    z.comment = b'PK\\x05\\x06 is not here'
`;

let folder: string;
let wheel: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'wheel-'));
  wheel = path.join(folder, 'x.whl');
  execFileSync('python3', ['-c', MAKE, wheel]);
});

afterEach(() => rm(folder, { recursive: true }));

const place = (name: string) => (name.startsWith('pkg/') ? name.replace('pkg/', 'out/') : null);

describe('unpackWheel', () => {
  it('unpacks what is asked for, to the byte', async () => {
    const written = await unpackWheel(wheel, folder, place);
    expect(written.sort()).toEqual(['out/empty', 'out/größe.txt', 'out/large.bin', 'out/stored.txt']);
    const large = await readFile(path.join(folder, 'out/large.bin'));
    expect(large).toHaveLength(256 * 20000);
    expect(large.every((byte, at) => byte === at % 256)).toBe(true);
    expect(await readFile(path.join(folder, 'out/stored.txt'), 'utf8')).toBe('as it is');
    expect(await readFile(path.join(folder, 'out/empty'), 'utf8')).toBe('');
    expect(await readFile(path.join(folder, 'out/größe.txt'), 'utf8')).toBe('wide');
    expect((await readdir(folder)).sort()).toEqual(['out', 'x.whl']);
  });

  it('writes nothing outside of its folder', async () => {
    await expect(unpackWheel(wheel, path.join(folder, 'in'), (name) => `../${path.basename(name)}`)).rejects.toThrow('leads out');
    expect(await readdir(folder)).toEqual(['x.whl']);
  });

  it('says what is wrong with a broken archive', async () => {
    const whole = await readFile(wheel);
    await truncate(wheel, whole.length - 60);
    await expect(unpackWheel(wheel, folder, place)).rejects.toThrow('not a zip archive');
    const bent = Buffer.from(whole);
    // The directory's offset in the end record, whose comment has 22 bytes.
    const end = whole.lastIndexOf(Buffer.from('504b0506', 'hex'), -23);
    bent.writeUInt32LE(7, end + 16);
    await writeFile(wheel, bent);
    await expect(unpackWheel(wheel, folder, place)).rejects.toThrow('record 0');
    bent.writeUInt32LE(0xfffffff0, end + 16);
    await writeFile(wheel, bent);
    await expect(unpackWheel(wheel, folder, place)).rejects.toThrow('lies outside');
  });

  it('ends with an error, and in good time, whatever is in the archive', async () => {
    const whole = await readFile(wheel);
    const start = whole.length - 700; // the central directory and the end record
    const change = fc.record({ at: fc.nat(699), value: fc.integer({ min: 1, max: 255 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), async (changes) => {
        const bent = Buffer.from(whole);
        for (const { at, value } of changes) bent[start + at] = (bent[start + at] ?? 0) ^ value;
        await writeFile(wheel, bent);
        await unpackWheel(wheel, folder, (name) => (name.includes('large') ? 'large' : `out/${Buffer.from(name).toString('hex')}`)).catch(
          (error) => expect(error).toBeInstanceOf(Error),
        );
      }),
      { numRuns: 60 },
    );
  });
});
