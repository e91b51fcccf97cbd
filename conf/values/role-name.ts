const NAME = '[a-z][a-z0-9-]{0,62}';

/** Pattern of role names. Role names are safe in environment variables, application tags, terminals and shell commands. */
export const ROLE_NAME = new RegExp(`^${NAME}$`);

export const ROLE_NAME_OR_ALL = new RegExp(`^(\\*|${NAME})$`);

export const TASK_NAME = new RegExp(`^${NAME}:\\d{1,6}$`);

/** Name under `roles` in job.yaml or a site file for values that apply to every role. Values under a role's own name take precedence. */
export const EVERY_ROLE = '*';
