/** Runs programs with this library, as one rank or one parameter server. Receives the programs as messages from the parent process. */
import type * as tfjs from '@tensorflow/tfjs';
import { readTask } from '../../../contract/process/task.ts';
import type { TaskContext } from '../../../contract/process/task-context.ts';
import { Secret } from '../../../platform/secret.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { loadBackend } from '../../backend/backend.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import type { FitData } from '../../data/fit-data.ts';
import { fromArray } from '../../data/sources/sources.ts';
import { join } from '../../index.ts';
import { ParameterServer } from '../../parameter-server/server/serve.ts';
import type { CustomStepOptions } from '../../strategy/custom-step-options.ts';
import { Machine } from './machine.ts';
import type { Answer, FitAction, Outcome, Program, StepAction } from './program.ts';

export type RankMessage = { readonly program: Program; readonly taskFile: string } | { readonly serve: string } | { readonly stop: true };

type Loss = [what: string, loss: number];

const { tf } = await loadBackend(1);
let server: ParameterServer | null = null;

function dataOf(machine: Machine, action: FitAction): { data: FitData; batchSize: { batchSize?: number }; dispose: () => void } {
  const { data: kind, examples, batchSize } = action;
  const rows = machine.rows(machine.nextRows(examples), examples);
  const dispose = () => tf.dispose([rows.x, rows.y, rows.weights]);
  const column = (tensor: tfjs.Tensor) => ({ values: tensor.dataSync() as Float32Array, shape: tensor.shape });
  const weight = <T>(value: T) => (action.sampleWeight ? { sampleWeight: value } : {});
  if (kind === 'tensors') {
    return { data: { x: rows.x, y: rows.y, ...weight(rows.weights) }, batchSize: { batchSize }, dispose };
  }
  if (kind === 'columns') {
    return { data: { x: column(rows.x), y: column(rows.y), ...weight(column(rows.weights)) }, batchSize: { batchSize }, dispose };
  }
  const [xs, ys, weights] = [rows.x.arraySync(), rows.y.arraySync(), rows.weights.arraySync()];
  const elements = xs.map((each, index) => ({ xs: each, ys: ys[index] as number[], ...weight(weights[index] as number) }));
  if (kind === 'dataset') {
    return { data: fromArray(elements), batchSize: { batchSize }, dispose };
  }
  if (kind === 'batches') {
    return { data: fromArray(elements).batch(batchSize), batchSize: {}, dispose };
  }
  return { data: tf.data.array(elements as unknown as tfjs.TensorContainer[]).batch(batchSize), batchSize: {}, dispose };
}

async function runFit(cluster: Cluster, machine: Machine, program: Program, action: FitAction, at: number): Promise<Loss[]> {
  const { epochs, accumulate, clip, sampleWeight } = action;
  const model = machine.compiled(action);
  const { data, batchSize, dispose } = dataOf(machine, action);
  const clipping = clip === null ? {} : 'norm' in clip ? { clipNorm: clip.norm } : { clipValue: clip.value };
  const { history } = await cluster.fit(model, data, {
    ...{ epochs, ...batchSize, shuffle: false, accumulate, ...clipping },
    verifyEverySteps: 1,
    ...(action.checkpoint ? {} : { checkpoint: false }),
  });
  dispose();
  if (sampleWeight || (program.strategy === 'parameter-server' && program.workers > 1)) {
    return [];
  }
  return ['loss', 'mae'].flatMap((name) =>
    (history[name] as readonly number[]).map((loss, epoch): Loss => [`action ${at}, epoch ${epoch}, ${name}`, loss]),
  );
}

/** Returns a step's `variables` option. */
function namedBy(machine: Machine, action: StepAction): Pick<CustomStepOptions, 'variables'> {
  const variables = machine.variablesOf(action);
  if (variables === undefined) {
    return {};
  }
  if (action.named === 'models' && action.variables === 'both') {
    return { variables: action.heads.map((head) => machine.models[head] as tfjs.LayersModel) };
  }
  return { variables: action.named === 'layer weights' && action.variables !== 'late' ? machine.layerWeightsOf(action) : variables };
}

