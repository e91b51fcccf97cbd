const NAME = '[a-z][a-z0-9-]{0,62}';

/** What a role may be called: names come into environments, tags, terminals and shells. */
export const ROLE_NAME = new RegExp(`^${NAME}$`);

/** The same, or `*` for each role that is not named. */
export const ROLE_NAME_OR_ALL = new RegExp(`^(\\*|${NAME})$`);
