import { harmless, type Terminal } from '../../terminal/terminal.ts';
import { fold, padTo, widthOf } from '../../terminal/text-width.ts';
import type { PartVersion } from './versions.ts';

/** Returns a line for each component, with its name, its version if known, and details. */
export function versionLines(found: readonly PartVersion[], terminal: Terminal): string[] {
  const wide = Math.max(...found.map(({ part }) => widthOf(part)));
  return found.flatMap(({ part, version, message }) => {
    const text = harmless(version ?? 'none');
    const shown = version === null ? terminal.paint('yellow', text) : text;
    const rest = message === '' ? '' : `  ${terminal.paint('dim', `(${harmless(message).replace(/\s+/g, ' ')})`)}`;
    const line = `${padTo(part, wide)}  ${shown}${rest}`;
    return terminal.live ? fold(line, terminal.columns - 1, ' '.repeat(wide + 2)) : [line];
  });
}
