import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';

const NUMBER = '$number';
const OBJECT = '$object';

/**
 * Converts a program's state to JSON. Numbers that JSON cannot represent (NaN, infinite numbers and -0) become objects.
 * @param what the state's name in messages.
 * @throws TonyError USAGE with the place of a value that is neither JSON nor a number.
 */
export function encodeState(value: unknown, what: string): Json {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? value : { [NUMBER]: Object.is(value, -0) ? '-0' : `${value}` };
    case 'string':
    case 'boolean':
      return value;
    case 'object':
      return value === null ? null : encodeObject(value, what);
    default:
      throw refusal(what, `a ${typeof value}`);
  }
}

function encodeObject(value: object, what: string): Json {
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) => encodeState(item, `${what}[${index}]`));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw refusal(what, `a ${value.constructor.name}`);
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  const encoded = Object.fromEntries(entries.map(([key, item]) => [key, encodeState(item, `${what}.${key}`)]));
  return NUMBER in encoded || OBJECT in encoded ? { [OBJECT]: encoded } : encoded;
}

function refusal(what: string, kind: string): TonyError {
  return new TonyError('USAGE', `${what} cannot be stored in a checkpoint, because it is ${kind}`, {
    hint: 'Keep only numbers, strings, booleans, null, arrays and plain objects in the state. Pass tensors as variables.',
  });
}

/** Restores a value that `encodeState` has converted. */
export function decodeState(json: Json): Json {
  if (typeof json !== 'object' || json === null) {
    return json;
  }
  if (Array.isArray(json)) {
    return json.map(decodeState);
  }
  const { [NUMBER]: number, [OBJECT]: object } = json as Readonly<Record<string, Json>>;
  if (typeof number === 'string') {
    return Number(number);
  }
  return Object.fromEntries(
    Object.entries((object ?? json) as Readonly<Record<string, Json>>).map(([key, item]) => [key, decodeState(item)]),
  );
}
