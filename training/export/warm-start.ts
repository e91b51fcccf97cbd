import type * as tfjs from '@tensorflow/tfjs';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri, nameOf, parentUri } from '../../storage/uri.ts';
import { type NamedWeight, weightsOf } from '../model/compiled-model.ts';
import { tensorOf } from '../model/stored-tensors.ts';
import { weightsAmong } from '../model/training-state.ts';
import type { ModelWorld } from './layers-model.ts';
import { readModelFiles } from './model-files.ts';

export interface WarmStartOptions {
  /** Names of the layers whose weights are copied. Default: all layers. */
  readonly layers?: readonly string[];
  /** Whether to skip weights whose type or shape differs. Otherwise, such a weight is an error. Default: false. */
  readonly skipMismatched?: boolean;
  /** How weights are matched between the two models. Default: `name` if the models have weight names in common, and `order` otherwise. */
  readonly by?: 'name' | 'order';
}

export interface WarmStart {
  /** The model's weights that have received a value. `from` is the weight's name in the source. */
  readonly taken: readonly { readonly name: string; readonly from: string }[];
  /** The model's weights that have not changed. `why` is the reason. */
  readonly left: readonly { readonly name: string; readonly why: string }[];
  readonly unused: readonly string[];
}

interface SourceWeight {
  readonly name: string;
  readonly tensor: tfjs.Tensor;
}

interface Source {
  readonly what: string;
  /** The source's weights. The caller must dispose their tensors, except those of a model in memory. */
  readonly weights: readonly SourceWeight[];
}

/** Implements Models.warmStart. */
export async function warmStart(
  { tf, storage }: ModelWorld,
  model: tfjs.LayersModel,
  from: string | tfjs.LayersModel | tfjs.GraphModel,
  options: WarmStartOptions = {},
): Promise<WarmStart> {
  const source =
    typeof from === 'string' ? await readSource(tf, storage, from) : { what: 'the other model', weights: weightsInMemory(tf, from) };
  try {
    return copyWeights(tf, model, source, options);
  } finally {
    if (typeof from === 'string') {
      tf.dispose(source.weights.map(({ tensor }) => tensor));
    }
  }
}

function copyWeights(tf: typeof tfjs, model: tfjs.LayersModel, source: Source, options: WarmStartOptions): WarmStart {
  const { wanted, others } = chosenWeights(model, options.layers);
  const pairs = pairsOf(wanted, source, options.by);
  const left: { name: string; why: string }[] = others.map(({ name }) => ({ name, why: 'is not in the requested layers' }));
  const fitting: { readonly weight: NamedWeight; readonly other: SourceWeight }[] = [];
  for (const weight of wanted) {
    const other = pairs.get(weight);
    if (other === undefined) {
      left.push({ name: weight.name, why: 'has no match in the source' });
      continue;
    }
    const difference = differenceOf(weight, other);
    if (difference === null) {
      fitting.push({ weight, other });
    } else if (options.skipMismatched === true) {
      left.push({ name: weight.name, why: difference });
    } else {
      throw new TonyError('WARM_START_MISMATCH', `weight ${weight.name} does not fit: it ${difference} in ${source.what}`, {
        hint: 'To leave such weights unchanged, pass { skipMismatched: true }. To copy only some layers, pass { layers }.',
      });
    }
  }
  if (fitting.length === 0) {
    throw new TonyError(
      'WARM_START_MISMATCH',
      `no weight of ${source.what} fits the model: ${left.map(({ name, why }) => `${name} ${why}`).join(', ')}`,
    );
  }
  tf.tidy(() => {
    for (const { weight, other } of fitting) {
      // The weight needs a tensor of its own, because the source tensor may be disposed.
      weight.variable.assign(other.tensor.clone());
    }
  });
  const used = new Set(fitting.map(({ other }) => other));
  return {
    taken: fitting.map(({ weight, other }) => ({ name: weight.name, from: other.name })),
    left,
    unused: source.weights.filter((other) => !used.has(other)).map(({ name }) => name),
  };
}

function differenceOf({ variable }: NamedWeight, { name, tensor }: SourceWeight): string | null {
  const [here, there] = [`${variable.dtype} [${variable.shape}]`, `${tensor.dtype} [${tensor.shape}]`];
  return here === there ? null : `is ${here}, and ${name} is ${there}`;
}

