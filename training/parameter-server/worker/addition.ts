import type * as tfjs from '@tensorflow/tfjs';
import { layOut } from '../protocol/layout.ts';
import type { AdditionHead, OptimizerHead } from '../protocol/messages.ts';
import { describeOptimizer } from '../protocol/optimizer-description.ts';
import { NO_STATE, readOptimizerState } from './optimizer-state.ts';
import { bytesOf } from './piece-bytes.ts';
import type { NewEntry, VariableRegistry } from './variable-registry.ts';

export interface Addition {
  readonly addition: AdditionHead;
  readonly body: readonly Uint8Array[];
}

export const NO_ADDITION: Addition = { addition: { first: 0, variables: [], pieces: [], optimizers: [] }, body: [] };

/**
 * Returns a function that creates the message to each server. The messages add new variables and an optimizer.
 * @param sizes the number of weights that each server already holds.
 * @param withValues false if the servers read weights and slots from a checkpoint.
 */
export function additionOf(
  tf: typeof tfjs,
  registry: VariableRegistry,
  { entry, first, variables, optimizer, joined, numberOf }: NewEntry,
  sizes: readonly number[],
  withValues: boolean,
): (server: number) => Addition {
  const places = variables.map((variable) => entry.variables.indexOf(variable));
  const placed = places.map((place) => entry.placed?.[place] ?? null);
  const layout = layOut(
    variables.map(({ size }) => size),
    sizes.length,
    placed,
    sizes,
  );
  const described = variables.map((variable, index) => {
    const tensor = entry.tensors?.[places[index] as number] ?? `model:${numberOf(variable)}:${variable.name}`;
    return { name: variable.name, tensor, shape: [...variable.shape] };
  });
  const values = withValues ? variables.map((variable) => variable.dataSync() as Float32Array) : [];
  const state = withValues ? readOptimizerState(tf, entry.optimizer, joined) : NO_STATE;
  const slots = state.slots.map((slot) => ({ ...slot, variable: numberOf(joined[slot.variable] as tfjs.Variable) }));
  const head: OptimizerHead = {
    index: optimizer,
    description: describeOptimizer(tf, entry.optimizer),
    variables: joined.map(numberOf),
    state: { ...state, slots: slots.map(({ property, suffix, variable }) => ({ property, suffix, variable })) },
  };
  return (server) => {
    const own = layout[server] ?? [];
    const pieces = own.map((piece) => ({ ...piece, variable: first + piece.variable }));
    const pieceOf = (number: number) =>
      registry.variables.get(number)?.pieces[server] ?? pieces.find(({ variable }) => variable === number);
    return {
      addition: { first, variables: described, pieces, optimizers: [head] },
      body: [
        ...(withValues ? own.map((piece) => bytesOf(values[piece.variable] as Float32Array, piece)) : []),
        ...slots.flatMap(({ variable, numbers }) => {
          const piece = pieceOf(variable);
          return piece === undefined ? [] : [bytesOf(numbers, piece)];
        }),
      ],
    };
  };
}
