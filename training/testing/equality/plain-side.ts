/** Runs programs with TensorFlow.js alone. Receives the programs as messages from the parent process. */
import type * as tfjs from '@tensorflow/tfjs';
import { distance, Machine, type Rows } from './machine.ts';
import type { Answer, FitAction, Outcome, Program, StepAction } from './program.ts';

type Gradients = Record<string, tfjs.Tensor>;

const { default: tf } = (await import(process.env.PLAIN_TFJS ?? '@tensorflow/tfjs')) as { default: typeof tfjs };
if (process.env.PLAIN_TFJS === undefined) {
  await tf.setBackend('cpu');
}
await tf.ready();

/**
 * Makes every variable keep its own slots. TensorFlow.js finds slots by a variable's index in the step's list of gradients, and would mix
 * up slots if the lists change. This function therefore adds all earlier variables to each list.
 */
function keepPlaces(optimizer: tfjs.Optimizer): void {
  const places: string[] = [];
  const apply = optimizer.applyGradients.bind(optimizer);
  optimizer.applyGradients = (gradients) => {
    const given = new Map(
      Array.isArray(gradients) ? gradients.map(({ name, tensor }) => [name, tensor] as const) : Object.entries(gradients),
    );
    for (const name of given.keys()) {
      if (!places.includes(name)) {
        places.push(name);
      }
    }
    const registered = tf.engine().registeredVariables;
    apply(places.filter((name) => registered[name] !== undefined).map((name) => ({ name, tensor: given.get(name) as tfjs.Tensor })));
  };
}

const kept = new WeakSet<tfjs.Optimizer>();
function optimizerOf(machine: Machine, index: number): tfjs.Optimizer {
  const optimizer = machine.optimizerAt(index);
  if (!kept.has(optimizer)) {
    kept.add(optimizer);
    keepPlaces(optimizer);
  }
  return optimizer;
}

function clipped(gradients: Gradients, clip: FitAction['clip']): Gradients {
  if (clip === null) {
    return gradients;
  }
  const present = Object.entries(gradients).filter(([, tensor]) => tensor !== undefined && tensor !== null);
  if ('value' in clip) {
    return {
      ...gradients,
      ...Object.fromEntries(present.map(([name, tensor]) => [name, tf.clipByValue(tensor, -clip.value, clip.value)])),
    };
  }
  const norm = Math.sqrt(present.reduce((sum, [, tensor]) => sum + Number(tf.sum(tf.square(tensor)).dataSync()[0]), 0));
  const factor = norm > clip.norm ? clip.norm / norm : 1;
  return { ...gradients, ...Object.fromEntries(present.map(([name, tensor]) => [name, tf.mul(tensor, factor)])) };
}

/** Takes one step with the sum of several losses' gradients. Clips each loss's gradients separately. */
function minimizeSum(
  optimizer: tfjs.Optimizer,
  losses: readonly (() => tfjs.Scalar)[],
  variables: tfjs.Variable[] | undefined,
  clip: FitAction['clip'],
) {
  return tf.tidy(() => {
    const each = losses.map((loss) => tf.variableGrads(loss, variables));
    const sum: Gradients = {};
    for (const { grads } of each) {
      for (const [name, tensor] of Object.entries(clipped(grads, clip))) {
        if (tensor !== undefined && tensor !== null) {
          sum[name] = sum[name] === undefined ? tensor : tf.add(sum[name], tensor);
        }
      }
    }
    optimizer.applyGradients(variables === undefined ? sum : variables.map(({ name }) => ({ name, tensor: sum[name] as tfjs.Tensor })));
    return Number(each[0]?.value.dataSync()[0]);
  });
}

function trainableOf(model: tfjs.LayersModel): tfjs.Variable[] {
  const { collectedTrainableWeights } = model as unknown as { collectedTrainableWeights: { read(): tfjs.Variable }[] };
  return collectedTrainableWeights.map((weight) => weight.read());
}

/** Returns the loss that model.fit minimises, with example weights, which model.fit does not support. */
function weightedLoss(model: tfjs.LayersModel, { x, y, weights }: Rows, weighted: boolean): tfjs.Scalar {
  const errors = tf.mean(tf.square(tf.sub(model.apply(x, { training: true }) as tfjs.Tensor, y)), -1);
  const loss = tf.mean(weighted ? tf.mul(errors, weights) : errors) as tfjs.Scalar;
  return model.calculateLosses().reduce((sum, penalty) => tf.add(sum, penalty), loss);
}

