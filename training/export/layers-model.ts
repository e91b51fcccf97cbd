import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { type LayerTree, layersOf } from '../backend/backend.ts';
import { hasOwnWeights, isBuiltIn } from '../optimizer/optimizer-members.ts';
import { type OptimizerSlot, OptimizerSlots } from '../optimizer/optimizer-slots.ts';
import { modelFilesHandler, writeModelFiles } from './model-files.ts';

export interface ModelWorld {
  readonly tf: typeof tfjs;
  readonly storage: Storage;
}

export interface ExportLayersOptions {
  /** Whether to export the optimizer's slots and the loss as well, so that another program can continue training. Default: false. */
  readonly includeOptimizer?: boolean;
}

/** Members of a compiled model that its type declarations omit. */
interface Compiled {
  readonly model?: Compiled;
  readonly loss?: unknown;
  readonly metrics?: unknown;
}

/** The names from which TensorFlow.js 4.22 can load a metric. */
const METRICS: ReadonlySet<string> = new Set([
  ...['accuracy', 'acc', 'crossentropy', 'ce', 'binaryAccuracy', 'categoricalAccuracy', 'precision', 'categoricalCrossentropy'],
  ...['sparseCategoricalCrossentropy', 'mse', 'MSE', 'mae', 'MAE', 'mape', 'MAPE', 'cosine'],
]);

/**
 * @throws TonyError MODEL_UNSUPPORTED, before anything is written, if TensorFlow.js could not load the optimizer, the loss or a metric,
 * or would load a layer as another class.
 */
export async function exportLayersModel(
  { tf, storage }: ModelWorld,
  model: tfjs.LayersModel,
  uri: string,
  { includeOptimizer = false }: ExportLayersOptions = {},
): Promise<void> {
  refuseImpostors(tf, model);
  const handler = tf.io.withSaveHandler(async (artifacts) => {
    await writeModelFiles(storage, uri, artifacts);
    return { modelArtifactsInfo: { dateSaved: new Date(), modelTopologyType: 'JSON' } };
  });
  const save = () => model.save(handler, { includeOptimizer });
  const optimizer = model.optimizer as tfjs.Optimizer | undefined;
  if (!includeOptimizer || optimizer === undefined || optimizer === null) {
    await save();
    return;
  }
  requireLoadable(tf, model, optimizer);
  if (isBuiltIn(tf, optimizer)) {
    // A loaded model assigns the slots to its weights in this order.
    await OptimizerSlots.of(tf, optimizer).inOrder(
      trainedBy(model),
      (property, variable) => initialSlot(tf, optimizer, property, variable),
      save,
    );
  } else {
    await save();
  }
}

export async function loadLayersModel({ tf, storage }: ModelWorld, uri: string): Promise<tfjs.LayersModel> {
  const model = await tf.loadLayersModel(modelFilesHandler(tf, storage, uri));
  const optimizer = model.optimizer as tfjs.Optimizer | undefined;
  if (optimizer !== undefined && optimizer !== null) {
    OptimizerSlots.of(tf, optimizer).claim(trainedBy(model));
  }
  return model;
}

function trainedBy(model: tfjs.LayersModel): tfjs.Variable[] {
  return model.trainableWeights.map((weight) => weight.read() as tfjs.Variable);
}

/** Creates a slot as the optimizer would in its first step. */
function initialSlot(tf: typeof tfjs, optimizer: tfjs.Optimizer, property: string, variable: tfjs.Variable): OptimizerSlot {
  const kind = (optimizer as object).constructor as unknown as { fromConfig(kind: unknown, config: object): tfjs.Optimizer };
  const fresh = kind.fromConfig(kind, optimizer.getConfig());
  // For a variable without a gradient, TensorFlow.js only creates the slots.
  fresh.applyGradients([{ name: variable.name, tensor: null as unknown as tfjs.Tensor }]);
  const [slot] = (fresh as unknown as Record<string, OptimizerSlot[]>)[property] as [OptimizerSlot];
  const copy = { originalName: slot.originalName, variable: tf.tidy(() => slot.variable.clone().variable(false)) };
  fresh.dispose();
  return copy;
}

