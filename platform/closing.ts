/** Runs an action with a connection or another resource, and closes the resource when the action has ended. */
export async function closing<Resource extends { close(): void }, Result>(
  resource: Resource,
  action: (resource: Resource) => Promise<Result>,
): Promise<Result> {
  try {
    return await action(resource);
  } finally {
    resource.close();
  }
}
