import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { TonyError } from '../../platform/errors.ts';
import { runExplained } from './tool.ts';

/** Path of the script, which the build copies to the bundle folder. */
const SCRIPT = fileURLToPath(new URL('./unpack-wheels.py', import.meta.url));
const EVERYTHING = /^/;
const UNPACK_MS = 20 * 60_000;

export interface WheelPlaces {
  /** Folder from which Python imports the packages. */
  readonly folder: string;
  /** Folder for data files and, in `bin/`, for commands. If null, data files and commands are omitted. */
  readonly root?: string | null;
  /** Regular expression in Python syntax that matches the paths of the wanted files. By default, all files are unpacked. */
  readonly wanted?: RegExp;
}

/**
 * Unpacks Python wheels, which are zip archives. Python's zipfile module verifies the checksum of each file.
 * @throws TonyError RUNTIME_CACHE_UNWRITABLE
 */
export async function unpackWheels(
  wheels: readonly string[],
  { folder, root = null, wanted = EVERYTHING }: WheelPlaces,
  signal: AbortSignal,
): Promise<void> {
  const request = JSON.stringify({ wheels, folder, root, wanted: wanted.source });
  const call = { command: 'python3', args: ['-I', SCRIPT, request], cwd: path.dirname(SCRIPT), signal, timeoutMs: UNPACK_MS };
  await runExplained(call, (failure) => {
    const message = `cannot unpack wheels in ${folder}: ${failure.message}\n${failure.lastLines(3)}`;
    return new TonyError('RUNTIME_CACHE_UNWRITABLE', message, { cause: failure });
  });
}
