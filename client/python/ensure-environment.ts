import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { PythonRequirements } from '../../conf/python.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { PACKAGES_FILE } from '../../platform/python-packages.ts';
import { cacheFolder } from '../runtime/cache.ts';
import { type Built, type BuiltFiles, ensureBuilt, readBuilt, removeBuilt } from '../runtime/ensure-built.ts';
import type { ProgressWriter } from '../runtime/progress.ts';
import type { Target } from '../runtime/target-platform.ts';
import { buildEnvironment, type EnvironmentDescription } from './build-environment.ts';
import { type RequirementsFile, readRequirements } from './requirements-files.ts';
import { glibcOf } from './wheel-name.ts';

const PYTHON_MS = 20_000;
/**
 * Returns the Python version and the platform from job.yaml. Values that job.yaml does not set default to those of this machine.
 * @throws TonyError RUNTIME_TOOL_NOT_FOUND, RUNTIME_UNSUPPORTED
 */
async function targetOf({ version, platform }: Pick<PythonRequirements, 'version' | 'platform'>): Promise<Target> {
  const named = platform === null ? thisPlatform() : { machine: machineOf(platform), glibc: glibcOf(platform) ?? '' };
  return { ...named, version: version ?? (await thisVersion()) };
}

function platformName({ machine, glibc }: Target): string {
  return `manylinux_${glibc.replace('.', '_')}_${machine}`;
}

function machineOf(platform: string): string {
  return platform.replace(/^manylinux(_\d+_\d+|\d+)_/, '');
}

function thisPlatform(): Pick<Target, 'machine' | 'glibc'> {
  const machine = ({ x64: 'x86_64', arm64: 'aarch64', ppc64: 'ppc64le', s390x: 's390x' } as Readonly<Record<string, string>>)[process.arch];
  // Without `excludeNetwork`, `getReport` looks up the names of connected hosts, which can take seconds.
  (process.report as { excludeNetwork?: boolean }).excludeNetwork = true;
  const { header } = process.report.getReport() as unknown as { readonly header: { readonly glibcVersionRuntime?: string } };
  if (machine === undefined || header.glibcVersionRuntime === undefined) {
    throw new TonyError(
      'RUNTIME_UNSUPPORTED',
      `This machine's platform (${process.platform} ${process.arch}, without glibc) differs from the nodes' platform.`,
      {
        hint: 'Set the nodes\' platform in job.yaml, as in python: {requirements: FILE, version: "3.11", platform: manylinux_2_28_x86_64}.',
      },
    );
  }
  return { machine, glibc: header.glibcVersionRuntime };
}

async function thisVersion(): Promise<string> {
  const script = 'import sys; print("%d.%d" % sys.version_info[:2])';
  const { stdout } = await promisify(execFile)('python3', ['-I', '-S', '-c', script], { timeout: PYTHON_MS, killSignal: 'SIGKILL' }).catch(
    (error: unknown) => {
      throw new TonyError('RUNTIME_TOOL_NOT_FOUND', `python3 does not run on this machine: ${messageOf(error)}`, {
        hint: 'Install python3 and pip on this machine. tony-ts downloads the packages with pip.',
        cause: error,
      });
    },
  );
  return stdout.trim();
}

/** Cached Python environment that contains the packages from a requirements file. */
export interface Environment extends EnvironmentDescription, BuiltFiles {}

/** Version of the archive layout. Increment it when the same wheels produce a different archive, so that cached archives are rebuilt. */
const LAYOUT = 1;
/** Time (ms) after which an unused environment is removed from the cache. */
const UNUSED_MS = 30 * 24 * 60 * 60_000;
const DESCRIPTION = 'environment.json';

/**
 * Returns the environment from the cache, or downloads its packages. The cache key is a hash of the requirements, the Python version and
 * the platform. As long as the requirements do not change, the environment therefore keeps its package versions, and pip does not contact
 * the registry. Safe for concurrent processes.
 * @param progress called with progress lines
 * @throws TonyError PYTHON_PACKAGES_NOT_FOUND, SOURCE_NOT_FOUND, RUNTIME_*
 */
export async function ensureEnvironment(wanted: PythonRequirements, progress: ProgressWriter = () => {}): Promise<Environment> {
  const [requirements, target] = await Promise.all([readRequirements(wanted.file), targetOf(wanted)]);
  const built = environmentOf(requirements, target);
  let isNew = false;
  const environment = await ensureBuilt(built, (line) => {
    isNew = true;
    progress(line);
  });
  await markUsed(path.join(built.shelf, built.key));
  if (isNew) {
    await removeUnused(built.shelf);
  } else {
    const day = new Date(environment.resolvedAt).toISOString().slice(0, 10);
    progress(`using the ${environment.packages.length} Python packages that pip chose for ${path.basename(wanted.file)} on ${day}`);
  }
  return environment;
}

function environmentOf(requirements: RequirementsFile, target: Target): Built<Environment> {
  const platform = platformName(target);
  const { kind, digests } = requirements;
  const digest = createHash('sha256')
    .update(JSON.stringify({ layout: LAYOUT, kind, digests, version: target.version, platform }))
    .digest('hex');
  const key = `python-${target.version}-${platform}-${digest.slice(0, 16)}`;
  return {
    what: 'Python environment',
    shelf: path.join(cacheFolder(), 'python'),
    key,
    read,
    build: (folder, progress) => buildEnvironment(requirements, target, key, folder, progress),
  };
}

/**
 * Sets the modification time of environment.json, which records when the environment was last used. Ignores errors, because the cache may
 * be shared and belong to another user.
 */
async function markUsed(folder: string): Promise<void> {
  const now = new Date();
  await utimes(path.join(folder, DESCRIPTION), now, now).catch(() => {});
}

async function removeUnused(shelf: string): Promise<void> {
  for (const key of await readdir(shelf)) {
    const description = await stat(path.join(shelf, key, DESCRIPTION)).catch(() => null);
    if (description !== null && description.mtimeMs < Date.now() - UNUSED_MS) {
      await removeBuilt({ shelf, key });
    }
  }
}

function read(folder: string): Promise<Environment | null> {
  const broken = { subject: 'the Python environment', hint: 'Remove this folder; the next submit downloads the packages again.' };
  return readBuilt<EnvironmentDescription>(folder, 'environment', PACKAGES_FILE, broken);
}
