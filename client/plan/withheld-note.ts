const MOST_NAMED = 5;

/**
 * Returns a note about the files that `listSource` excludes because their names suggest that they contain secrets; [] if there are none.
 */
export function withheldNotes(withheld: readonly string[]): string[] {
  const [first] = withheld;
  if (first === undefined) {
    return [];
  }
  const named = withheld.slice(0, MOST_NAMED).join(', ');
  const more = withheld.length > MOST_NAMED ? ` and ${withheld.length - MOST_NAMED} more` : '';
  return [
    `Not uploaded because the names suggest that these files contain secrets: ${named}${more}. To include ${first}, add the line !${first} to .tonyignore.`,
  ];
}
