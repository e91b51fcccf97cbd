import { type ErrorCode, TonyError } from './errors.ts';

/** Of what travels between a program and a function that runs elsewhere. */
export const MOST_JSON_BYTES = 16 * 1024 * 1024;

/**
 * A value as JSON from which it can be read again as it was: JSON.stringify would pass over functions and turn NaN, dates and typed arrays into
 * something else. Fields that are undefined are left out.
 *
 * @param what names the value in messages: `args[0]`.
 * @throws TonyError with this code.
 */
export function encodeJsonValue(value: unknown, what: string, code: ErrorCode): string {
  check(value, what, code, new Set());
  const text = JSON.stringify(value) as string;
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_JSON_BYTES) {
    throw new TonyError(code, `${what} has ${bytes} bytes as JSON; ${MOST_JSON_BYTES} are possible`, {
      hint: 'Put what is large into a file, and hand over its name.',
    });
  }
  return text;
}

function check(value: unknown, what: string, code: ErrorCode, around: Set<object>): void {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return;
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return;
    throw unfit(what, String(value), code);
  }
  if (typeof value !== 'object') throw unfit(what, typeof value, code);
  if (around.has(value)) throw unfit(what, 'part of itself', code);
  const prototype: unknown = Object.getPrototypeOf(value);
  // An object of another realm (a notebook's) has another Object.prototype, which has none itself.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!Array.isArray(value) && !isPlain) throw unfit(what, `a ${value.constructor?.name || 'class instance'}`, code);
  around.add(value);
  if (Array.isArray(value)) for (const [index, each] of value.entries()) check(each, `${what}[${index}]`, code, around);
  else {
    for (const [name, each] of Object.entries(value)) {
      if (each !== undefined)
        check(each, /^[A-Za-z_$][\w$]*$/.test(name) ? `${what}.${name}` : `${what}[${JSON.stringify(name)}]`, code, around);
    }
  }
  around.delete(value);
}

function unfit(what: string, kind: string, code: ErrorCode): TonyError {
  return new TonyError(code, `${what} is ${kind}, which JSON cannot hold`, {
    hint: 'Use null, texts, numbers, true, false, and arrays and plain objects of them.',
  });
}
