import path from 'node:path';
import { stringify } from 'yaml';
import { DEFAULT_FRAMEWORK } from '../../conf/frameworks.ts';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { writeNewFile } from '../files/write-new-file.ts';
import { NEW_PROGRAMS, type NewJobFramework, type NewProgram } from './new-job-programs.ts';

export interface NewJob {
  readonly name: string;
  readonly instances: number;
  readonly gpus: number;
  readonly queue: string;
  /** Framework of the program. The default is that of job.yaml. */
  readonly framework?: NewJobFramework | undefined;
}

const NEW_JOB: OptionNames<NewJob> = { name: true, instances: true, gpus: true, queue: true, framework: true };

/** Writes text as YAML reads it: in quotes if it looks like a number, contains a comment sign, and so on. */
function scalar(text: string): string {
  return stringify(text, {
    lineWidth: 0,
    defaultStringType: /[\n\r]/.test(text) ? 'QUOTE_DOUBLE' : 'PLAIN',
    doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER,
  }).trimEnd();
}

/** Returns a new job.yaml and its program, which trains a small model on generated data. */
function newJobFiles({ name, instances, gpus, queue, framework = DEFAULT_FRAMEWORK }: NewJob): Readonly<Record<string, string>> {
  const { file, command, text, memory, packages, gpuRuntime, ignored }: NewProgram = NEW_PROGRAMS[framework];
  const job = `# tony-ts submit --conf job.yaml [--local]        tony-ts explain lists all keys
name: ${scalar(name)}
queue: ${scalar(queue)}
${framework === DEFAULT_FRAMEWORK ? '' : `framework: ${framework}\n`}command: ${command}
${gpuRuntime === null || gpus === 0 ? '' : `runtime: ${gpuRuntime}\n`}${packages === null ? '' : pythonLines(packages)}
roles:
  worker:
    instances: ${instances}
    resources: { memory: ${memory}, vcores: 1${gpus > 0 ? `, gpus: ${gpus}` : ''} }

checkpoint:
  everySteps: 50
`;
  return { 'job.yaml': job, [file]: text, '.tonyignore': ignored };
}

function pythonLines(packages: string): string {
  return `
# The programs use the python3 of the nodes, which must have ${packages}. To ship the packages with the job instead, list them in
# requirements.txt and uncomment the next line. docs/frameworks.md#python-on-the-nodes compares the ways.
# python: { requirements: requirements.txt }
`;
}

/**
 * Creates a folder with the files for a new job. Never changes existing files.
 * @returns the file names
 * @throws TonyError ALREADY_EXISTS, JOB_INVALID
 */
export async function initJob(folder: string, job: NewJob): Promise<string[]> {
  checkOptions('initJob', job, NEW_JOB);
  const files = newJobFiles(job);
  try {
    parseJob(files['job.yaml'] ?? '', { file: 'the new job.yaml', folder });
  } catch (error) {
    const hint = 'Choose another value. No file was written.';
    throw error instanceof TonyError ? new TonyError(error.code, error.message, { hint, cause: error }) : error;
  }
  await makeFolders(folder);
  const names = Object.keys(files);
  for (const name of names) {
    await writeNewFile(path.join(folder, name), files[name] ?? '', 'Choose another folder: tony-ts init FOLDER.');
  }
  return names;
}
