/** Runs an action that uses a connection or another resource. Closes the resource when the action ends. */
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
