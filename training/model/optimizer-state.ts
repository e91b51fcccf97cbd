import type * as tfjs from '@tensorflow/tfjs';
import type { StoredTensor } from '../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../platform/errors.ts';
import { type MemberEntries, type MemberTree, readMembers, type SavedMember, writeMembers } from '../optimizer/member-tree.ts';
import { configurationOf, hasOwnWeights, isBuiltIn, type Plain } from '../optimizer/optimizer-members.ts';
import { OptimizerSlots } from '../optimizer/optimizer-slots.ts';
import { privateFieldsOf } from '../optimizer/private-fields.ts';
import { capture, misfit, type NamedTensor, tensorOf } from './stored-tensors.ts';

/*
 * The state of an optimizer, as tensors with these names:
 *
 *   optimizer:<property>                     a variable of an optimizer of tf.train (for example Adam's accBeta1)
 *   optimizer:<property>:<index>:<name>      a slot for the trainable variable with that index (for example Adam's first moments)
 *   members:json                             the other members, as JSON in the bytes of a tensor: see `Members`
 *   members:<number>                         a tensor to which the JSON refers
 *   members:weights:<number>                 a tensor that `getWeights` of a custom class has returned
 *
 * The members of every class are found by inspection. `getWeights` alone is unsuitable, because some optimizers lack this method, and because
 * it omits Adam's powers of beta and the learning rate. A custom class whose members cannot be inspected must define `getWeights` and
 * `setWeights`.
 */

/** Where state comes from. */
export interface StateSource {
  /** For messages: a checkpoint's URI, or `the state of rank 0`. */
  readonly where: string;
  /** True if this rank takes over all of the state. False if hyperparameters that the program has changed since then keep the program's values. */
  readonly isShared: boolean;
}

export const RANK_0: StateSource = { where: 'the state of rank 0', isShared: true };

interface Members {
  readonly className: string;
  /** The hyperparameters with which the program has begun the phase. */
  readonly given: Readonly<Record<string, Plain>>;
  readonly entries: MemberEntries;
  /** The names of the tensors that `getWeights` has returned, or null if the class needs no such call. */
  readonly weights: readonly SavedMember[] | null;
}

type Properties = Record<string, unknown>;

const beginnings = new WeakMap<tfjs.Optimizer, Readonly<Record<string, Plain>>>();
const privateFields = new WeakMap<tfjs.Optimizer, readonly string[]>();

/** Notes the hyperparameters with which a phase begins. Call it before `restoreOptimizer`. */
export function beginOptimizer(optimizer: tfjs.Optimizer): void {
  beginnings.set(optimizer, configurationOf(optimizer));
}

/**
 * Verifies that a checkpoint can contain the optimizer's state.
 * @param variables the variables that the optimizer trains.
 * @throws TonyError MODEL_INVALID with the members that cannot be stored.
 */
export function requireReadable(tf: typeof tfjs, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[]): void {
  if (isBuiltIn(tf, optimizer) || hasOwnWeights(tf, optimizer)) {
    return;
  }
  const tree = treeOf(tf, optimizer, variables);
  const unreadable = unreadableOf(optimizer, tree);
  // Includes the slots of variables that other phases train.
  const reachable = readMembers(tf, optimizer, variables, () => false, true).tensors;
  const found = new Set<tfjs.Tensor>([...variables, ...reachable]);
  const lost = [...OptimizerSlots.of(tf, optimizer).created].filter((variable) => !variable.isDisposed && !found.has(variable));
  if (unreadable.length > 0 || lost.length > 0) {
    const what = unreadable.length > 0 ? unreadable.join(', ') : `${lost.length} variables that are not in its properties`;
    throw new TonyError('MODEL_INVALID', `checkpoints cannot contain the state of the optimizer ${classNameOf(optimizer)}: ${what}`, {
      hint: 'Keep the state in public properties of the optimizer, or define getWeights and setWeights in its class.',
    });
  }
}

/** Returns the optimizer's tensors with their names in checkpoints. A slot's name contains its variable's index in `variables`. */
export function optimizerTensors(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  prefix = 'optimizer',
): NamedTensor[] {
  return [...namedOf(tf, optimizer, variables, prefix), ...memberTensors(treeOf(tf, optimizer, variables), prefix)];
}

/** Copies the optimizer's state out of the backend. */
export async function captureOptimizer(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  prefix = 'optimizer',
): Promise<StoredTensor[]> {
  const [slots, members] = await Promise.all([
    capture(tf, namedOf(tf, optimizer, variables, prefix)),
    captureMembers(tf, optimizer, variables, prefix),
  ]);
  return [...slots, ...members];
}

