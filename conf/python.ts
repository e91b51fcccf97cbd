import * as z from 'zod';
import { pathProblem } from './shipped-files.ts';
import { isUri } from './values/is-uri.ts';
import { anyText, text } from './values/value-schemas.ts';

/** Python installation that a job's programs use. */
export type PythonEnvironment = { readonly type: 'system' } | PythonRequirements | PythonArchive;

/** Python packages that tony-ts downloads and ships to the nodes. */
export interface PythonRequirements {
  readonly type: 'requirements';
  /** Absolute path of a requirements file, a pyproject.toml or a uv.lock. */
  readonly file: string;
  /** Python version on the nodes, for example `3.11`, or null for the version on this machine. */
  readonly version: string | null;
  /** Platform of the nodes, for example `manylinux_2_28_x86_64`, or null for this machine's platform. */
  readonly platform: string | null;
}

/** Archive of an entire environment, as created by conda-pack or venv-pack. */
export interface PythonArchive {
  readonly type: 'archive';
  /** Absolute path of a local file, or a URI. */
  readonly path: string;
}

const version = z
  .string({ error: "expected a version in quotes such as '3.11'" })
  .regex(/^3\.\d{1,2}$/, { error: "expected a version such as '3.11'" });
const platform = z.string().regex(/^manylinux(1|2010|2014|_2_\d{1,2})_(x86_64|aarch64|ppc64le|s390x)$/, {
  error: 'expected a platform such as manylinux_2_28_x86_64 or manylinux2014_aarch64',
});

const archivePath = text().superRefine((path, context) => {
  const message = pathProblem(path, null);
  if (message !== undefined) {
    context.addIssue({ code: 'custom', message });
  }
});

/** Schema for `python` in job.yaml. */
export const pythonSchema = z.union(
  [
    z.literal('system'),
    z.strictObject({
      requirements: text().describe(
        'Path of a pip requirements file, a pyproject.toml or a uv.lock, relative to this file. tony-ts downloads wheels with the pip installed on this machine, and reads a uv.lock with the installed uv.',
      ),
      version: version
        .describe('Python version on the nodes, in quotes. The default is the version of python3 on this machine.')
        .optional(),
      platform: platform
        .describe(
          "Platform of the nodes (glibc version and processor), such as manylinux_2_28_x86_64. The default is this machine's platform.",
        )
        .optional(),
    }),
    z.strictObject({
      archive: archivePath.describe('Path of an archive created by conda-pack or venv-pack, relative to this file, or its hdfs:// URI.'),
    }),
  ],
  { error: 'expected system, {requirements, version, platform} or {archive}' },
);

/** Schema for `python` in a resolved job. */
export const resolvedPython: z.ZodType<PythonEnvironment> = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('system') }),
  z.strictObject({ type: z.literal('requirements'), file: anyText(), version: version.nullable(), platform: platform.nullable() }),
  z.strictObject({ type: z.literal('archive'), path: archivePath }),
]);

/** @param resolve returns the absolute path of a local file */
export function toPython(written: z.output<typeof pythonSchema>, resolve: (path: string) => string): PythonEnvironment {
  if (written === 'system') {
    return { type: 'system' };
  }
  if ('archive' in written) {
    const { archive } = written;
    return { type: 'archive', path: isUri(archive) ? archive : resolve(archive) };
  }
  const { requirements, version: wanted = null, platform: on = null } = written;
  return { type: 'requirements', file: resolve(requirements), version: wanted, platform: on };
}
