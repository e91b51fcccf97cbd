const MOST_NAMED = 5;

/** Returns a note about the files that `listSource` excludes because their names indicate secrets; [] if there are none. */
export function withheldNotes(withheld: readonly string[]): string[] {
  const [first] = withheld;
  if (first === undefined) {
    return [];
  }
  const named = withheld.slice(0, MOST_NAMED).join(', ');
  const more = withheld.length > MOST_NAMED ? ` and ${withheld.length - MOST_NAMED} more` : '';
  return [`Not uploaded because the file names indicate secrets: ${named}${more}. A line !${first} in .tonyignore includes ${first}.`];
}
