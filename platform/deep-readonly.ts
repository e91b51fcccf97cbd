/** A value of type `T` whose properties and elements cannot be changed, for types that are derived from a schema. */
export type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;
