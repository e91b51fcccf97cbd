import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { ensureRuntime } from '../../client/runtime/ensure-runtime.ts';
import { programEnvironment } from '../../contract/process/program-environment.ts';
import { environment, jsonLines, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

/** Models in both directions between TensorFlow.js and the real Keras. */

const PROGRAMS = path.join(ROOT, 'integration-tests', 'programs');
const REQUIREMENT = 'tensorflow-cpu==2.21.0';

function largest(differences: unknown): number {
  return Math.max(...Object.values(differences as Record<string, number>));
}

test('models of TensorFlow.js and of Keras make the same predictions on the other side', async () => {
  const folder = await temporaryFolder();
  const [ours, theirs] = [path.join(folder, 'tfjs'), path.join(folder, 'keras')];
  await Promise.all([mkdir(ours), mkdir(theirs)]);
  const python = await pythonWith(path.join(ROOT, '.cache', REQUIREMENT.replace('==', '-')), [REQUIREMENT]);
  const env = environment({ TONY_BACKEND: 'cpu', PYTHONPATH: path.join(ROOT, 'python'), PYTHONDONTWRITEBYTECODE: '1' });
  const tfjs = (...words: string[]) => execute(process.execPath, [path.join(PROGRAMS, 'models-for-keras.mjs'), ...words], { env });
  await tfjs('export', ours);
  const words = [path.join(PROGRAMS, 'keras-models.py'), ...[ours, theirs].map((place) => pathToFileURL(place).href)];
  const { stdout } = await execute(python, words, { env });
  const [loaded] = jsonLines(stdout);
  expect(Object.keys(loaded?.differences ?? {})).toEqual(['image', 'text', 'two']);
  expect(largest(loaded?.differences)).toBeLessThan(1e-5);
  expect(Object.keys(loaded?.saved ?? {})).toEqual(['image', 'text', 'two']);
  expect(largest(loaded?.saved)).toBeLessThan(1e-5);
  expect(loaded?.refusals).toEqual([
    [
      'MODEL_UNSUPPORTED',
      expect.stringMatching(/^the option activation is 'hard_sigmoid', but both libraries make the same predictions only with one of elu,/),
    ],
    ['MODEL_UNSUPPORTED', 'the option reset_after is True, but both libraries make the same predictions only with None or False'],
    ['MODEL_UNSUPPORTED', 'TensorFlow.js has no such layer'],
    ['MODEL_UNSUPPORTED', 'the option negative_slope is 0.1, but both libraries make the same predictions only with 0 or None'],
    ['MODEL_UNSUPPORTED', 'the option groups is 3, but both libraries make the same predictions only with 1 or None'],
    ['MODEL_UNSUPPORTED', "the option padding is 'causal', but both libraries make the same predictions only with 'valid' or 'same'"],
    ['MODEL_UNSUPPORTED', "the option dtype is 'float64', but both libraries make the same predictions only with 'float32' or None"],
    [
      'MODEL_UNSUPPORTED',
      "the option interpolation is 'bilinear', but both libraries make the same predictions only with 'nearest' or None",
    ],
    ['MODEL_UNSUPPORTED', 'the option dilation_rate is [2, 2], but both libraries make the same predictions only with 1'],
    ['MODEL_UNSUPPORTED', 'the option keepdims is True, but both libraries make the same predictions only with None or False'],
    ['MODEL_UNSUPPORTED', 'TensorFlow.js has no such layer'],
    ['MODEL_UNSUPPORTED', 'TensorFlow.js has no equivalent of amsgrad'],
    ['MODEL_UNSUPPORTED', 'TensorFlow.js has no equivalent of Lion'],
  ]);
  const checked = await tfjs('check', theirs);
  // TensorFlow.js prints an advertisement first.
  const [returned] = jsonLines(checked.stdout.slice(checked.stdout.indexOf('{')));
  // Training that changes between both continues as training with Keras alone.
  expect(Object.keys(returned ?? {}).sort()).toEqual(['adam', 'image', 'momentum', 'pictures', 'sequences', 'text', 'two']);
  // Adam adds epsilon at different places, which affects weights with small gradients.
  expect(returned?.adam).toBeLessThan(1e-4);
  expect(largest({ ...returned, adam: 0 })).toBeLessThan(1e-5);

  // Only TensorFlow's C library runs SavedModels.
  const { tree } = await ensureRuntime();
  const native = environment(programEnvironment(path.join(ROOT, 'dist', 'container'), tree, process.env));
  const savedWords = [path.join(PROGRAMS, 'models-for-keras.mjs'), 'check-saved', theirs];
  const [saved] = jsonLines((await execute(path.join(tree, 'bin', 'node'), savedWords, { env: native })).stdout);
  expect(Object.keys(saved ?? {}).sort()).toEqual(['image', 'pictures', 'sequences', 'text', 'two']);
  expect(largest(saved)).toBeLessThan(1e-5);
});
