import { TonyError } from '../../platform/errors.ts';

/*
 * Hadoop maps Kerberos principals to user names with the rules in hadoop.security.auth_to_local, a property in core-site.xml
 * (https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-common/SecureMode.html#Mapping_from_Kerberos_principals_to_OS_user_accounts).
 *
 *   DEFAULT                                     returns the first component if the principal is in the default realm
 *   RULE:[n:format](match)s/from/to/g/L         formats principals with n components: $0 is the realm, $1 and $2 are components;
 *                                               (match), s/.../.../, g and /L (lower case) are optional
 */
export interface AuthToLocal {
  readonly rules: string;
  /** `hadoop` rejects results that contain `/` or `@`. `mit` permits them and keeps a principal unchanged if no rule matches. */
  readonly mechanism: 'hadoop' | 'mit';
  /** The default realm of this machine. If it is null (unknown), DEFAULT accepts principals of any realm. */
  readonly defaultRealm: string | null;
}

interface Rule {
  /** Number of components that a principal must have; 0 for DEFAULT. */
  readonly components: number;
  readonly format: string;
  readonly match: RegExp | null;
  readonly substitution: { readonly from: RegExp; readonly to: string } | null;
  readonly lowerCase: boolean;
}

const RULE = /\s*(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s\/([^/]*)\/([^/]*)\/(g)?)?)\/?(L)?/y;
const PRINCIPAL = /^([^/@]+)(?:\/([^/@]+))?(?:@([^/@]+))?$/;

/**
 * Applies the cluster's auth_to_local rules to a principal and returns the short user name.
 * @throws TonyError HADOOP_CONF_INVALID for invalid rules, KERBEROS_REALM if no rule applies.
 */
export function shortName(principal: string, { rules, mechanism, defaultRealm }: AuthToLocal): string {
  const parsed = parseRules(rules);
  const match = PRINCIPAL.exec(principal);
  if (match === null && principal.includes('@')) {
    throw new TonyError('KERBEROS_REALM', `${principal} is not a Kerberos principal.`);
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
      throw new TonyError('KERBEROS_REALM', `hadoop.security.auth_to_local maps ${principal} to ${name}, which is not a user name.`);
    }
    return name;
  }
  if (mechanism === 'mit') {
    return principal;
  }
  throw new TonyError('KERBEROS_REALM', `hadoop.security.auth_to_local has no rule for the principal ${principal}.`);
}

function applyRule(rule: Rule, parts: readonly string[], defaultRealm: string | null): string | null {
  if (rule.components === 0) {
    const isDefault = defaultRealm === null || defaultRealm === parts[0];
    return isDefault ? withCase(parts[1] ?? '', rule) : null;
  }
  if (parts.length - 1 !== rule.components) {
    return null;
  }
  const base = rule.format.replace(/\$(\d)/g, (_, index: string) => parts[Number(index)] ?? '');
  if (rule.match !== null && !rule.match.test(base)) {
    return null;
  }
  const { substitution } = rule;
  return withCase(substitution === null ? base : base.replace(substitution.from, substitution.to), rule);
}

function withCase(name: string, { lowerCase }: Rule): string {
  return lowerCase ? name.toLowerCase() : name;
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
  const lowerCase = lower !== undefined;
  if (isDefault !== undefined) {
    return { components: 0, format: '', match: null, substitution: null, lowerCase };
  }
  return {
    components: Number(components),
    format,
    match: match === undefined ? null : pattern(`^(?:${match})$`, ''),
    substitution: from === undefined ? null : { from: pattern(from, global ?? ''), to },
    lowerCase,
  };
}

function pattern(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags);
  } catch (error) {
    throw new TonyError('HADOOP_CONF_INVALID', `hadoop.security.auth_to_local has an invalid pattern: ${source}.`, { cause: error });
  }
}