/** Copies the part of the optimizer's state that parameter servers do not hold. */
export async function captureMembers(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  prefix = 'optimizer',
): Promise<StoredTensor[]> {
  const tree = treeOf(tf, optimizer, variables);
  const needsWeights = hasOwnWeights(tf, optimizer) && unreadableOf(optimizer, tree).length > 0;
  const [copied, weights] = await Promise.all([
    capture(tf, memberTensors(tree, prefix)),
    needsWeights ? captureWeights(tf, optimizer, variables, prefix) : null,
  ]);
  const members: Members = {
    className: classNameOf(optimizer),
    given: beginnings.get(optimizer) ?? configurationOf(optimizer),
    entries: tree.entries,
    weights: weights?.names ?? null,
  };
  const bytes = new Uint8Array(Buffer.from(JSON.stringify(members)));
  const json: StoredTensor = { name: `${membersPrefix(prefix)}:json`, dtype: 'bool', shape: [bytes.length], bytes };
  return [...copied, ...(weights?.tensors ?? []), json];
}

/** @throws TonyError CHECKPOINT_MISMATCH if the tensors contain state from a different kind of optimizer. */
export function checkOptimizer(optimizer: tfjs.Optimizer, tensors: readonly StoredTensor[], where: string, prefix = 'optimizer'): void {
  const members = membersAmong(tensors, prefix);
  const className = classNameOf(optimizer);
  if (members?.className === className) {
    return;
  }
  if (members !== null && (members.weights !== null || members.entries.some(([, member]) => isStructure(member)))) {
    throw misfit(where, `it was trained with the optimizer ${members.className}, not ${className}`);
  }
  for (const { name } of tensors.filter((tensor) => tensor.name.startsWith(`${prefix}:`))) {
    const [, property = ''] = name.split(':');
    if (!(property in optimizer)) {
      throw misfit(where, `it was trained with another optimizer, which has the property ${property}`);
    }
  }
}

/** Restores the state that `captureOptimizer` has returned. Call `checkOptimizer` first. */
export async function restoreOptimizer(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  tensors: readonly StoredTensor[],
  { isShared }: Pick<StateSource, 'isShared'>,
  prefix = 'optimizer',
): Promise<void> {
  const slots = OptimizerSlots.of(tf, optimizer);
  slots.arrange(variables);
  const properties = optimizer as unknown as Properties;
  tf.tidy(() => {
    for (const tensor of tensors.filter(({ name }) => name.startsWith(`${prefix}:`) && !name.endsWith(':iterations'))) {
      const [, property = '', index, ...name] = tensor.name.split(':');
      const value = tensorOf(tf, tensor);
      const variable = variables[Number(index)];
      if (index !== undefined) {
        if (variable !== undefined) {
          slots.restore(variable, property, name.join(':'), value);
        }
      } else if (properties[property] instanceof tf.Variable) {
        properties[property].assign(value);
      } else {
        properties[property] = value.variable(false);
      }
    }
  });
  const members = membersAmong(tensors, prefix);
  if (members?.className === classNameOf(optimizer)) {
    await restoreMembers(tf, optimizer, variables, members, { tensors, prefix: membersPrefix(prefix), isShared });
  }
}

async function restoreMembers(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  { given, entries, weights }: Members,
  from: { readonly tensors: readonly StoredTensor[]; readonly prefix: string; readonly isShared: boolean },
): Promise<void> {
  const stored = new Map(from.tensors.map((tensor) => [tensor.name, tensor]));
  const numbered = (kind: string) => {
    const found: tfjs.Tensor[] = [];
    for (let number = 0; stored.has(`${from.prefix}:${kind}${number}`); number++) {
      found.push(tensorOf(tf, stored.get(`${from.prefix}:${kind}${number}`) as StoredTensor));
    }
    return found;
  };
  if (weights !== null) {
    const values = numbered('weights:');
    const names = { list: [] as string[] };
    writeMembers(tf, names, [['list', { is: 'list', items: weights }]], variables, []);
    await optimizer.setWeights(values.map((tensor, index) => ({ name: names.list[index] as string, tensor })));
    tf.dispose(values);
  }
  const now = beginnings.get(optimizer) ?? {};
  const isChanged = (name: string) => !from.isShared && name in now && name in given && now[name] !== given[name];
  const kept = entries.filter(([key]) => typeof key !== 'string' || !isChanged(sourceOf(tf, optimizer, key)));
  const values = numbered('');
  writeMembers(tf, optimizer, kept, variables, values);
  tf.dispose(values);
}

