import { editDistance } from '../platform/text/suggest.ts';
import type { JsonSchema } from './values/json-schema.ts';

/** Number of places that a message lists. */
const MOST_PLACES = 3;
/** In shorter words, one different letter makes a different word. */
const SHORTEST_SLIP = 4;

/**
 * Returns the paths of all keys that end with these parts, in the schema's order. `max_restarts` finds `maxRestarts`. A name that users
 * choose is shown as the kind of thing that it names, as in `roles.ROLE.resources.gpus`.
 */
export function placesOf(parts: readonly string[], schema: JsonSchema): string[][] {
  const wanted = parts.map(plainKey);
  const found: string[][] = [];
  const visit = (inner: JsonSchema, path: readonly string[]): void => {
    for (const { properties = {}, additionalProperties } of branchesOf(inner)) {
      for (const [key, child] of Object.entries(properties)) {
        const own = [...path, key];
        if (own.length >= wanted.length && wanted.every((part, at) => plainKey(own[own.length - wanted.length + at] ?? '') === part)) {
          found.push(own);
        }
        visit(child, own);
      }
      if (typeof additionalProperties === 'object') {
        visit(additionalProperties, [...path, placeholderBelow(path.at(-1) ?? '')]);
      }
    }
  };
  visit(schema, []);
  const distinct = new Map(found.map((path) => [path.join('.'), path]));
  return [...distinct.values()];
}

/**
 * Returns true if the key differs in one letter from a key that the same mapping knows. Such a slip is more likely than a key of the same
 * name elsewhere: `role` at the top level means `roles`, not the key `role` under `after`.
 */
export function isSlip(key: string, known: readonly string[]): boolean {
  const plain = plainKey(key);
  return plain.length >= SHORTEST_SLIP && known.some((each) => editDistance(plain, plainKey(each)) === 1);
}

/**
 * Returns where a mapping belongs that stands next to `roles` although it has keys of a role, such as `roles.worker`. Returns undefined for
 * all other mappings.
 * @param keys the keys of the mapping
 * @param parent the schema of the mapping that contains it
 */
export function placeOfRole(
  path: readonly (string | number)[],
  keys: readonly string[],
  parent: JsonSchema | undefined,
): string | undefined {
  const role = parent?.properties?.roles?.additionalProperties;
  const known = typeof role === 'object' ? branchesOf(role).flatMap(({ properties = {} }) => Object.keys(properties)) : [];
  return keys.some((key) => known.includes(key)) ? [...path.slice(0, -1), 'roles', path.at(-1)].join('.') : undefined;
}

/** Returns the places of a misplaced key that are nearest to it, as text for a message. Returns undefined if there are none, or too many. */
export function nearestPlaces(path: readonly (string | number)[], schema: JsonSchema): string | undefined {
  const written = path.map(String);
  const places = placesOf(written.slice(-1), schema)
    .map((place) => withNamesOf(place, written))
    .map((place) => ({ place, shared: place.findIndex((part, at) => part !== written[at]) }));
  const nearest = Math.max(...places.map(({ shared }) => shared));
  const near = places.filter(({ shared }) => shared === nearest).map(({ place }) => place);
  if (near.length === 0 || near.length > MOST_PLACES) {
    return undefined;
  }
  // Below another key, the name of a key of the top level would read as the key that is wrong.
  const isTop = written.length > 1 && near.every(({ length }) => length === 1);
  return `${orList(near.map((place) => place.join('.')))}${isTop ? ' at the top level' : ''}`;
}

/** Replaces the placeholders in a path by the names that stand in their places. */
export function withNamesOf(place: readonly string[], written: readonly string[]): string[] {
  const differs = place.findIndex((part, at) => part !== written[at] && !isPlaceholder(part));
  return place.map((part, at) =>
    isPlaceholder(part) && at < written.length - 1 && (differs < 0 || at < differs) ? (written[at] ?? part) : part,
  );
}

export function orList(places: readonly string[]): string {
  const quoted = places.map((place) => `\`${place}\``);
  return quoted.length < 2 ? quoted.join('') : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

/** Returns the key without differences in the style of its spelling. */
export function plainKey(key: string): string {
  return key.replace(/[_-]/g, '').toLowerCase();
}

function isPlaceholder(part: string): boolean {
  return /^[A-Z]+$/.test(part);
}

function placeholderBelow(group: string): string {
  return group.endsWith('s') && group !== 'resources' ? group.slice(0, -1).toUpperCase() : 'NAME';
}

function branchesOf(schema: JsonSchema): JsonSchema[] {
  return [schema, ...(schema.anyOf ?? []).flatMap(branchesOf)];
}