function pairsOf(weights: readonly NamedWeight[], source: Source, wanted: WarmStartOptions['by']): Map<NamedWeight, SourceWeight> {
  const byName = new Map<string, SourceWeight[]>();
  for (const weight of source.weights) {
    byName.set(weight.name, [...(byName.get(weight.name) ?? []), weight]);
  }
  const by = wanted ?? (weights.some(({ name }) => byName.has(name)) ? 'name' : 'order');
  const pairs = weights.map((weight, index) => {
    // Nested models may have several weights with the same name. `shift` takes each weight from the source only once.
    const other = by === 'name' ? byName.get(weight.name)?.shift() : source.weights[index];
    return other === undefined ? [] : ([[weight, other]] as const);
  });
  return new Map(pairs.flat());
}

interface WithWeights {
  readonly name: string;
  readonly layers?: readonly WithWeights[];
  readonly weights: readonly { read(): tfjs.Variable }[];
}

function chosenWeights(model: tfjs.LayersModel, layers: readonly string[] | undefined): { wanted: NamedWeight[]; others: NamedWeight[] } {
  const weights = weightsOf(model);
  if (layers === undefined) {
    return { wanted: weights, others: [] };
  }
  const all = layersWithin(model as unknown as WithWeights);
  const missing = layers.filter((name) => !all.some((layer) => layer.name === name));
  if (missing.length > 0) {
    throw new TonyError(
      'WARM_START_MISMATCH',
      `the model has no layer ${missing.join(', ')}; its layers are ${all.map(({ name }) => name).join(', ')}`,
    );
  }
  const chosen = all.filter(({ name }) => layers.includes(name));
  const ids = new Set(chosen.flatMap((layer) => layer.weights.map((weight) => weight.read().id)));
  return {
    wanted: weights.filter(({ variable }) => ids.has(variable.id)),
    others: weights.filter(({ variable }) => !ids.has(variable.id)),
  };
}

function layersWithin({ layers = [] }: WithWeights): WithWeights[] {
  return layers.flatMap((layer) => [layer, ...layersWithin(layer)]);
}

function weightsInMemory(tf: typeof tfjs, model: tfjs.LayersModel | tfjs.GraphModel): SourceWeight[] {
  if (model instanceof tf.LayersModel) {
    return weightsOf(model).map(({ name, variable }) => ({ name, tensor: variable }));
  }
  return Object.entries(model.weights).flatMap(([name, tensors]) => tensors.map((tensor) => ({ name, tensor })));
}

async function readSource(tf: typeof tfjs, storage: Storage, uri: string): Promise<Source> {
  const isCheckpoint = /^step-\d+$/.test(nameOf(uri)) && (await storage.stat(joinUri(uri, 'manifest.json'))) !== null;
  return { what: uri, weights: isCheckpoint ? await readCheckpoint(tf, storage, uri) : await readModel(tf, storage, uri) };
}

async function readCheckpoint(tf: typeof tfjs, storage: Storage, uri: string): Promise<SourceWeight[]> {
  const store = new CheckpointStore(storage, parentUri(uri));
  const opened = await store.openCheckpoint(Number(nameOf(uri).slice('step-'.length)));
  const names = new Set(opened.manifest.tensors.map(({ name }) => name).filter((name) => name.startsWith('model:')));
  const stored = weightsAmong(await store.readTensors(opened, names));
  return [...stored.entries()]
    .sort(([one], [other]) => one - other)
    .map(([, tensor]) => ({ name: tensor.name.split(':').slice(2).join(':'), tensor: tensorOf(tf, tensor) }));
}

async function readModel(tf: typeof tfjs, storage: Storage, uri: string): Promise<SourceWeight[]> {
  const { weightSpecs = [], weightData = new ArrayBuffer(0) } = await readModelFiles(tf, storage, uri);
  const tensors = tf.io.decodeWeights(weightData, weightSpecs);
  const optimizer = weightSpecs.filter(({ group }) => group === 'optimizer').map(({ name }) => name);
  tf.dispose(optimizer.map((name) => tensors[name] as tfjs.Tensor));
  return weightSpecs.filter(({ group }) => group !== 'optimizer').map(({ name }) => ({ name, tensor: tensors[name] as tfjs.Tensor }));
}
