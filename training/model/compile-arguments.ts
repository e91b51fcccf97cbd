import type * as tfjs from '@tensorflow/tfjs';
import { suggest } from '../../platform/text/suggest.ts';

const KNOWN = ['optimizer', 'loss', 'metrics'];
/** The next step, by argument of Keras's `compile`. */
const INSTEAD: Readonly<Record<string, string>> = {
  lossWeights: 'Multiply the losses by their weights instead, for example (y, output) => tf.losses.meanSquaredError(y, output).mul(0.2).',
  sampleWeightMode: 'Pass sampleWeight to fit instead.',
  weightedMetrics: 'Pass the functions as metrics instead.',
};

type Compile = (this: object, given: tfjs.ModelCompileArgs) => void;

const watched = new WeakSet<object>();
const ignoredBy = new WeakMap<object, readonly string[]>();

/** From now on, remembers the arguments of `model.compile` that TensorFlow.js ignores, for `ignoredArguments`. */
export function watchCompile(tf: typeof tfjs): void {
  for (const { prototype } of [tf.LayersModel, tf.Sequential] as unknown as { readonly prototype: { compile: Compile } }[]) {
    if (watched.has(prototype)) {
      continue;
    }
    watched.add(prototype);
    const { compile } = prototype;
    prototype.compile = function (given) {
      ignoredBy.set(
        this,
        Object.keys(given ?? {}).filter((name) => !KNOWN.includes(name)),
      );
      compile.call(this, given);
    };
  }
}

/** Returns the arguments of the model's last `compile` that TensorFlow.js has ignored, each with advice. */
export function ignoredArguments(model: tfjs.LayersModel): readonly { readonly name: string; readonly advice: string }[] {
  return (ignoredBy.get(model) ?? []).map((name) => {
    const meant = suggest(name, KNOWN);
    return { name, advice: INSTEAD[name] ?? (meant === undefined ? 'Remove it.' : `Did you mean ${meant}?`) };
  });
}
