import { TonyError } from '../../../../platform/errors.ts';
import { withoutEnd } from '../../../../platform/text/without-end.ts';
import { DEFAULT_NEW_JOB, NEW_JOB_FRAMEWORKS as FRAMEWORKS } from '../../../job/new-job-programs.ts';
import { defineCommand, wholeNumber } from '../../command/command.ts';

export const initCommand = defineCommand({
  command: 'init [folder]',
  describe: 'Create job.yaml and a program for a new job that is ready to run; asks for values that you do not pass as options',
  positionals: { folder: { type: 'string', default: '.', describe: 'Folder for the job; created if it does not exist' } },
  options: {
    framework: { choices: FRAMEWORKS, describe: `Framework of the program [${DEFAULT_NEW_JOB}]` },
    name: { type: 'string', describe: 'Job name [folder name]' },
    instances: { ...wholeNumber(1), describe: 'Number of tasks that train together [2]' },
    gpus: { ...wholeNumber(0), describe: 'GPUs per task [0]' },
    queue: { type: 'string', describe: 'YARN queue [default]' },
    yes: {
      alias: 'y',
      type: 'boolean',
      default: false,
      describe: 'Do not ask; use the values in brackets for options that you do not pass',
    },
  },
  handler: async ({ folder, yes, ...given }) => {
    if (folder === '') {
      throw new TonyError('USAGE', 'The folder of the new job is an empty string.', { hint: 'Run `tony-ts init FOLDER`.' });
    }
    const path = await import('node:path');
    const { initJob } = await import('../../../job/new-job.ts');
    const questions = {
      framework: [given.framework, `Framework (${FRAMEWORKS.join(', ')})`, DEFAULT_NEW_JOB],
      name: [given.name, 'Name of the job', path.basename(path.resolve(folder)).replace(/^\W+|[^\w .:@+-]/g, '') || 'job'],
      instances: [given.instances, 'Workers', '2'],
      gpus: [given.gpus, 'GPUs of each worker', '0'],
      queue: [given.queue, 'YARN queue', 'default'],
    } as const;
    const answers = await answersOf(questions, !yes && process.stdin.isTTY && process.stdout.isTTY);
    const whole = (key: 'instances' | 'gpus', least: number): number => {
      const value = Number(answers[key]);
      if (Number.isInteger(value) && value >= least) {
        return value;
      }
      throw new TonyError('USAGE', `${key} must be a whole number of at least ${least}, not ${answers[key]}.`);
    };
    const framework = FRAMEWORKS.find((name) => name === answers.framework);
    if (framework === undefined) {
      throw new TonyError('USAGE', `framework must be one of ${FRAMEWORKS.join(', ')}, not ${answers.framework}.`);
    }
    const job = { framework, name: answers.name, queue: answers.queue, instances: whole('instances', 1), gpus: whole('gpus', 0) };
    const { shellWord } = await import('../../../../platform/text/shell-word.ts');
    const files = await initJob(folder, job);
    const place = folder === '.' ? '' : `${withoutEnd(folder, '/')}/`;
    process.stdout.write(`${files.map((file) => shellWord(`${place}${file}`)).join('  ')}\n`);
    process.stdout.write(`Try it on this machine: tony-ts submit --local --conf ${shellWord(`${place}job.yaml`)}\n`);
  },
});

/** Asks the user for the missing values, or uses the proposed values if `asked` is false. */
async function answersOf<Key extends string>(
  questions: Readonly<Record<Key, readonly [string | number | undefined, string, string]>>,
  asked: boolean,
): Promise<Record<Key, string>> {
  const { createInterface } = await import('node:readline/promises');
  const reader = asked ? createInterface({ input: process.stdin, output: process.stdout }) : null;
  try {
    const answers: Partial<Record<Key, string>> = {};
    for (const [key, [given, question, proposed]] of Object.entries(questions) as [
      Key,
      readonly [string | number | undefined, string, string],
    ][]) {
      const answer = given ?? (reader === null ? '' : (await reader.question(`${question} [${proposed}]: `).catch(interrupted)).trim());
      answers[key] = String(answer) || proposed;
    }
    return answers as Record<Key, string>;
  } finally {
    reader?.close();
  }
}

function interrupted(error: unknown): never {
  throw (error as { code?: unknown }).code === 'ABORT_ERR' ? new TonyError('INTERRUPTED', 'Interrupted. No files were written.') : error;
}
