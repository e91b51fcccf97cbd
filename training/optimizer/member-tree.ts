import type * as tfjs from '@tensorflow/tfjs';

/*
 * The members of an object as JSON. The values of tensors are stored separately, and the JSON contains their numbers. A trained variable is
 * identified by its index in the list of trained variables, never by its name, because another process may give it another name. This also
 * applies to keys and texts that contain a variable's name or number.
 */
export type SavedMember =
  | null
  | boolean
  | number
  | string
  | { readonly is: 'undefined' }
  | { readonly is: 'number' | 'bigint'; readonly text: string }
  /** The name of a trained variable, followed by `rest`. */
  | { readonly is: 'name'; readonly of: number; readonly rest: string }
  | { readonly is: 'id' | 'trained'; readonly of: number }
  | { readonly is: 'variable'; readonly tensor: number; readonly trainable: boolean }
  | { readonly is: 'tensor'; readonly tensor: number }
  | { readonly is: 'bytes'; readonly type: keyof typeof ARRAYS; readonly base64: string }
  | { readonly is: 'list' | 'set'; readonly items: readonly SavedMember[] }
  | { readonly is: 'object' | 'map' | 'instance'; readonly entries: readonly (readonly [key: SavedMember, value: SavedMember])[] }
  /** An object that already occurred, by its number. */
  | { readonly is: 'again'; readonly object: number };

export type MemberEntries = readonly (readonly [key: SavedMember, value: SavedMember])[];

export interface MemberTree {
  readonly entries: MemberEntries;
  /** The tensors, by number. */
  readonly tensors: readonly tfjs.Tensor[];
  /** Members that JSON and tensors cannot represent, such as a WeakMap. */
  readonly unreadable: readonly string[];
}

const ARRAYS = {
  ...{ Float32Array, Float64Array, Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array },
  ...{ BigInt64Array, BigUint64Array },
};

/** The maximum number of objects within an optimizer. An optimizer that refers to more contains a data structure that is not its state. */
const MAX_OBJECTS = 100_000;

/**
 * Reads the members of an object. Functions, accessors, layers, models and TensorFlow.js itself are not state, so the tree omits them.
 * @param variables the variables that the object refers to but does not own.
 * @param isOmitted selects members of `root` that the tree omits.
 * @param includesOthers true to include entries for variables that are not among the given ones.
 */
export function readMembers(
  tf: typeof tfjs,
  root: object,
  variables: readonly tfjs.Variable[],
  isOmitted: (key: string, value: unknown) => boolean,
  includesOthers = false,
): MemberTree {
  return new Reader(tf, variables, includesOthers).read(root, isOmitted);
}

/**
 * Writes members that `readMembers` has read, possibly in another process. Keeps existing objects and variables, and creates missing ones.
 * @param tensors the tensors by number. The function copies them.
 */
export function writeMembers(
  tf: typeof tfjs,
  root: object,
  entries: MemberEntries,
  variables: readonly tfjs.Variable[],
  tensors: readonly tfjs.Tensor[],
): void {
  new Writer(tf, variables, tensors).write(root, entries);
}

/** The variables of TensorFlow.js that are not among the given ones. Entries that belong to them are those of other phases. */
class OtherVariables {
  readonly #names: ReadonlySet<string>;
  readonly #ids: ReadonlySet<number>;
  readonly #variables: ReadonlySet<unknown>;

  constructor(tf: typeof tfjs, variables: readonly tfjs.Variable[]) {
    const own = new Set(variables);
    const others = Object.values(tf.engine().registeredVariables).filter((variable) => !own.has(variable));
    this.#names = new Set(others.map(({ name }) => name));
    this.#ids = new Set(others.map(({ id }) => id));
    this.#variables = new Set(others);
  }

  hasId(id: unknown): boolean {
    return this.#ids.has(id as number);
  }

