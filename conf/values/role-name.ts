const NAME = '[a-z][a-z0-9-]{0,62}';

/** The valid names of a role. They are safe in environment variables, application tags, terminals and shell commands. */
export const ROLE_NAME = new RegExp(`^${NAME}$`);

/** A role name, or `*`. */
export const ROLE_NAME_OR_ALL = new RegExp(`^(\\*|${NAME})$`);

/** A task as `worker:0`. */
export const TASK_NAME = new RegExp(`^${NAME}:\\d{1,6}$`);
