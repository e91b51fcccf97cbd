/** An escape sequence of a terminal: colours and cursor movements, titles and links, and short commands. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with a control character
export const ESCAPE_SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;

/** Control characters except tab and newline, and characters that separate lines or change the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
export const CONTROL_CHARACTERS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
