import { type ErrorCode, TonyError } from './errors.ts';

/** JSON value, for example the data position stored in a checkpoint. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** Parses JSON. Returns null if the text is invalid. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Maximum size of the JSON text that contains the arguments of a remote function call, or its result. */
export const MOST_JSON_BYTES = 16 * 1024 * 1024;

/**
 * Encodes a value as JSON. Throws if decoding would return a different value, because `JSON.stringify` silently changes functions, NaN,
 * dates and typed arrays. Omits undefined fields.
 * @param what name of the value for messages, for example `args[0]`
 * @throws TonyError with `code` if the value cannot be encoded
 */
export function encodeJsonValue(value: unknown, what: string, code: ErrorCode): string {
  check(value, what, code, new Set());
  const text = JSON.stringify(value) as string;
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_JSON_BYTES) {
    throw new TonyError(code, `${what} is ${bytes} bytes long as JSON, but the maximum is ${MOST_JSON_BYTES}`, {
      hint: 'Write large data to a file, and pass the path of the file.',
    });
  }
  return text;
}

function check(value: unknown, what: string, code: ErrorCode, around: Set<object>): void {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') {
    return;
  }
  if (typeof value === 'number') {
    if (Number.isFinite(value)) {
      return;
    }
    throw unfit(what, String(value), code);
  }
  if (typeof value !== 'object') {
    throw unfit(what, typeof value, code);
  }
  if (around.has(value)) {
    throw unfit(what, 'part of itself', code);
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  // Objects from another realm, such as a notebook's context, have a different Object.prototype. In every realm, Object.prototype itself
  // has a null prototype.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!Array.isArray(value) && !isPlain) {
    throw unfit(what, `a ${value.constructor?.name || 'class instance'}`, code);
  }
  around.add(value);
  if (Array.isArray(value)) {
    for (const [index, each] of value.entries()) {
      check(each, `${what}[${index}]`, code, around);
    }
  } else {
    for (const [name, each] of Object.entries(value)) {
      if (each !== undefined) {
        check(each, /^[A-Za-z_$][\w$]*$/.test(name) ? `${what}.${name}` : `${what}[${JSON.stringify(name)}]`, code, around);
      }
    }
  }
  around.delete(value);
}

function unfit(what: string, kind: string, code: ErrorCode): TonyError {
  return new TonyError(code, `${what} is ${kind}, which JSON cannot represent`, {
    hint: 'Use only null, strings, finite numbers and booleans, and arrays and plain objects that contain such values.',
  });
}
