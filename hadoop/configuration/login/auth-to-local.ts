import { TonyError } from '../../../platform/errors.ts';

/*
 * Hadoop maps Kerberos principals to user names with the rules in hadoop.security.auth_to_local, a property in core-site.xml
 * (https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-common/SecureMode.html#Mapping_from_Kerberos_principals_to_OS_user_accounts).
 *
 *   DEFAULT                                     returns the first component if the principal is in the default realm
 *   RULE:[n:format](match)s/from/to/g/L         formats principals with n components: $0 is the realm, $1 and $2 are components;
 *                                               (match), s/.../.../, g and /L (lower case) are optional. DEFAULT ignores /L
 */
export interface AuthToLocal {
  readonly rules: string;
  /** `hadoop` rejects results that contain `/` or `@`. `mit` permits them and keeps a principal unchanged if no rule matches. */
  readonly mechanism: 'hadoop' | 'mit';
  /** The default realm, or null if it is unknown. If it is null, the `DEFAULT` rule accepts no principal, as in Hadoop. */
  readonly defaultRealm: string | null;
}

type Rule =
  | 'default'
  | {
      /** The rule applies only to principals with this number of components. */
      readonly components: number;
      readonly format: string;
      readonly match: RegExp | null;
      readonly substitution: { readonly from: RegExp; readonly to: string } | null;
      readonly lowerCase: boolean;
    };

const RULE = /\s*(?:(DEFAULT)|RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s\/([^/]*)\/([^/]*)\/(g)?)?)\/?(L)?/y;
const PRINCIPAL = /^([^/@]+)(?:\/([^/@]+))?(?:@([^/@]+))?$/;

/**
 * Applies the cluster's auth_to_local rules to a principal and returns the short user name.
 * @throws TonyError HADOOP_CONF_INVALID for invalid rules, KERBEROS_REALM_DENIED if no rule applies.
 */
export function shortName(principal: string, { rules, mechanism, defaultRealm }: AuthToLocal): string {
  const parsed = parseRules(rules);
  const match = PRINCIPAL.exec(principal);
  if (match === null && principal.includes('@')) {
    throw new TonyError('KERBEROS_REALM_DENIED', `${principal} is not a Kerberos principal.`);
  }
  const [, service = principal, host, realm] = match ?? [];
  if (host === undefined && realm === undefined) {
    return service;
  }
  const parts = host === undefined ? [realm ?? '', service] : [realm ?? '', service, host];
  for (const rule of parsed) {
    const name = applyRule(rule, parts, defaultRealm);
    if (name === null) {
      continue;
    }
    if (mechanism === 'hadoop' && /[/@]/.test(name)) {
      throw new TonyError('KERBEROS_REALM_DENIED', `hadoop.security.auth_to_local maps ${principal} to ${name}, which is not a user name.`);
    }
    return name;
  }
  if (mechanism === 'mit') {
    return principal;
  }
  throw new TonyError('KERBEROS_REALM_DENIED', `hadoop.security.auth_to_local has no rule for the principal ${principal}.`);
}

function applyRule(rule: Rule, parts: readonly string[], defaultRealm: string | null): string | null {
  if (rule === 'default') {
    return defaultRealm === parts[0] ? (parts[1] ?? '') : null;
  }
  if (parts.length - 1 !== rule.components) {
    return null;
  }
  const base = expand(rule.format, parts, rule.format);
  if (rule.match !== null && !rule.match.test(base)) {
    return null;
  }
  const { substitution } = rule;
  const name = substitution === null ? base : substitute(base, substitution.from, substitution.to);
  return rule.lowerCase ? name.toLowerCase() : name;
}

function expand(text: string, values: readonly string[], rule: string): string {
  return text.replace(/\$(\d*)/g, (reference, index: string) => {
    const value = index === '' ? undefined : values[Number(index)];
    if (value === undefined) {
      throw invalid(`reference ${reference}`, rule);
    }
    return value;
  });
}

/**
 * Replaces matches as Java does. In Java's replacement text, `$0` is the whole match, and a backslash quotes the next character. After `$`,
 * Java reads digits only as long as they form the number of an existing group.
 */
function substitute(base: string, from: RegExp, to: string): string {
  return base.replace(from, (...found: readonly unknown[]) => {
    const end = found.findIndex((each) => typeof each === 'number');
    const groups = found.slice(0, end) as readonly (string | undefined)[];
    return to.replace(/\\(.)|\$(\d*)/gs, (reference, quoted: string | undefined, digits: string) => {
      if (quoted !== undefined) {
        return quoted;
      }
      let length = 1;
      while (length < digits.length && Number(digits.slice(0, length + 1)) < groups.length) {
        length += 1;
      }
      const index = digits.slice(0, length);
      if (index === '' || Number(index) >= groups.length) {
        throw invalid(`reference ${reference}`, to);
      }
      return (groups[Number(index)] ?? '') + digits.slice(length);
    });
  });
}

function parseRules(text: string): Rule[] {
  const rules: Rule[] = [];
  const source = text.trim();
  for (let at = 0; at < source.length; ) {
    RULE.lastIndex = at;
    const found = RULE.exec(source);
    if (found === null || found[0] === '') {
      throw new TonyError('HADOOP_CONF_INVALID', `hadoop.security.auth_to_local has an invalid rule: "${source.slice(at, at + 100)}".`);
    }
    rules.push(ruleOf(found));
    at = RULE.lastIndex;
  }
  return rules;
}

function ruleOf([, isDefault, components = '', format = '', match, from, to = '', global, lower]: RegExpExecArray): Rule {
  if (isDefault !== undefined) {
    return 'default';
  }
  return {
    components: Number(components),
    format,
    match: match === undefined ? null : pattern(match, '', (source) => `^(?:${source})$`),
    substitution: from === undefined ? null : { from: pattern(from, global ?? ''), to },
    lowerCase: lower !== undefined,
  };
}

/**
 * Matches regular expression syntax that JavaScript interprets differently from Java: `\p{Lower}`, `\Q...\E`, `\A`, `\z`, `[a&&b]` and
 * possessive quantifiers.
 */
const JAVA_ONLY = /\\[pPQEAzZGhHR]|&&|[*+?}]\+/;

function pattern(java: string, flags: string, whole: (source: string) => string = (source) => source): RegExp {
  const ignoresCase = java.startsWith('(?i)');
  const source = ignoresCase ? java.slice('(?i)'.length) : java;
  if (JAVA_ONLY.test(source)) {
    throw invalid('pattern, which uses syntax that only Java supports', java);
  }
  try {
    return new RegExp(whole(source), ignoresCase ? `${flags}i` : flags);
  } catch (error) {
    throw invalid('pattern', java, error);
  }
}

function invalid(what: string, source: string, cause?: unknown): TonyError {
  const message = `hadoop.security.auth_to_local has an invalid ${what}: ${source}.`;
  return new TonyError('HADOOP_CONF_INVALID', message, cause === undefined ? {} : { cause });
}