/** Returns the hyperparameter on which a member depends. SGD and its subclasses keep two of them in tensors. */
function sourceOf(tf: typeof tfjs, optimizer: tfjs.Optimizer, member: string): string {
  const ofSgd: Readonly<Record<string, string>> = { c: 'learningRate', m: 'momentum' };
  return (optimizer instanceof tf.SGDOptimizer ? ofSgd[member] : undefined) ?? member;
}

/** Returns the variables of an optimizer of tf.train, and the slots of any optimizer. */
function namedOf(tf: typeof tfjs, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[], prefix: string): NamedTensor[] {
  const slots = OptimizerSlots.of(tf, optimizer);
  slots.adopt(variables);
  const own = Object.entries(isBuiltIn(tf, optimizer) ? optimizer : {}).flatMap(([property, value]) =>
    value instanceof tf.Variable ? [{ name: `${prefix}:${property}`, variable: value }] : [],
  );
  const ofVariables = variables.flatMap((trained, index) =>
    Array.from(slots.slotsOf(trained), ([property, { originalName, variable }]) => {
      return { name: `${prefix}:${property}:${index}:${originalName}`, variable };
    }),
  );
  return [...own, ...ofVariables];
}

function treeOf(tf: typeof tfjs, optimizer: tfjs.Optimizer, variables: readonly tfjs.Variable[]): MemberTree {
  const slots = OptimizerSlots.of(tf, optimizer);
  const builtIn = isBuiltIn(tf, optimizer);
  return readMembers(tf, optimizer, variables, (key, value) => {
    return key === 'iterations_' || (Array.isArray(value) && slots.holds(key)) || (builtIn && value instanceof tf.Variable);
  });
}

function memberTensors({ tensors }: MemberTree, prefix: string): NamedTensor[] {
  return tensors.map((variable, number) => ({ name: `${membersPrefix(prefix)}:${number}`, variable }));
}

/** Returns descriptions of the members that cannot be inspected. */
function unreadableOf(optimizer: tfjs.Optimizer, { unreadable }: MemberTree): readonly string[] {
  let fields = privateFields.get(optimizer);
  if (fields === undefined) {
    fields = privateFieldsOf(optimizer);
    privateFields.set(optimizer, fields);
  }
  return [...fields.map((name) => `${name} (a private field)`), ...unreadable];
}

async function captureWeights(
  tf: typeof tfjs,
  optimizer: tfjs.Optimizer,
  variables: readonly tfjs.Variable[],
  prefix: string,
): Promise<{ readonly names: readonly SavedMember[]; readonly tensors: readonly StoredTensor[] }> {
  const mark = tf.scalar(0);
  const weights = await optimizer.getWeights();
  const named = weights.map(({ tensor }, number) => ({ name: `${membersPrefix(prefix)}:weights:${number}`, variable: tensor }));
  const tensors = await capture(tf, named);
  // The others are the optimizer's own.
  tf.dispose([mark, ...weights.flatMap(({ tensor }) => (tensor.id > mark.id && !(tensor instanceof tf.Variable) ? [tensor] : []))]);
  const { entries } = readMembers(tf, { list: weights.map(({ name }) => name) }, variables, () => false);
  const [[, list] = ['', null]] = entries;
  return { names: (list as { readonly items: readonly SavedMember[] }).items, tensors };
}

function membersAmong(tensors: readonly StoredTensor[], prefix: string): Members | null {
  const stored = tensors.find(({ name }) => name === `${membersPrefix(prefix)}:json`);
  return stored === undefined ? null : (JSON.parse(Buffer.from(stored.bytes).toString('utf8')) as Members);
}

/** Returns `members` for `optimizer`, and `members/NAME` for `optimizer/NAME`. */
function membersPrefix(prefix: string): string {
  return prefix.replace(/^optimizer/, 'members');
}

/** Returns true for members that only custom classes have. */
function isStructure(member: SavedMember): boolean {
  return typeof member === 'object' && member !== null && ['variable', 'list', 'set', 'object', 'map', 'instance'].includes(member.is);
}

/** Returns the name of the optimizer's class. A class without a name of its own inherits that of its base class. */
function classNameOf(optimizer: tfjs.Optimizer): string {
  const kind = (optimizer as object).constructor as unknown as { readonly name: string; readonly className?: string };
  return Object.hasOwn(kind, 'className') && typeof kind.className === 'string' ? kind.className : kind.name;
}
