/** Sets a field of a row. An assignment to a field called `__proto__` would be lost. */
export function setField<T>(row: Record<string, T>, name: string, value: T): void {
  if (name === '__proto__') {
    Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true });
  } else {
    row[name] = value;
  }
}
