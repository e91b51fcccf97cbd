import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { environment, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

const PROGRAMS = path.join(ROOT, 'integration-tests', 'programs');
const REQUIREMENT = 'tensorflow-cpu==2.21.0';

/** What became of the models of one direction. Each model is equal, refused, or listed with the reason why it is different. */
export interface Conversion {
  readonly equal: Readonly<Record<string, number>>;
  /** Messages of the refusals, by the layer of the model. */
  readonly refused: Readonly<Record<string, readonly string[]>>;
  readonly different: readonly (readonly [model: string, reason: string])[];
}

/** Converts random models and the models of edge_models.py in both directions, and compares the predictions of both libraries. */
export async function convertModels(
  seed: number,
  counts: { readonly keras: number; readonly tfjs: number },
): Promise<{ readonly toTfjs: Conversion; readonly toKeras: Conversion }> {
  const folder = await temporaryFolder();
  const [keras, tfjs] = [path.join(folder, 'keras'), path.join(folder, 'tfjs')];
  await Promise.all([mkdir(keras), mkdir(tfjs)]);
  const interpreter = await pythonWith(path.join(ROOT, '.cache', REQUIREMENT.replace('==', '-')), [REQUIREMENT]);
  const env = environment({ TONY_BACKEND: 'cpu', PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' });
  const run = async <Summary>(program: string, file: string, ...words: string[]): Promise<Summary> => {
    const { stdout } = await execute(program, [path.join(PROGRAMS, file), ...words], { env, maxBuffer: 1 << 28 });
    // TensorFlow.js prints an advertisement first.
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Summary;
  };
  const inPython = <Summary>(...words: string[]) => run<Summary>(interpreter, 'keras-conversion.py', ...words);
  const inNode = <Summary>(...words: string[]) => run<Summary>(process.execPath, 'keras-conversion.mjs', ...words);
  type Written = Pick<Conversion, 'refused'> & { readonly failed: Conversion['different'] };
  const written = await inPython<Written>('generate', String(seed), String(counts.keras), keras);
  const checked = await inNode<Omit<Conversion, 'refused'>>('check', keras);
  await inNode('generate', String(seed), String(counts.tfjs), tfjs);
  const toKeras = await inPython<Conversion>('check', tfjs);
  const different = [...written.failed, ...checked.different];
  return { toTfjs: { equal: checked.equal, refused: written.refused, different }, toKeras };
}
