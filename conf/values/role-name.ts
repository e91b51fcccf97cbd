const NAME = '[a-z][a-z0-9-]{0,62}';

/** Pattern of role names, which are safe in environment variables, application tags, terminals and shell commands. */
export const ROLE_NAME = new RegExp(`^${NAME}$`);

/** Pattern of a role name, or `*`. */
export const ROLE_NAME_OR_ALL = new RegExp(`^(\\*|${NAME})$`);

/** Pattern of a task name, such as `worker:0`. */
export const TASK_NAME = new RegExp(`^${NAME}:\\d{1,6}$`);
