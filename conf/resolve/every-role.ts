import { type Document, isAlias, isMap, isScalar, type Pair, type YAMLMap } from 'yaml';
import { EVERY_ROLE } from '../values/role-name.ts';
import { copyOf } from '../yaml-document.ts';
import { isOneValue } from './default-values.ts';

/**
 * Merges the entry `*` of `roles` in job.yaml into every role, and removes it. Keys of a role take precedence. Nested mappings are merged by
 * key, as in the site file. The merged keys keep their positions, so that mistakes are reported where the user has written them. Leaves
 * values of the wrong type unchanged, because the validation reports them later.
 */
export function mergeEveryRole(document: Document): void {
  const roles = resolved(document, document.get('roles', true));
  if (!isMap(roles)) {
    return;
  }
  const every = resolved(document, roles.get(EVERY_ROLE, true));
  if (!isMap(every)) {
    return;
  }
  roles.delete(EVERY_ROLE);
  for (const pair of roles.items) {
    const own = ownCopy(document, pair);
    if (own !== null) {
      fillUp(document, own, every);
    }
  }
}

function fillUp(document: Document, into: YAMLMap, fill: YAMLMap): void {
  for (const { key, value } of fill.items) {
    const name = isScalar(key) ? key.value : key;
    const present = into.items.find((pair) => (isScalar(pair.key) ? pair.key.value : pair.key) === name);
    if (present === undefined) {
      into.items.push(document.createPair(key, copyOf(resolved(document, value))));
      continue;
    }
    const filling = resolved(document, value);
    const own = isMap(filling) && !isOneValue(String(name)) ? ownCopy(document, present) : null;
    if (own !== null && isMap(filling)) {
      fillUp(document, own, filling);
    }
  }
}

/** Returns the mapping that is the value of the pair, or null for other values. Replaces an alias, because a merge must not change its target. */
function ownCopy(document: Document, pair: Pair): YAMLMap | null {
  const target = resolved(document, pair.value);
  if (!isMap(target)) {
    return null;
  }
  const own = isAlias(pair.value) ? (copyOf(target) as YAMLMap) : target;
  pair.value = own;
  return own;
}

function resolved(document: Document, node: unknown): unknown {
  return isAlias(node) ? node.resolve(document) : node;
}
