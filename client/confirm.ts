import { createInterface } from 'node:readline';

/** Whether a person says yes. Ctrl-C, Ctrl-D and an empty line are no. */
export function confirm(question: string, input: NodeJS.ReadStream, output: NodeJS.WritableStream): Promise<boolean> {
  const reader = createInterface({ input, output });
  return new Promise((resolve) => {
    let answer = '';
    reader.on('SIGINT', () => {
      output.write('\n');
      reader.close();
    });
    reader.on('close', () => resolve(/^y(es)?$/i.test(answer.trim())));
    reader.question(question, (text) => {
      answer = text;
      reader.close();
    });
  });
}
