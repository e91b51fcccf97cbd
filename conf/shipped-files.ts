import * as z from 'zod';
import { isUri } from './values/is-uri.ts';
import { anyText, text } from './values/value-schemas.ts';
import type { YamlProblem } from './yaml-file.ts';

/** File or archive that job.yaml lists under `files` or `archives`. YARN localises it for a role's containers. */
export interface ShippedFile {
  /** Name in the programs' working directory. An archive appears there as a folder with this name. */
  readonly name: string;
  readonly type: 'file' | 'archive';
  /** Absolute path of a local file, or an hdfs:// URI. */
  readonly path: string;
  /**
   * Visibility of the localised copy; see `Resource`. If null, the visibility is `public` if all users may read the file on HDFS, and
   * `private` otherwise.
   */
  readonly visibility: Visibility | null;
}

type Visibility = z.output<typeof visibility>;

const visibility = z.enum(['public', 'private', 'application']);

const FILE_NAME_PROBLEM = 'is not a valid file name (letters, digits and . _ + = @ -; no folders)';
/**
 * Name of a file. Only characters without a special meaning in shells are allowed, because YARN inserts the name into a shell script
 * without escaping it.
 */
const fileName = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9_.][A-Za-z0-9_.+=@-]{0,199}$/, { error: FILE_NAME_PROBLEM });

/** Returns the schema for `files` or `archives` in job.yaml. `what` describes a path. */
export function shippedFiles(what: string, place: string) {
  const path = text().describe(what);
  return z
    .record(
      fileName,
      z
        .union(
          [
            path,
            z.strictObject({
              path,
              visibility: visibility
                .describe(
                  "Which applications share the copy on a node. public: all users' applications; allowed only for a file on HDFS that all users may read. private: your applications. application: only this job, and the node removes the copy when the job ends. The default is public for a file on HDFS that all users may read, and private otherwise.",
                )
                .optional(),
            }),
          ],
          { error: 'expected a path, or {path, visibility}' },
        )
        .transform((value) => (typeof value === 'string' ? { path: value } : value))
        .describe(what),
    )
    .describe(place)
    .default({});
}

/** Schema for the files in a resolved job. */
export const resolvedFiles = z.array(
  z.strictObject({ name: fileName, type: z.enum(['file', 'archive']), path: anyText(), visibility: visibility.nullable() }),
);

type Written = z.output<ReturnType<typeof shippedFiles>>;

interface WithFiles {
  readonly files: Written;
  readonly archives: Written;
}

/** @param resolve returns the absolute path of a local file */
export function toShippedFiles({ files, archives }: WithFiles, resolve: (path: string) => string): ShippedFile[] {
  const of = (type: ShippedFile['type'], written: Written): ShippedFile[] =>
    Object.entries(written).map(([name, { path, visibility = null }]) => ({
      name,
      type,
      path: isUri(path) ? path : resolve(path),
      visibility,
    }));
  return [...of('file', files), ...of('archive', archives)];
}

/**
 * Reports file names that occur more than once within a role, and paths that YARN cannot localise. A role's files include the job's files.
 */
export function fileProblems(job: WithFiles & { readonly roles: Readonly<Record<string, WithFiles>> }): YamlProblem[] {
  const ofJob = listed(job, []);
  return [
    ...problemsOf(ofJob, []),
    ...Object.entries(job.roles).flatMap(([role, files]) => problemsOf(listed(files, ['roles', role]), ofJob)),
  ];
}

interface Listed {
  readonly name: string;
  readonly at: readonly string[];
  readonly path: string;
  readonly visibility?: Visibility | undefined;
}

function listed(files: WithFiles, above: readonly string[]): Listed[] {
  return (['files', 'archives'] as const).flatMap((key) =>
    Object.entries(files[key]).map(([name, value]) => ({ name, at: [...above, key, name], ...value })),
  );
}

function problemsOf(own: readonly Listed[], ofJob: readonly Listed[]): YamlProblem[] {
  return own.flatMap(({ name, at, path, visibility: shared }, index): YamlProblem[] => {
    const other = [...ofJob, ...own.slice(0, index)].find((each) => each.name === name);
    const message = pathProblem(path, shared ?? null);
    return [
      ...(other === undefined
        ? []
        : [{ path: at, atKey: true, message: `is also the name of ${other.at.join('.')}: choose another name` }]),
      ...(message === undefined ? [] : [{ path: at, message }]),
    ];
  });
}

/** Returns the reason why YARN cannot localise a file, or undefined if YARN can localise it. */
export function pathProblem(path: string, shared: Visibility | null): string | undefined {
  if (isUri(path)) {
    if (!/^(hdfs|s?webhdfs|viewfs):/i.test(path)) {
      return `NodeManagers cannot read ${path.slice(0, path.indexOf(':'))} storage: write an hdfs:// or webhdfs:// URI, or a path`;
    }
    // The NodeManager inserts the path into a shell script without escaping it.
    return /["$`\\\n]/.test(path) ? 'YARN cannot localise a path with one of the characters " $ ` \\' : undefined;
  }
  return shared === 'public' ? 'only a file on HDFS can be public: tony-ts uploads local files to your private staging folder' : undefined;
}
