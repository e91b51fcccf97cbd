import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { TonyError } from '../../platform/errors.ts';
import { runExplained } from './tool.ts';

/** The build copies the script to the folder of the bundles. */
const SCRIPT = fileURLToPath(new URL('./unpack-wheels.py', import.meta.url));
const EVERYTHING = /^/;
const UNPACK_MS = 20 * 60_000;

export interface WheelPlaces {
  /** Folder for the packages, from which Python imports them. */
  readonly folder: string;
  /** Folder for commands (in `bin/`) and data files; null to omit them. */
  readonly root?: string | null;
  /** Regular expression in Python syntax for the paths of the wanted files. The default is all files. */
  readonly wanted?: RegExp;
}

/**
 * Unpacks Python wheels (zip archives). zipfile verifies the checksum of each file.
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
