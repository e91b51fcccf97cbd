/** Frees the tensors in an element. */
export function disposeElement(element: unknown): void {
  if (typeof element !== 'object' || element === null || ArrayBuffer.isView(element)) {
    return;
  }
  if ('dispose' in element && typeof element.dispose === 'function') {
    element.dispose();
    return;
  }
  // An array of numbers contains no tensors, and a loop over a long array would be slow.
  if (Array.isArray(element) && typeof element[0] !== 'object') {
    return;
  }
  for (const part of Object.values(element)) {
    disposeElement(part);
  }
}
