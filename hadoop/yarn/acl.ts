/** Users and groups that YARN grants access to an application. */
export interface Acl {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}