function sliceOf(rows: Rows, from: number, count: number): Rows {
  return { x: tf.slice(rows.x, from, count), y: tf.slice(rows.y, from, count), weights: tf.slice(rows.weights, from, count) };
}

type Loss = [what: string, loss: number];

async function runFit(machine: Machine, program: Program, action: FitAction, at: number): Promise<Loss[]> {
  const { workers, strategy } = program;
  const { epochs, batchSize, examples, accumulate, clip, sampleWeight } = action;
  const optimizer = optimizerOf(machine, action.optimizer);
  const model = machine.compiled(action);
  const rows = machine.rows(machine.nextRows(examples), examples);
  const whole = batchSize * workers * accumulate;
  const served = strategy === 'parameter-server' && workers > 1;
  if (!served && !sampleWeight) {
    const compute = optimizer.computeGradients.bind(optimizer);
    optimizer.computeGradients = (...given) => {
      const { value, grads } = compute(...given);
      return { value, grads: clipped(grads, clip) };
    };
    const history = await model.fit(rows.x, rows.y, { epochs, batchSize: whole, shuffle: false, verbose: 0, yieldEvery: 'never' });
    optimizer.computeGradients = compute;
    return ['loss', 'mae'].flatMap((name) =>
      (history.history[name] as number[]).map((loss, epoch): Loss => [`action ${at}, epoch ${epoch}, ${name}`, loss]),
    );
  }
  for (let epoch = 0; epoch < epochs; epoch++) {
    for (let from = 0; from < examples; from += whole) {
      tf.tidy(() => {
        const batch = sliceOf(rows, from, Math.min(whole, examples - from));
        const parts = served ? Array.from({ length: workers }, (_, rank) => sliceOf(batch, rank * batchSize, batchSize)) : [batch];
        const losses = parts.map((part) => () => weightedLoss(model, part, sampleWeight));
        minimizeSum(optimizer, losses, trainableOf(model), clip);
      });
    }
  }
  return [];
}

function runStep(machine: Machine, program: Program, action: StepAction, at: number): Loss[] {
  const { workers, strategy } = program;
  const optimizer = optimizerOf(machine, action.optimizer);
  const variables = machine.variablesOf(action);
  const served = strategy === 'parameter-server' && workers > 1;
  const losses: Loss[] = [];
  const counts = action.examples.slice(0, workers);
  const total = counts.reduce((sum, count) => sum + count, 0);
  for (let index = 0; index < action.steps; index++) {
    const from = machine.nextRows(total);
    tf.tidy(() => {
      if (served) {
        const starts = counts.map((_, rank) => counts.slice(0, rank).reduce((sum, count) => sum + count, from));
        const parts = counts.map((count, rank) => machine.rows(starts[rank] as number, count));
        minimizeSum(
          optimizer,
          parts.map((part) => () => machine.lossOf(action, part)),
          variables,
          null,
        );
        return;
      }
      const rows = machine.rows(from, total);
      const loss = optimizer.minimize(() => machine.lossOf(action, rows), true, variables);
      losses.push([`action ${at}, step ${index}`, Number(loss?.dataSync()[0])]);
    });
  }
  return losses;
}

async function run(program: Program): Promise<Outcome> {
  const machine = new Machine(tf, program, 0);
  const losses: Loss[] = [];
  let path = 0;
  for (const [at, action] of program.actions.entries()) {
    if (machine.prepare(action)) {
      continue;
    }
    const before = machine.weights();
    if (action.do === 'fit') {
      losses.push(...(await runFit(machine, program, action, at)));
    }
    if (action.do === 'step') {
      losses.push(...runStep(machine, program, action, at));
    }
    path += distance(machine.weights(), before);
  }
  return { weights: machine.weights(), slots: machine.slots(), losses, path };
}

process.on('message', async (program: Program) => {
  let answer: Answer;
  try {
    answer = { outcome: await run(program) };
  } catch (error) {
    answer = { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  tf.disposeVariables();
  process.send?.(answer);
});
process.send?.('ready');
