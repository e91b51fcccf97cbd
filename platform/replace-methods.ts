/** Replaces methods of one object. Returns a function that restores them. */
export function replaceMethods<Target extends object>(target: Target, methods: Partial<Target>): () => void {
  const own = Object.getOwnPropertyDescriptors(target) as Readonly<Record<string, PropertyDescriptor>>;
  Object.assign(target, methods);
  return () => {
    for (const name of Object.keys(methods)) {
      Reflect.deleteProperty(target, name);
      const before = own[name];
      if (before !== undefined) {
        Object.defineProperty(target, name, before);
      }
    }
  };
}
