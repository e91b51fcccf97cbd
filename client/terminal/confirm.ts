import { createInterface } from 'node:readline';

export type Confirmation = 'yes' | 'no' | 'interrupted';

/** Asks a yes-or-no question. Treats an empty answer or Ctrl-D as no. */
export function confirm(question: string, input: NodeJS.ReadStream, output: NodeJS.WritableStream): Promise<Confirmation> {
  const reader = createInterface({ input, output });
  return new Promise((resolve) => {
    let answer: Confirmation = 'no';
    const settle = (given: Confirmation): void => {
      answer = given;
      reader.close();
    };
    reader.on('close', () => resolve(answer));
    reader.on('SIGINT', () => {
      output.write('\n');
      settle('interrupted');
    });
    reader.question(question, (text) => settle(/^y(es)?$/i.test(text.trim()) ? 'yes' : 'no'));
  });
}
