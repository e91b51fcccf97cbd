import path from 'node:path';
import { TonyError } from '../../platform/errors.ts';
import { runExplained } from './tool.ts';

/** `extractall` writes only within its folder, and verifies the checksum of each file. */
const UNPACK = `
import re, sys, zipfile
wheel, folder, wanted = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(folder, [name for name in archive.namelist() if re.search(wanted, name)])
`;

/**
 * Unpacks the files of a Python wheel (a zip archive) whose paths match `wanted`, a regular expression in Python syntax.
 * @throws TonyError RUNTIME_CACHE_UNWRITABLE
 */
export async function unpackWheel(wheel: string, folder: string, wanted: RegExp, signal: AbortSignal): Promise<void> {
  const args = ['-I', '-c', UNPACK, wheel, folder, wanted.source];
  await runExplained({ command: 'python3', args, cwd: path.dirname(wheel), signal, timeoutMs: 10 * 60_000 }, (failure) => {
    const message = `cannot unpack ${path.basename(wheel)} in ${folder}: ${failure.message}\n${failure.lastLines(3)}`;
    return new TonyError('RUNTIME_CACHE_UNWRITABLE', message, { cause: failure });
  });
}