  /** @param byId true if numbers are the IDs of variables. */
  own(key: unknown, byId: boolean): boolean {
    return this.#variables.has(key) || (byId && this.hasId(key)) || (typeof key === 'string' && this.#names.has(key));
  }
}

class Reader {
  readonly #tf: typeof tfjs;
  readonly #variables: readonly tfjs.Variable[];
  readonly #indexes: ReadonlyMap<unknown, number>;
  readonly #names: ReadonlyMap<string, number>;
  readonly #ids: ReadonlyMap<number, number>;
  readonly #others: OtherVariables;
  readonly #tensors: tfjs.Tensor[] = [];
  readonly #numbers = new Map<tfjs.Tensor, number>();
  readonly #objects = new Map<object, number>();
  readonly #unreadable: string[] = [];

  constructor(tf: typeof tfjs, variables: readonly tfjs.Variable[], includesOthers: boolean) {
    this.#tf = tf;
    this.#variables = variables;
    this.#indexes = new Map(variables.map((variable, index) => [variable, index]));
    this.#names = new Map(variables.map(({ name }, index) => [name, index]));
    this.#ids = new Map(variables.map(({ id }, index) => [id, index]));
    this.#others = new OtherVariables(tf, includesOthers ? Object.values(tf.engine().registeredVariables) : variables);
  }

  read(root: object, isOmitted: (key: string, value: unknown) => boolean): MemberTree {
    this.#objects.set(root, 0);
    const entries = this.#entriesOf(root, '', isOmitted);
    return { entries, tensors: this.#tensors, unreadable: this.#unreadable };
  }

  #entriesOf(
    object: object,
    path: string,
    isOmitted: (key: string, value: unknown) => boolean = () => false,
  ): [SavedMember, SavedMember][] {
    return Object.entries(Object.getOwnPropertyDescriptors(object)).flatMap(
      ([key, { value, enumerable }]): [SavedMember, SavedMember][] => {
        if (enumerable !== true || isOmitted(key, value) || this.#others.own(key, false) || !this.#isState(value)) {
          return [];
        }
        return [[this.#text(key), this.#member(value, path === '' ? key : `${path}.${key}`)]];
      },
    );
  }

  #isState(value: unknown): boolean {
    if (typeof value === 'function' || typeof value === 'symbol') {
      return false;
    }
    if (typeof value !== 'object' || value === null || value instanceof this.#tf.Tensor) {
      return true;
    }
    // TensorFlow.js, its engine, layers and models, and layers' weights.
    const isForeign = 'registeredVariables' in value || 'trainableWeights' in value || ('read' in value && 'write' in value);
    return !isForeign && (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag] !== 'Module' && value !== this.#tf;
  }

  #member(value: unknown, path: string): SavedMember {
    switch (typeof value) {
      case 'undefined':
        return { is: 'undefined' };
      case 'number':
        return Number.isFinite(value) && !Object.is(value, -0) ? value : { is: 'number', text: Object.is(value, -0) ? '-0' : `${value}` };
      case 'bigint':
        return { is: 'bigint', text: `${value}` };
      case 'string':
        return this.#text(value);
      case 'object':
        return value === null ? null : this.#object(value, path);
      default:
        return value as boolean;
    }
  }