/** Returns true if the loss depends on variables that the step does not train. A step synchronises only the variables that it trains. */
function dependsOnMore(program: Program, { variables, late }: StepAction): boolean {
  const trainsAll = variables === 'default' || (variables === 'both' && !late);
  return !trainsAll || program.actions.some((action) => action.do === 'freeze') || program.trunk.some(({ kind }) => kind === 'batchNorm');
}

async function runStep(cluster: Cluster, machine: Machine, program: Program, action: StepAction, at: number): Promise<Loss[]> {
  const { workers, strategy } = program;
  const optimizer = machine.optimizerAt(action.optimizer);
  const counts = action.examples.slice(0, workers);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const { index } = cluster.share;
  const before = counts.slice(0, index).reduce((sum, count) => sum + count, 0);
  const examples = counts[index] as number;
  if (program.unequalStart && dependsOnMore(program, action)) {
    await cluster.broadcast(machine.variables);
  }
  // Omits the option if all ranks have the same number of examples, to test the default.
  const options = { ...namedBy(machine, action), ...(new Set(counts).size === 1 ? {} : { examples }) };
  const losses: Loss[] = [];
  for (let index = 0; index < action.steps; index++) {
    const rows = machine.rows(machine.nextRows(total) + before, examples);
    const loss = await cluster.step(() => machine.lossOf(action, rows), optimizer, options);
    tf.dispose([rows.x, rows.y, rows.weights]);
    losses.push([`action ${at}, step ${index}`, loss]);
  }
  return strategy === 'parameter-server' && workers > 1 ? [] : losses;
}

async function run(program: Program, taskFile: string): Promise<Outcome> {
  process.env.TONY_TASK_FILE = taskFile;
  const cluster = await join({ timeouts: { joinMs: 240_000, graceMs: 200 } });
  const machine = new Machine(tf, program, cluster.share.index);
  const losses: Loss[] = [];
  for (const [at, action] of program.actions.entries()) {
    if (machine.prepare(action)) {
      continue;
    }
    if (action.do === 'fit') {
      losses.push(...(await runFit(cluster, machine, program, action, at)));
    }
    if (action.do === 'step') {
      losses.push(...(await runStep(cluster, machine, program, action, at)));
    }
  }
  const outcome = { weights: machine.weights(), slots: machine.slots(), losses, path: 0 };
  await cluster.close();
  return outcome;
}

/** Does the same as `join` in a parameter server task, but returns, so this process can serve further programs. */
async function serve(taskFile: string): Promise<void> {
  process.env.TONY_TASK_FILE = taskFile;
  const { index, taskWorldSize: worldSize, generation, ringKey, listener, checkpoint } = readTask() as TaskContext;
  const key = new Secret(Buffer.from(ringKey, 'base64'));
  server = await ParameterServer.open({
    ...{ tf, index, worldSize, generation, key, checkpointDir: checkpoint.dir },
    listener: listener as NonNullable<TaskContext['listener']>,
    storage: new FileStorage(),
    onNotice: (message) => process.stderr.write(`${message}\n`),
  });
}

async function obey(message: RankMessage): Promise<Answer | 'serving' | 'stopped'> {
  try {
    if ('serve' in message) {
      await serve(message.serve);
      return 'serving';
    }
    if ('stop' in message) {
      server?.close();
      server = null;
      tf.disposeVariables();
      return 'stopped';
    }
    return { outcome: await run(message.program, message.taskFile) };
  } catch (error) {
    const { code = '', hint = '' } = error as { code?: string; hint?: string };
    return { error: `${code} ${error instanceof Error ? (error.stack ?? error.message) : String(error)} ${hint}` };
  } finally {
    if ('taskFile' in message) {
      tf.disposeVariables();
    }
  }
}

process.on('message', async (message: RankMessage) => {
  process.send?.(await obey(message));
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
