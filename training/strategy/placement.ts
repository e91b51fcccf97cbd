import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';

/**
 * Returns the index of a variable's parameter server. If it returns null or undefined, tony-ts chooses a server so that all servers hold
 * about the same number of weights. To implement model parallelism, place whole layers.
 * @param variable the variable's name, for example `dense_1/kernel`.
 * @param layer the name of the variable's layer, or '' for a variable that does not belong to a layer.
 */
export type Placement = (variable: string, layer: string) => number | null | undefined;

/** Returns each variable's server index, or null for automatic placement. @throws TonyError USAGE. */
export function placesOf(
  placement: Placement | undefined,
  variables: readonly { readonly name: string; readonly layer: string }[],
  servers: number,
): (number | null)[] {
  return variables.map(({ name, layer }) => {
    const place = placement?.(name, layer) ?? null;
    if (place !== null && !(Number.isInteger(place) && place >= 0 && place < servers)) {
      throw new TonyError(
        'USAGE',
        `placement assigns ${name} to parameter server ${place}, but the job has only the servers 0 to ${servers - 1}`,
      );
    }
    return place;
  });
}

interface LayerTree {
  readonly name: string;
  readonly layers?: readonly LayerTree[];
  readonly weights?: readonly { read(): tfjs.Variable }[];
}

/** Maps each variable ID to the name of the innermost layer that contains the variable. */
export function layerNames(model: tfjs.LayersModel): Map<number, string> {
  const names = new Map<number, string>();
  const visit = (layer: LayerTree) => {
    for (const weight of layer.weights ?? []) {
      names.set(weight.read().id, layer.name);
    }
    for (const inner of layer.layers ?? []) {
      visit(inner);
    }
  };
  visit(model as unknown as LayerTree);
  return names;
}
