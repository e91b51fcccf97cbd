import { CONTROL_CHARACTERS, ESCAPE_SEQUENCES } from '../../../../platform/text/control-characters.ts';

/**
 * Converts a program's output to the text that a terminal would show, without colours. If carriage returns overwrite a line, only the last
 * version remains.
 */
export function plainText(text: string): string {
  return text
    .replace(ESCAPE_SEQUENCES, '')
    .replaceAll('\r\n', '\n')
    .replace(/^.*\r(?=[^\n])/gm, '')
    .replace(CONTROL_CHARACTERS, '');
}
