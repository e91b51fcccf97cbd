import { Session } from 'node:inspector';

interface Described {
  readonly privateProperties?: readonly { readonly name: string; readonly value?: { readonly type: string } }[];
}

/**
 * Returns the names of an object's private fields (`#name`), which only the debugger can see. Private methods are not included. Returns no
 * names if another debugger or the permissions of the process prevent the question.
 */
export function privateFieldsOf(object: object): string[] {
  const key = `tony-ts ${Math.random()}`;
  const globals = globalThis as unknown as Record<string, unknown>;
  const session = new Session();
  let fields: string[] = [];
  try {
    session.connect();
    globals[key] = object;
    // Within one thread, the inspector calls back before `post` returns.
    session.post('Runtime.evaluate', { expression: `globalThis[${JSON.stringify(key)}]` }, (_, evaluated) => {
      const { objectId } = (evaluated as { result?: { objectId?: string } } | undefined)?.result ?? {};
      if (objectId !== undefined) {
        session.post('Runtime.getProperties', { objectId, ownProperties: true }, (__, described) => {
          const all = (described as Described | undefined)?.privateProperties ?? [];
          fields = all.flatMap(({ name, value }) => (value === undefined || value.type === 'function' ? [] : [name]));
        });
      }
    });
  } catch {
    return [];
  } finally {
    delete globals[key];
    session.disconnect();
  }
  return fields;
}
