import { type Document, isAlias, isMap, isScalar, type Node, Scalar } from 'yaml';
import { TonyError } from '../../platform/errors.ts';
import { suggest } from '../../platform/text/suggest.ts';
import { isTextKey } from '../job-values.ts';
import { copyOf, parseYaml, type YamlPath } from '../yaml-document.ts';
import { splitAssignment } from './assignment.ts';

/**
 * Applies an override in `--set` syntax, for example `roles.worker.instances=4`, to the document. Creates missing keys.
 * @param overridden the applied assignments by the keys that they have set or created, which this function extends
 * @throws TonyError USAGE if the text is not an assignment, or if the value is not valid YAML
 */
export function applyOverride(document: Document, assignment: string, overridden: Map<string, string>): void {
  const { keys, text } = splitAssignment(assignment);
  refuseMisspeltRole(document, assignment, keys);
  const value = parseValue(assignment, text, keys);
  for (let depth = 1; depth < keys.length; depth++) {
    const path = keys.slice(0, depth);
    const parent = document.getIn(path, true);
    const target = isAlias(parent) ? parent.resolve(document) : undefined;
    if (isMap(target)) {
      // The override must not change the mapping to which the alias refers.
      document.setIn(path, copyOf(target));
    } else if (parent === undefined) {
      overridden.set(keyOf(path), assignment);
    } else if (!isMap(parent)) {
      document.deleteIn(path);
    }
  }
  document.setIn(keys, value);
  overridden.set(keyOf(keys), assignment);
}

/** A key of a role that the file does not define would add the role. `roles.NAME={...}` adds a role with any name. */
function refuseMisspeltRole(document: Document, assignment: string, [top, name, ...rest]: readonly string[]): void {
  const roles = document.get('roles', true);
  if (top !== 'roles' || name === undefined || rest.length === 0 || !isMap(roles) || roles.has(name)) {
    return;
  }
  const meant = suggest(
    name,
    roles.items.map(({ key }) => String(isScalar(key) ? key.value : key)),
  );
  if (meant !== undefined) {
    throw new TonyError('USAGE', `--set ${assignment}: the job has no role ${name}; did you mean ${meant}?`, {
      hint: `To add a role, write --set 'roles.${name}={instances: 1, command: ...}'.`,
    });
  }
}

/** Returns the assignment that has set the key or one of its parents. */
export function overriddenBy(path: YamlPath, overridden: ReadonlyMap<string, string>): string | undefined {
  for (let length = path.length; length > 0; length--) {
    const found = overridden.get(keyOf(path.slice(0, length)));
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}

function parseValue(assignment: string, text: string, keys: readonly string[]): Node {
  // Shell variables are often empty.
  if (text.trim() === '' && isTextKey(keys)) {
    return new Scalar('');
  }
  const { document, mistakes } = parseYaml(text, { isText: isTextKey }, keys);
  const [mistake] = mistakes;
  if (mistake !== undefined) {
    throw new TonyError('USAGE', `The value of --set ${assignment} is not valid YAML: ${mistake.message}.`, {
      hint: 'Quote the value, as in --set \'command="node train.ts --rate 0.1"\'.',
    });
  }
  return document.contents ?? new Scalar(null);
}

function keyOf(path: YamlPath): string {
  return path.join('\u0000');
}
