import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { PythonRequirements } from '../../conf/python.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Target } from '../runtime/target-platform.ts';
import { glibcOf } from './wheel-name.ts';

const PYTHON_MS = 20_000;
/**
 * Returns the Python version and the platform from job.yaml. Values that job.yaml does not set default to those of this machine.
 * @throws TonyError RUNTIME_TOOL_MISSING, RUNTIME_UNSUPPORTED
 */
export async function targetOf({ version, platform }: Pick<PythonRequirements, 'version' | 'platform'>): Promise<Target> {
  const named = platform === null ? thisPlatform() : { machine: machineOf(platform), glibc: glibcOf(platform) ?? '' };
  return { ...named, version: version ?? (await thisVersion()) };
}

export function platformName({ machine, glibc }: Target): string {
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
      throw new TonyError('RUNTIME_TOOL_MISSING', `python3 does not run on this machine: ${messageOf(error)}`, {
        hint: 'Install python3 and pip on this machine. tony-ts downloads the packages with pip.',
        cause: error,
      });
    },
  );
  return stdout.trim();
}