function requireLoadable(tf: typeof tfjs, model: tfjs.LayersModel, optimizer: tfjs.Optimizer): void {
  const outer = model as unknown as Compiled;
  const { loss, metrics } = outer.model ?? outer;
  const losses = typeof loss === 'object' && loss !== null ? Object.entries(loss) : [['', loss] as const];
  for (const [output, each] of losses) {
    if (typeof each !== 'string') {
      throw refusal(`the loss${placeOf(loss, output)} is ${nameOf(each)}`, 'Compile the model with the name of a loss');
    }
  }
  const isByOutput = typeof metrics === 'object' && metrics !== null && !Array.isArray(metrics);
  const given = isByOutput ? Object.entries(metrics) : [metrics].flat().map((metric) => ['', metric] as const);
  for (const [output, metric] of given) {
    const name = typeof metric === 'function' ? metric.name : metric;
    if (name !== undefined && name !== null && !METRICS.has(name as string)) {
      const what = Array.isArray(metric)
        ? `the metrics${placeOf(metrics, output)} are a list`
        : `the metric${placeOf(metrics, output)} is ${nameOf(metric)}`;
      throw refusal(what, 'Compile the model with the name of one metric for each output');
    }
  }
  requireLoadableOptimizer(tf, optimizer);
}

/** model.json contains only the names of classes. A custom layer with the name of another class would be loaded as that class. */
function refuseImpostors(tf: typeof tfjs, model: tfjs.LayersModel): void {
  for (const layer of layersOf(model as unknown as LayerTree)) {
    const name = layer.getClassName();
    const registered = registeredClass(tf, name);
    // A class derived from LayersModel inherits its name, and is loaded as a LayersModel with the same layers.
    if (layer.layers === undefined && registered !== undefined && registered !== (layer as object).constructor) {
      throw new TonyError('MODEL_UNSUPPORTED', `the class of layer ${layer.name} has the className ${name}, which is another class`, {
        hint: 'Give your class a className of its own, and call tf.serialization.registerClass in both programs.',
      });
    }
  }
}

function registeredClass(tf: typeof tfjs, className: string): unknown {
  const { classNameMap } = tf.serialization.SerializationMap.getMap() as {
    readonly classNameMap: Readonly<Record<string, readonly unknown[]>>;
  };
  return Object.hasOwn(classNameMap, className) ? classNameMap[className]?.[0] : undefined;
}

function requireLoadableOptimizer(tf: typeof tfjs, optimizer: tfjs.Optimizer): void {
  if (isBuiltIn(tf, optimizer)) {
    return;
  }
  const { name } = (optimizer as object).constructor;
  if (registeredClass(tf, optimizer.getClassName()) !== (optimizer as object).constructor) {
    throw refusal(`the class of the optimizer ${name} is not registered`, 'Call tf.serialization.registerClass in both programs');
  }
  if (!hasOwnWeights(tf, optimizer)) {
    throw refusal(`the optimizer ${name} has no getWeights and setWeights of its own`, 'Define them in its class');
  }
}

function placeOf(given: unknown, output: string): string {
  return output === '' ? '' : Array.isArray(given) ? ` of output ${Number(output) + 1}` : ` of output ${output}`;
}

function nameOf(given: unknown): string {
  return typeof given === 'function' ? `the function ${given.name || '(without a name)'}` : JSON.stringify(given);
}

function refusal(what: string, hint: string): TonyError {
  return new TonyError('MODEL_UNSUPPORTED', `the model cannot be exported with its optimizer, because ${what}`, {
    hint: `${hint}, or export the model without includeOptimizer.`,
  });
}
