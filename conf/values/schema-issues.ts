import type * as z from 'zod';

// Reads the mistakes that a schema reports.

export function tooBig({ origin, maximum, message }: z.core.$ZodIssueTooBig): string {
  switch (origin) {
    case 'number':
    case 'int':
      return `must be at most ${maximum}`;
    case 'string':
      return `must have at most ${maximum} characters`;
    default:
      return message.startsWith('Too big') ? `must have at most ${maximum} entries` : message;
  }
}

/**
 * Returns the mistakes in the alternative that the user most likely meant. Returns undefined if no alternative has the type of the value.
 */
export function meantAlternative<Issue extends z.core.$ZodIssue>(
  alternatives: readonly (readonly Issue[])[],
): readonly Issue[] | undefined {
  const withoutMistakeOf = (...codes: readonly string[]) =>
    alternatives.filter((issues) => issues.every(({ path, code }) => path.length > 0 || !codes.includes(code)));
  const [meant] = withoutMistakeOf('invalid_type', 'invalid_value').sort((one, other) => one.length - other.length);
  const found = meant ?? withoutMistakeOf('invalid_type')[0];
  // Alternatives may differ in the values that they accept for one key.
  return found?.map((issue) =>
    issue.code === 'invalid_value'
      ? { ...issue, values: [...new Set(alternatives.flat().flatMap((each) => valuesAt(each, issue.path)))] }
      : issue,
  );
}

function valuesAt(issue: z.core.$ZodIssue, path: z.core.$ZodIssue['path']): readonly z.core.util.Primitive[] {
  return issue.code === 'invalid_value' && issue.path.join() === path.join() ? issue.values : [];
}

export function typeName(expected: string): string {
  if (expected === 'object' || expected === 'record') {
    return 'a mapping';
  }
  if (expected === 'array') {
    return 'a list';
  }
  if (expected === 'int') {
    return 'a whole number';
  }
  if (expected === 'boolean') {
    return 'true or false';
  }
  return `a ${expected}`;
}
