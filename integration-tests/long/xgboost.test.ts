import { copyFile, cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, temporaryFolder, USER, useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';
import { MNIST } from '../small-mnist.ts';
import { SubmittedJob } from './submitted-job.ts';

/** Runs examples/xgboost on the cluster, with the packages of its requirements file. */

const cluster = useCluster();
const EXAMPLE = path.join(ROOT, 'examples', 'xgboost');
const REQUIREMENTS = ['xgboost-cpu==3.2.0', 'numpy==2.2.6', 'scipy==1.15.3'];
const python = await pythonWith(path.join(ROOT, '.cache', 'xgboost-cpu-3.2.0'), REQUIREMENTS);

/** Several OpenMP threads wait in loops for each other, which takes minutes while other processes use the processors. */
const OMP_NUM_THREADS = '1';

/** Prints the share of wrong predictions of a model. */
const EVALUATE = `
import json, sys, numpy as np, xgboost as xgb
sys.path.insert(0, sys.argv[1])
from train import load
test = load(sys.argv[2], "t10k", 3000)
model = xgb.Booster(model_file=sys.argv[3])
print(json.dumps({"rounds": model.num_boosted_rounds(), "error": float(np.mean(model.predict(test) != test.get_label()))}))
`;

/** Prints the error of each combination of parameters, as `examples/xgboost/sweep.py` computes it. */
const LOOP = `
import json, sys, xgboost as xgb
sys.path.insert(0, sys.argv[1])
from train import load
data = load(sys.argv[2], "train", 1000)
for depth in (2, 4):
    for eta in (0.1, 0.3, 0.6):
        parameters = {"objective": "multi:softmax", "num_class": 10, "max_depth": depth, "eta": eta}
        history = xgb.cv(parameters, data, num_boost_round=10, nfold=3, metrics="merror", seed=1, as_pandas=False)
        error = history["test-merror-mean"][-1]
        print(json.dumps({"configuration": {"max_depth": depth, "eta": eta}, "metrics": {"error": error}}))
`;

interface SweepResults {
  readonly trials: readonly {
    readonly index: number;
    readonly configuration: object;
    readonly metrics: { readonly error: number };
  }[];
}

function resultIn(text: string): unknown {
  return JSON.parse(/\{"rounds".*\}/.exec(text)?.[0] ?? 'null');
}

test('after its program was killed, the job has the model and the result of the script alone', async () => {
  const folder = await temporaryFolder();
  await cp(EXAMPLE, folder, { recursive: true });
  await copyFile(path.join(ROOT, 'integration-tests', 'programs', 'held.py'), path.join(folder, 'held.py'));
  const job = await SubmittedJob.submit(cluster, path.join(folder, 'job.yaml'), [
    ...['command=python3 held.py 10 train.py', 'runtime=system', `data.mnist=${MNIST}`, `env.OMP_NUM_THREADS=${OMP_NUM_THREADS}`],
  ]);
  const held = await job.reaches(({ checkpointStep }) => checkpointStep === 10);
  const [program] = await job.processes(held, 'worker', 0, 'python3 held.py');
  process.kill(program as number, 'SIGKILL');
  const final = await job.ended();
  const output = await job.output();
  expect(final, output).toMatchObject({ state: 'succeeded', generations: 2, step: 30 });
  const env = { ...process.env, OMP_NUM_THREADS, PYTHONDONTWRITEBYTECODE: '1' };
  const alone = resultIn((await execute(python, ['train.py', '--data', MNIST], { cwd: EXAMPLE, env })).stdout);
  expect(alone).toEqual({ rounds: 30, error: final.metrics.error });
  expect(resultIn(output)).toEqual(alone);
  const model = path.join(folder, 'model.ubj');
  await writeFile(model, await cluster.hdfsRead(`/user/${USER}/.tony-ts/output/${job.id}/model/model.ubj`));
  expect(resultIn((await execute(python, ['-c', EVALUATE, EXAMPLE, MNIST, model], { env })).stdout)).toEqual(alone);
});

test('the sweep has the results of a plain loop in Python', async () => {
  const job = await SubmittedJob.submit(cluster, path.join(EXAMPLE, 'sweep.yaml'), ['runtime=system', `data.mnist=${MNIST}`]);
  const final = await job.ended();
  expect(final, await job.output()).toMatchObject({ state: 'succeeded', generations: 1 });
  const results = await cluster.hdfsRead(`/user/${USER}/.tony-ts/output/${job.id}/sweep/results.json`);
  const { trials } = JSON.parse(results.toString()) as SweepResults;
  const env = { ...process.env, OMP_NUM_THREADS, PYTHONDONTWRITEBYTECODE: '1' };
  const plain = jsonLines((await execute(python, ['-c', LOOP, EXAMPLE, MNIST], { env })).stdout);
  expect(plain).toHaveLength(6);
  const inOrder = trials.toSorted((a, b) => a.index - b.index);
  expect(inOrder.map(({ configuration, metrics }) => ({ configuration, metrics }))).toEqual(plain);
  const best = trials[0]?.metrics.error;
  expect(best).toBe(Math.min(...trials.map(({ metrics }) => metrics.error)));
  expect(final.metrics).toMatchObject({ 'sweep/trials': 6, 'sweep/best': best });
});
