import path from 'node:path';
import { stringify } from 'yaml';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { writeNewFile } from '../files/write-new-file.ts';

export interface NewJob {
  readonly name: string;
  readonly workers: number;
  readonly gpus: number;
  readonly queue: string;
}

const NEW_JOB: OptionNames<NewJob> = { name: true, workers: true, gpus: true, queue: true };

const LIBRARY = 'tony-ts/training';

/** Writes text as YAML reads it: in quotes if it looks like a number, contains a comment sign, and so on. */
function scalar(text: string): string {
  return stringify(text, {
    lineWidth: 0,
    defaultStringType: /[\n\r]/.test(text) ? 'QUOTE_DOUBLE' : 'PLAIN',
    doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER,
  }).trimEnd();
}

/** Returns a new job.yaml and its program, which trains a small model on generated data. */
function newJobFiles({ name, workers, gpus, queue }: NewJob): Readonly<Record<string, string>> {
  const job = `# tony-ts submit --conf job.yaml [--local]        tony-ts explain lists all keys
name: ${scalar(name)}
queue: ${scalar(queue)}
command: node train.ts
${gpus > 0 ? 'runtime: gpu\n' : ''}
roles:
  worker:
    instances: ${workers}
    resources: { memory: 2g, vcores: 1${gpus > 0 ? `, gpus: ${gpus}` : ''} }

checkpoint:
  everySteps: 50
`;
  const program = `import { join } from '${LIBRARY}';

// In a job, this process is one of its workers. Without a job (node train.ts), it trains alone.
const cluster = await join();
const { tf } = cluster;

// Example data: points in a plane, labelled by whether they lie within a circle. Replace it with your own data. docs/training.md describes
// idx, csv, tfrecords and other sources.
const EXAMPLES = 4096;
const points = Float32Array.from({ length: EXAMPLES * 2 }, (_, index) => 2 * ((index * 0.6180339887) % 1) - 1);
const inside = Float32Array.from({ length: EXAMPLES }, (_, index) => (Math.hypot(points[2 * index]!, points[2 * index + 1]!) < 0.7 ? 1 : 0));

const model = tf.sequential();
model.add(tf.layers.dense({ inputShape: [2], units: 32, activation: 'relu' }));
model.add(tf.layers.dense({ units: 32, activation: 'relu' }));
model.add(tf.layers.dense({ units: 1, activation: 'sigmoid' }));
model.compile({ optimizer: tf.train.adam(0.01), loss: 'binaryCrossentropy', metrics: ['accuracy'] });

const { history } = await cluster.fit(model, { x: { values: points, shape: [EXAMPLES, 2] }, y: { values: inside, shape: [EXAMPLES, 1] } }, { epochs: 10, batchSize: 64 });
if (cluster.isChief) console.log(\`accuracy: \${(100 * (history.acc?.at(-1) ?? 0)).toFixed(2)} %\`);
`;
  return { 'job.yaml': job, 'train.ts': program, '.tonyignore': 'node_modules\n' };
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
