// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with a control character
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the function removes control characters, and those that change the text direction
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Converts a program's output to the text that a terminal would show, without colours. If carriage returns overwrite a line, only the last
 * version remains.
 */
export function plainText(text: string): string {
  return text
    .replace(ESCAPES, '')
    .replaceAll('\r\n', '\n')
    .replace(/^.*\r(?=[^\n])/gm, '')
    .replace(CONTROLS, '');
}