  /** Describes a text. If it begins with the name of a trained variable, refers to the variable instead. */
  #text(text: string): SavedMember {
    for (let end = text.length; end > 0; end = text.lastIndexOf('/', end - 1)) {
      const index = this.#names.get(text.slice(0, end));
      if (index !== undefined) {
        return { is: 'name', of: index, rest: text.slice(end) };
      }
    }
    return text;
  }

  #object(value: object, path: string): SavedMember {
    if (value instanceof this.#tf.Tensor) {
      return this.#tensor(value);
    }
    const before = this.#objects.get(value);
    if (before !== undefined) {
      return { is: 'again', object: before };
    }
    if (this.#objects.size >= MAX_OBJECTS) {
      this.#unreadable.push(`${path} (too many objects)`);
      return { is: 'undefined' };
    }
    this.#objects.set(value, this.#objects.size);
    if (value instanceof WeakMap || value instanceof WeakSet || value instanceof Promise) {
      this.#unreadable.push(`${path} (a ${value.constructor.name})`);
      return { is: 'instance', entries: [] };
    }
    if (Array.isArray(value)) {
      return {
        is: 'list',
        items: Array.from(value, (item, index) => (this.#isState(item) ? this.#member(item, `${path}[${index}]`) : null)),
      };
    }
    if (value instanceof Map) {
      const byId = this.#areIds([...value.keys()]);
      const entries = [...value].filter(([key, item]) => this.#isState(item) && !this.#others.own(key, byId));
      return {
        is: 'map',
        entries: entries.map(([key, item], index) => [this.#key(key, byId, path), this.#member(item, `${path}[${index}]`)]),
      };
    }
    if (value instanceof Set) {
      return { is: 'set', items: Array.from(value, (item) => this.#member(item, path)) };
    }
    if (ArrayBuffer.isView(value)) {
      const type = value.constructor.name as keyof typeof ARRAYS;
      return { is: 'bytes', type, base64: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') };
    }
    const prototype: unknown = Object.getPrototypeOf(value);
    return { is: prototype === Object.prototype || prototype === null ? 'object' : 'instance', entries: this.#entriesOf(value, path) };
  }

  #tensor(tensor: tfjs.Tensor): SavedMember {
    const trained = this.#indexes.get(tensor);
    if (trained !== undefined) {
      return { is: 'trained', of: trained };
    }
    if (tensor.isDisposed || tensor.dtype === 'string' || tensor.dtype === 'complex64') {
      return { is: 'undefined' };
    }
    let number = this.#numbers.get(tensor);
    if (number === undefined) {
      number = this.#tensors.push(tensor) - 1;
      this.#numbers.set(tensor, number);
    }
    return tensor instanceof this.#tf.Variable
      ? { is: 'variable', tensor: number, trainable: tensor.trainable }
      : { is: 'tensor', tensor: number };
  }

  /** Returns true if numeric keys are the variables' IDs, and not their positions. */
  #areIds(keys: readonly unknown[]): boolean {
    const isPosition = keys.every((key) => typeof key === 'number' && key < this.#variables.length);
    return keys.length > 0 && !isPosition && keys.every((key) => this.#ids.has(key as number) || this.#others.hasId(key));
  }

  #key(key: unknown, byId: boolean, path: string): SavedMember {
    return byId ? { is: 'id', of: this.#ids.get(key as number) as number } : this.#member(key, path);
  }
}

class Writer {
  readonly #tf: typeof tfjs;
  readonly #variables: readonly tfjs.Variable[];
  readonly #tensors: readonly tfjs.Tensor[];
  readonly #made = new Map<number, tfjs.Tensor>();
  readonly #objects: object[] = [];
  readonly #others: OtherVariables;

  constructor(tf: typeof tfjs, variables: readonly tfjs.Variable[], tensors: readonly tfjs.Tensor[]) {
    this.#tf = tf;
    this.#variables = variables;
    this.#tensors = tensors;
    this.#others = new OtherVariables(tf, variables);
  }

  write(root: object, entries: MemberEntries): void {
    this.#objects.push(root);
    this.#assign(root, entries);
  }

  #assign(object: object, entries: MemberEntries): Set<string> {
    const target = object as Record<string, unknown>;
    const keys = new Set<string>();
    for (const [described, member] of entries) {
      const key = `${this.#value(undefined, described)}`;
      keys.add(key);
      const before = target[key];
      const value = this.#value(before, member);
      if (!Object.is(value, before) || !(key in target)) {
        target[key] = value;
      }
    }
    return keys;
  }

  #value(existing: unknown, member: SavedMember): unknown {
    if (typeof member !== 'object' || member === null) {
      return member;
    }
    switch (member.is) {
      case 'undefined':
        return undefined;
      case 'number':
        return Number(member.text);
      case 'bigint':
        return BigInt(member.text);
      case 'name':
        return `${this.#variables[member.of]?.name}${member.rest}`;
      case 'id':
        return this.#variables[member.of]?.id;
      case 'trained':
        return this.#variables[member.of];
      case 'variable':
        return this.#variable(existing, member.tensor, member.trainable);
      case 'tensor':
        return this.#kept(existing, member.tensor);
      case 'bytes': {
        const { buffer } = new Uint8Array(Buffer.from(member.base64, 'base64'));
        return new ARRAYS[member.type](buffer);
      }
      case 'again':
        return this.#objects[member.object];
      case 'list':
        return this.#list(existing, member.items);
      case 'set': {
        const set = this.#known(existing instanceof Set ? existing : new Set());
        const items = member.items.map((item) => this.#value(undefined, item));
        set.clear();
        for (const item of items) {
          set.add(item);
        }
        return set;
      }
      case 'map':
        return this.#map(existing, member.entries);
      default:
        return this.#object(existing, member.entries, member.is === 'object');
    }
  }

  #known<T extends object>(object: T): T {
    this.#objects.push(object);
    return object;
  }

  #variable(existing: unknown, number: number, trainable: boolean): tfjs.Tensor {
    const made = this.#made.get(number);
    if (made !== undefined) {
      return made;
    }
    const { Variable } = this.#tf;
    const value = this.#tensors[number] as tfjs.Tensor;
    const isSame = existing instanceof Variable && !existing.isDisposed && existing.dtype === value.dtype;
    let variable: tfjs.Variable;
    if (isSame && this.#tf.util.arraysEqual(existing.shape, value.shape)) {
      variable = existing;
      // A copy, because a variable shares the memory of the tensor.
      this.#tf.tidy(() => variable.assign(value.clone()));
    } else {
      variable = value.clone().variable(trainable);
    }
    this.#made.set(number, variable);
    return variable;
  }

  #kept(existing: unknown, number: number): tfjs.Tensor {
    const made = this.#made.get(number);
    if (made !== undefined) {
      return made;
    }
    if (existing instanceof this.#tf.Tensor && !(existing instanceof this.#tf.Variable) && !existing.isDisposed) {
      existing.dispose();
    }
    const kept = this.#tf.keep((this.#tensors[number] as tfjs.Tensor).clone());
    this.#made.set(number, kept);
    return kept;
  }

  #list(existing: unknown, items: readonly SavedMember[]): unknown[] {
    const list: unknown[] = this.#known(Array.isArray(existing) ? existing : []);
    list.length = items.length;
    for (const [index, item] of items.entries()) {
      list[index] = this.#value(list[index], item);
    }
    return list;
  }

  #map(existing: unknown, entries: MemberEntries): Map<unknown, unknown> {
    const map: Map<unknown, unknown> = this.#known(existing instanceof Map ? existing : new Map());
    const pairs = entries.map(([described, member]) => {
      const key = this.#value(undefined, described);
      return [key, this.#value(map.get(key), member)] as const;
    });
    const byId = entries.every(([key]) => typeof key === 'object' && key?.is === 'id');
    for (const key of [...map.keys()]) {
      if (!this.#others.own(key, byId)) {
        map.delete(key);
      }
    }
    for (const [key, value] of pairs) {
      map.set(key, value);
    }
    return map;
  }

  #object(existing: unknown, entries: MemberEntries, isPlain: boolean): object {
    const object = this.#known(typeof existing === 'object' && existing !== null ? existing : {}) as Record<string, unknown>;
    const keys = this.#assign(object, entries);
    for (const key of isPlain ? Object.keys(object) : []) {
      if (!keys.has(key) && typeof object[key] !== 'function' && !this.#others.own(key, false)) {
        delete object[key];
      }
    }
    return object;
  }
}
