/** Describes the kind of a value in a message, for example `undefined`, `the number 5` or `an array of 3`. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) {
    return String(value);
  }
  if (isList(value)) {
    return `${ArrayBuffer.isView(value) ? describeClass(value) : 'an array'} of ${value.length}`;
  }
  if (typeof value === 'function') {
    return 'a function';
  }
  if (typeof value !== 'object') {
    return `the ${typeof value} ${String(value).slice(0, 40)}`;
  }
  if (classOf(value).endsWith('Generator')) {
    return 'a generator';
  }
  if (!isPlainObject(value)) {
    return describeClass(value);
  }
  return `an object with ${Object.keys(value).slice(0, 5).join(', ') || 'nothing'}`;
}

export function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && 'length' in value);
}

/** Returns true for objects that consist of their fields. Returns false for a Promise, a Date, a Map and other built-in classes. */
export function isPlainObject(value: object): boolean {
  return classOf(value) === 'Object';
}

/** Returns the name that JavaScript gives the class of a built-in object, and `Object` for objects of the program's own classes. */
function classOf(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

function describeClass(value: object): string {
  const name = classOf(value);
  return `${/^[AEIOU]/.test(name) && !name.startsWith('Uint') ? 'an' : 'a'} ${name}`;
}
