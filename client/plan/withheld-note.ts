import { firstNames } from '../../platform/first-names.ts';

const MOST_NAMED = 5;

/**
 * Returns a note about the files that `listSource` excludes because their names suggest that they contain secrets; [] if there are none.
 */
export function withheldNotes(withheld: readonly string[]): string[] {
  const [first] = withheld;
  if (first === undefined) {
    return [];
  }
  return [
    `Not uploaded because the names suggest that these files contain secrets: ${firstNames(withheld, MOST_NAMED)}. To include ${first}, add the line !${first} to .tonyignore.`,
  ];
}
