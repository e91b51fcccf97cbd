import { stringTensor, type TensorValue } from './event-file.ts';

/** Encodes text, which TensorBoard renders as Markdown. */
export function textValue(tag: string, text: string): TensorValue {
  return { tag, plugin: 'text', content: new Uint8Array(0), tensor: stringTensor([], [Buffer.from(text)]) };
}
