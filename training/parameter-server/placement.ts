import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../conf/errors.ts';

/**
 * Which parameter server (by its index) holds a variable: model parallel, by placing layers' variables. null or undefined leaves it to the
 * balance of sizes.
 * @param variable its name, e.g. `dense_1/kernel`.
 * @param layer the name of its layer; '' where it is of none.
 */
export type Placement = (variable: string, layer: string) => number | null | undefined;

/** A server for each variable, or null. */
export function placesOf(
  placement: Placement | undefined,
  variables: readonly { readonly name: string; readonly layer: string }[],
  servers: number,
): (number | null)[] {
  return variables.map(({ name, layer }) => {
    const place = placement?.(name, layer) ?? null;
    if (place !== null && !(Number.isInteger(place) && place >= 0 && place < servers)) {
      throw new TonyError('USAGE', `placement puts ${name} on parameter server ${place}; there are ${servers}, from 0`);
    }
    return place;
  });
}

interface LayerTree {
  readonly name: string;
  readonly layers?: readonly LayerTree[];
  readonly weights?: readonly { read(): tfjs.Variable }[];
}

/** The name of the layer of each variable, by the variable's id: the innermost one. */
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
